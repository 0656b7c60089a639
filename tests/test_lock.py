"""Who holds a run: never two, whatever dies, stands still or lies about the time, with and without locks that reach."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.runs import lease, lock, status
from compclip.runs.folder import Folder
from compclip.runs.lease import DEAD_S, LONG_S, STILL_S, Lease
from tests.tiny_project import at, cell, environment, wait_for

# What a lease asks the file system for, a step each.
CALLS = ("open", "utime", "stat", "unlink", "close")


@pytest.fixture
def run(tmp_path) -> Folder:
    """An empty run."""
    (tmp_path / "key").mkdir()
    return Folder(tmp_path / "key")


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def silent_for(run: Folder, seconds: float) -> None:
    """Make the last lease look untouched for so long."""
    then = time.time() - seconds
    os.utime(run.lease(run.leases()[-1]), (then, then))


def claim(run: Folder, machine: str, clock: Callable[[], float] = time.monotonic) -> Lease:
    """A process of some machine."""
    return Lease(run, machine, clock)


def test_one_of_two_machines(run):
    """The second one waits until the first has given it back; then the next number is its own."""
    first, second = claim(run, "a"), claim(run, "b")
    assert first.take() and not second.take() and not second.take(locked=False)
    assert first.beat()
    first.drop()
    assert second.take() and second.beat() and not first.beat()
    assert run.leases() == [2]


def test_a_killed_process_of_the_same_machine_is_gone_at_once(run):
    """Its lock is ours, so it lives no more; where there are no locks, only time tells."""
    assert claim(run, "a").take()
    assert not claim(run, "a").take(locked=False)
    assert claim(run, "a").take(locked=True)


def test_a_dead_machine_by_the_clock_of_the_file_system(run):
    """Untouched for DEAD_S, and seen to stand still for STILL_S: neither alone will do."""
    clock = Clock()
    dead, other = claim(run, "a"), claim(run, "b", clock)
    assert dead.take()
    silent_for(run, DEAD_S + 5)
    assert not other.take()
    clock.now += STILL_S - 1
    assert not other.take()
    clock.now += 1
    assert other.take()


def test_a_silence_that_is_too_short(run):
    """However long we looked."""
    clock = Clock()
    slow, other = claim(run, "a"), claim(run, "b", clock)
    assert slow.take()
    silent_for(run, DEAD_S - 20)
    assert not other.take()
    clock.now += STILL_S
    assert not other.take()


@pytest.mark.parametrize("ahead", [-1800.0, 1800.0])
def test_clocks_that_differ(run, ahead):
    """A file system that stamps with the writers' clocks: half an hour's difference costs a live holder nothing."""
    clock = Clock()
    skewed, other = claim(run, "a"), claim(run, "b", clock)
    assert skewed.take()
    for beat in range(20):
        silent_for(run, ahead - 15 * beat)
        assert not other.take()
        clock.now += 15
        assert not other.take()


def test_long_dead_needs_no_second_look(run):
    """A run of last week is taken over at once."""
    assert claim(run, "a").take()
    silent_for(run, LONG_S + 1)
    assert claim(run, "b").take()


def test_a_holder_that_stood_still(run):
    """It finds out at its next beat; what it gives back is not the other one's."""
    paused, other = claim(run, "a"), claim(run, "b")
    assert paused.take()
    silent_for(run, LONG_S + 1)
    assert other.take()
    assert not paused.beat()
    paused.drop()
    assert other.beat() and not claim(run, "c").take()


@pytest.mark.parametrize("left", ["", "{", "null", "[]", '{"pid": 1}'])
def test_a_holder_that_died_while_it_wrote(run, left):
    """Half a lease is somebody's until it was silent for long; nothing breaks over it."""
    run.lease(1).write_text(left)
    assert not claim(run, "a").take()
    assert lease.holder(run) in ("another process", "")
    silent_for(run, LONG_S + 1)
    assert claim(run, "a").take()


def test_a_full_disk_leaves_nobody_behind(run, monkeypatch):
    """A lease that could not be written is free again at once."""

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lease.json, "dumps", full)
        with pytest.raises(UserError, match="No space left on device; free space"), lock.hold(run):
            pass
    assert claim(run, "b").take()


def test_a_file_system_that_does_not_answer_takes_nothing_away(run, monkeypatch):
    """A beat that fails is no lost run; a folder that is gone is."""
    held = claim(run, "a")
    assert held.take()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "leases", _stale)
        assert held.beat()
    assert held.beat()
    shutil.rmtree(run.path)
    assert not held.beat()


