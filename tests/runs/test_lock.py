"""Who holds a run: locks and leases together, lost runs, folders that take nothing."""

import errno
import fcntl
import json
import os
import signal

import pytest

from compclip.base.errors import UserError
from compclip.runs import lock
from tests.runs.machines import claim, outlived
from tests.tiny_project import ended, fork, wait_for


def test_the_next_process_waits_and_goes_on(run, monkeypatch, capfd):
    """`hold` calls back while it waits, says for whom, and holds the run when it is given back."""
    monkeypatch.setattr(lock, "POLL_S", 0.01)
    first, waited = lock.hold(run), []
    first.__enter__()

    def waiting() -> None:
        waited.append(lock.describe_holder(run))
        if len(waited) == 2:
            first.__exit__(None, None, None)

    with lock.hold(run, waiting):
        assert lock.describe_holder(run) == f"process {os.getpid()}"
    assert waited == [f"process {os.getpid()}"] * 2
    assert f"process {os.getpid()} works on this run; waiting for it" in capfd.readouterr().out
    assert lock.describe_holder(run) == ""


def test_where_no_lock_reaches(run, monkeypatch):
    """Locks that hold on one machine alone: another machine's lease keeps this one out, and is shown."""
    monkeypatch.setattr(lock, "POLL_S", 0.01)
    foreign_lease = claim(run, "elsewhere")
    assert foreign_lease.take()
    path = run.lease(run.leases()[-1])
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": "node7"}))
    assert lock.find_holder(run) is None
    assert lock.describe_holder(run) == f"process {os.getpid()} on node7"
    with lock.hold_at_once(run) as got:
        assert not got
    waits = iter((lambda: None, foreign_lease.close))
    with lock.hold(run, lambda: next(waits)()):
        assert lock.describe_holder(run) == f"process {os.getpid()}"


def test_where_there_are_no_locks_at_all(run, monkeypatch, capfd):
    """The lease alone decides, also between processes of this machine; that is said once."""

    def none(_file: object, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    lock._note_missing_locks.cache_clear()
    with lock.hold(run):
        with lock.hold_at_once(run) as got:
            assert not got
        assert lock.describe_holder(run) == f"process {os.getpid()}"
    with lock.hold_at_once(run) as got:
        assert got
    assert capfd.readouterr().err.count("carries no locks") == 1


def test_a_run_that_is_removed_while_one_waits(run, monkeypatch):
    """The lock of a file that is gone is nobody's: the next holder's file is the one that others see."""
    opened = os.fstat

    def removed_meanwhile(number: int) -> os.stat_result:
        monkeypatch.setattr(lock.os, "fstat", opened)
        os.rename(run.path, run.path.with_name("aside"))
        return opened(number)

    monkeypatch.setattr(lock.os, "fstat", removed_meanwhile)
    monkeypatch.setattr(lock, "POLL_S", 0.01)
    with lock.hold(run):
        assert (run.lock.is_file(), lock.find_holder(run)) == (True, os.getpid())


def test_a_lost_run_is_left_at_once(run, monkeypatch, capfd):
    """The beat says who has it, and the process ends without writing anything more."""
    exit_codes = []
    monkeypatch.setattr(lock, "BEAT_S", 0.1)
    monkeypatch.setattr(lock.os, "_exit", exit_codes.append)
    with lock.hold(run):
        wait_for(lambda: outlived(run, "elsewhere").take(locked=False))  # between two beats
        wait_for(lambda: exit_codes)
    assert exit_codes[0] == lock.LOST == 75
    assert "took this run over while this process stood still; leaving" in capfd.readouterr().err


def test_a_store_that_is_read_only(run, monkeypatch):
    """One line with the fix; who looks on needs no right to write."""

    def refused(path: object, mode: str) -> object:
        if "a" in mode:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return open(path, mode)

    run.lock.touch()
    monkeypatch.setattr(lock, "open_plain", refused)
    with (
        pytest.raises(UserError, match="Read-only file system; free space or make the folder writable"),
        lock.hold(run),
    ):
        pass
    assert (lock.find_holder(run), lock.describe_holder(run)) == (None, "")


def test_a_killed_process_leaves_the_run_free(run):
    """SIGKILL: the lock goes with it, and so does its lease on this machine."""

    def keep() -> None:
        with lock.hold(run):
            signal.pause()

    child = fork(keep)
    wait_for(lambda: lock.describe_holder(run) == f"process {child}")
    with lock.hold_at_once(run) as got:
        assert not got
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL
    assert lock.describe_holder(run) == ""
    with lock.hold_at_once(run) as got:
        assert got
