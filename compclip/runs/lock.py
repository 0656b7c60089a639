"""Who works on a run: one process, on one machine, at a time.

`flock` holds between the processes of a machine, and between machines on file systems that carry it (NFS version 4,
Lustre mounted with `flock`, GPFS). Where it does not reach (Lustre mounted with `localflock`, NFS version 3 without a
lock daemon), or where there is none at all, a lease does: see compclip/runs/lease.py.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from compclip.base.errors import UserError
from compclip.base.shared_folders import explain, open_plain
from compclip.runs import device_time, lease
from compclip.runs.lease import BEAT_S, Lease
from compclip.runs.run_folder import RunFolder

POLL_S = 0.2
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # what flock says where a file system has none
LOST = 75  # the exit code of a process whose run another one took over


@contextlib.contextmanager
def hold(folder: RunFolder, waiting: Callable[[], None] = lambda: None, devices: int = 1) -> Iterator[None]:
    """Hold a run; a second process waits here, calling `waiting` now and then.

    The time is noted as one of the run's lives, on so many devices. Raises UserError where the folder cannot be
    written.
    """
    claim = Lease(folder)
    with _acquire(claim, waiting):
        for path in folder.half_written():
            path.unlink(missing_ok=True)
        with _keep_alive(claim, devices):
            yield


@contextlib.contextmanager
def hold_at_once(folder: RunFolder) -> Iterator[bool]:
    """Hold a run without working on it; False where somebody else holds it. Raises UserError as `hold` does."""
    claim = Lease(folder)
    file = _try_to_hold(claim)
    if file is None:
        yield False
        return
    with _release_after(claim, file):
        yield True


def find_holder(folder: RunFolder) -> int | None:
    """Return the process of this machine that holds a run, 0 where its number is unknown, None where none does.

    Raises UserError for a lock that is no plain file.
    """
    try:
        with open_plain(folder.lock, "r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = folder.lock.read_text(encoding="utf-8", errors="replace").strip()
        return int(pid) if pid.isdecimal() and len(pid) < 10 else 0
    except OSError:  # none there, not ours to read, or a file system without locks
        return None
    return None


def describe_holder(folder: RunFolder) -> str:
    """Describe who holds a run, as `process P` or `process P on HOST`; empty where nobody does."""
    pid = find_holder(folder)
    return lease.describe_holder(folder) or ("" if pid is None else f"process {pid or '?'}")


@contextlib.contextmanager
def _acquire(claim: Lease, waiting: Callable[[], None]) -> Iterator[None]:
    file = _try_to_hold(claim)
    if file is None:  # someone may only have looked whether the lock is held
        time.sleep(POLL_S)
        file = _try_to_hold(claim)
    if file is None:
        holder = describe_holder(claim.folder) or "another process"
        print(f"{claim.folder.path}: {holder} works on this run; waiting for it", flush=True)
    while file is None:
        waiting()
        time.sleep(POLL_S)
        file = _try_to_hold(claim)
    with _release_after(claim, file):
        yield


@contextlib.contextmanager
def _release_after(claim: Lease, file: IO[str]) -> Iterator[None]:
    with file:
        try:
            yield
        finally:
            claim.drop()


def _try_to_hold(claim: Lease) -> IO[str] | None:
    """Take lock and lease and return the lock's open file; None where another process has either.

    Raises UserError where the folder cannot be written, or where not all of it is the run's own.
    """
    path = claim.folder.lock
    try:
        claim.folder.make()
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_plain(path, "a+"))
            if not _take_lock_and_lease(file, claim):
                return None
            stack.callback(claim.drop)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            stack.pop_all()
            return file
    except FileNotFoundError:  # the whole run was removed in between
        return None
    except OSError as error:
        why = explain(error, Path(error.filename or path), "free space or make the folder writable")
        raise UserError(f"{path}: cannot write: {why}") from error


def _take_lock_and_lease(file: IO[str], claim: Lease) -> bool:
    """Take lock and lease; False as well where the folder was removed while the file was opened."""
    locked = _take_lock(file)
    if locked is False or os.fstat(file.fileno()).st_ino != os.stat(claim.folder.lock).st_ino:
        return False
    return claim.take(locked=bool(locked))


def _take_lock(file: IO[str]) -> bool | None:
    """Try to lock the file; None where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        _note_missing_locks(Path(file.name).parent.parent)
        return None
    return True


@functools.cache
def _note_missing_locks(store: Path) -> None:
    print(f"note: {store}: its file system carries no locks; a killed process's run waits a minute for the next one",
          file=sys.stderr, flush=True)  # fmt: skip


@contextlib.contextmanager
def _keep_alive(claim: Lease, devices: int) -> Iterator[None]:
    """Touch lease and life from a thread while the run is held, since a step may take long."""
    life, over = device_time.begin_life(claim.folder, devices), threading.Event()
    thread = threading.Thread(target=_touch_until_over, args=(claim, life, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        device_time.end_life(life)


def _touch_until_over(claim: Lease, life: Path, over: threading.Event) -> None:
    """Touch lease and life until it is over. A process that lost its run leaves at once: what it would save is not its
    own to write any more."""
    while not over.wait(BEAT_S):
        if not claim.beat():
            who = lease.describe_holder(claim.folder) or "another process"
            print(f"error: {claim.folder.path}: {who} took this run over while this process stood still; leaving",
                  file=sys.stderr, flush=True)  # fmt: skip
            os._exit(LOST)
        device_time.touch_life(life)