def _stale(_self: Folder) -> list[int]:
    raise OSError(errno.ESTALE, "Stale file handle")


class Stepped:
    """Threads that take turns at each call to the file system, in an order that a test draws."""

    def __init__(self, order: list[int], actors: int) -> None:
        self.order, self.mine = iter(order), threading.local()
        self.gates = [threading.Semaphore(0) for _ in range(actors)]
        self.said: queue.Queue[int | None] = queue.Queue()  # who waits for a turn, or None: one is through

    def step(self) -> None:
        """Wait for this thread's turn; a thread that takes none goes on."""
        number = getattr(self.mine, "number", None)
        if number is not None:
            self.said.put(number)
            assert self.gates[number].acquire(timeout=60)

    def drive(self, actors: list[Callable[[], None]]) -> None:
        """Run all of them to their ends; one at a time moves."""
        with ThreadPoolExecutor(len(actors)) as pool:
            through = [pool.submit(self._act, number, actor) for number, actor in enumerate(actors)]
            waiting = [self.said.get(timeout=60) for _ in actors]
            while waiting:
                waiting.sort()
                self.gates[waiting.pop(next(self.order, 0) % len(waiting))].release()
                if (number := self.said.get(timeout=60)) is not None:
                    waiting.append(number)
            for future in through:
                future.result()

    def _act(self, number: int, actor: Callable[[], None]) -> None:
        self.mine.number = number
        try:
            self.step()
            actor()
        finally:
            self.said.put(None)

    def os(self) -> SimpleNamespace:
        """The module `os`, a step before each call."""
        return SimpleNamespace(
            **{name: getattr(os, name) for name in ("O_CREAT", "O_EXCL", "O_WRONLY", "getpid", "_exit")},
            **{name: functools.partial(self._call, getattr(os, name)) for name in CALLS},
        )

    def _call(self, function: Callable, *args: object) -> object:
        self.step()
        return function(*args)


@contextlib.contextmanager
def stepped(order: list[int], actors: int) -> Iterator[Stepped]:
    """Leases whose calls take turns."""
    steps, leases = Stepped(order, actors), Folder.leases
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "os", steps.os())
        patch.setattr(Folder, "leases", lambda self: (steps.step(), leases(self))[1])
        yield steps


@settings(max_examples=150)
@given(
    order=st.lists(st.integers(0, 5), min_size=100, max_size=100),
    machines=st.lists(st.sampled_from("abc"), min_size=2, max_size=4),
    before=st.sampled_from(["nothing", "dead", "given back", "half"]),
    rounds=st.integers(1, 3),
)
def test_never_two_holders(order, machines, before, rounds):
    """Machines whose locks do not reach each other, at every order of their calls: dead leases, drops, late comers."""
    with tempfile.TemporaryDirectory() as folder:
        run = Folder(Path(folder))
        _left(run, before)
        together = contend(run, order, machines, rounds)
        assert set(together) == {1}
        assert claim(run, "z").take()  # nobody is left behind


def contend(run: Folder, order: list[int], machines: list[str], rounds: int) -> list[int]:
    """How many held the run at each moment at which one more came to hold it."""
    holding, together = [], []
    with stepped(order, len(machines)) as steps:

        def actor(machine: str) -> None:
            for _ in range(rounds):
                mine = claim(run, machine)
                if mine.take(locked=False):
                    holding.append(machine)
                    together.append(len(holding))
                    steps.step()
                    assert mine.beat()
                    holding.remove(machine)
                    mine.drop()

        steps.drive([functools.partial(actor, machine) for machine in machines])
    return together


def _left(run: Folder, before: str) -> None:
    """What an earlier holder left."""
    if before == "half":
        run.lease(1).touch()
    elif before != "nothing":
        earlier = claim(run, "dead")
        assert earlier.take()
        if before == "given back":
            earlier.drop()
            return
    if before in ("dead", "half"):
        silent_for(run, LONG_S + 1)


def test_two_holders_would_be_seen(tmp_path, monkeypatch, rng):
    """The test above finds it where a lease that another one has made since is taken away."""
    make, seen = Lease._make, []

    def careless(self: Lease, number: int) -> bool:
        lease._unlink(self.folder.lease(number))
        return make(self, number)

    monkeypatch.setattr(Lease, "_make", careless)
    monkeypatch.setattr(Lease, "beat", lambda self: True)
    for number in range(40):
        run = Folder(tmp_path / str(number))
        run.path.mkdir()
        seen += contend(run, rng.integers(0, 6, 100).tolist(), ["a", "b"], 1)
    assert max(seen) == 2


def test_the_next_process_waits_and_goes_on(run, monkeypatch, capfd):
    """`hold` calls back while it waits, says for whom, and holds the run when it is given back."""
    monkeypatch.setattr(lock, "POLL_S", 0.01)
    first, waited = lock.hold(run), []
    first.__enter__()

    def waiting() -> None:
        waited.append(lock.said(run))
        if len(waited) == 2:
            first.__exit__(None, None, None)

    with lock.hold(run, waiting):
        assert lock.said(run) == f"process {os.getpid()}"
    assert waited == [f"process {os.getpid()}"] * 2
    assert f"process {os.getpid()} works on this run; waiting for it" in capfd.readouterr().out
    assert lock.said(run) == ""


def test_where_no_lock_reaches(run, monkeypatch):
    """Locks that hold on one machine alone: another machine's lease keeps this one out, and is shown."""
    monkeypatch.setattr(lock, "POLL_S", 0.01)
    other = claim(run, "elsewhere")
    assert other.take()
    _say_host(run, "node7")
    assert lock.holder(run) is None
    assert lock.said(run) == f"process {os.getpid()} on node7"
    with lock.at_once(run) as got:
        assert not got
    waits = iter((lambda: None, other.drop))
    with lock.hold(run, lambda: next(waits)()):
        assert lock.said(run) == f"process {os.getpid()}"


def _say_host(run: Folder, host: str) -> None:
    path = run.lease(run.leases()[-1])
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": host}))


def test_where_there_are_no_locks_at_all(run, monkeypatch, capfd):
    """The lease alone decides, also between processes of this machine; that is said once."""

    def none(_file: object, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", none)
    lock._say_without.cache_clear()
    with lock.hold(run):
        with lock.at_once(run) as got:
            assert not got
        assert lock.said(run) == f"process {os.getpid()}"
    with lock.at_once(run) as got:
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
        assert (run.lock.is_file(), lock.holder(run)) == (True, os.getpid())


def test_a_lost_run_is_left_at_once(run, monkeypatch, capfd):
    """The beat says who has it, and the process ends without writing anything more."""
    left = []
    monkeypatch.setattr(lock, "BEAT_S", 0.01)
    monkeypatch.setattr(lock.os, "_exit", left.append)
    with lock.hold(run):
        silent_for(run, LONG_S + 1)
        assert claim(run, "elsewhere").take(locked=False)
        wait_for(lambda: left)
    assert left[0] == lock.LOST == 75
    assert "took this run over while this process stood still; leaving" in capfd.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
@pytest.mark.parametrize("mode", [0o500, 0o555])
def test_a_folder_that_cannot_be_written(run, mode):
    """One line with the fix."""
    run.path.chmod(mode)
    try:
        with (
            pytest.raises(UserError, match="lock: cannot write: Permission denied; free space or make"),
            lock.hold(run),
        ):
            pass
        assert lock.said(run) == ""
    finally:
        run.path.chmod(0o700)


def test_a_store_that_is_read_only(run, monkeypatch):
    """The same of a mount; who looks on needs no right to write."""

    def refused(path: object, mode: str = "r", **kwargs: object) -> object:
        if "a" in mode:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return open(path, mode, **kwargs)

    run.lock.touch()
    monkeypatch.setattr(lock, "open", refused, raising=False)
    with (
        pytest.raises(UserError, match="Read-only file system; free space or make the folder writable"),
        lock.hold(run),
    ):
        pass
    assert (lock.holder(run), lock.said(run)) == (None, "")


def test_a_killed_process_leaves_the_run_free(run):
    """SIGKILL: the lock goes with it, and so does its lease on this machine."""
    code = (
        "import sys, pathlib, time; from compclip.runs import lock; from compclip.runs.folder import Folder\n"
        "with lock.hold(Folder(pathlib.Path(sys.argv[1]))): print('held', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE, text=True, env=environment()
    )
    try:
        assert child.stdout.readline() == "held\n"
        assert lock.said(run) == f"process {child.pid}"
        with lock.at_once(run) as got:
            assert not got
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert lock.said(run) == ""
    with lock.at_once(run) as got:
        assert got


def test_status_shows_a_run_that_another_machine_holds(here):
    """With its process and host; the table is there for those who only read."""
    made = at(cell("finetune"))
    made.folder.path.mkdir(parents=True)
    made.folder.lock.touch()
    other = claim(made.folder, "elsewhere")
    assert other.take()
    _say_host(made.folder, "node7")
    found = {one.name: status.row(one) for one in status.listed("params.yaml")[0]}[cell("finetune")]
    assert (found.state, found.job) == ("running", f"process {os.getpid()} on node7")
