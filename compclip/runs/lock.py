"""Who works on a run: one process, on one machine, at a time.

`flock` holds between the processes of a machine, and between machines on file systems that carry it (NFS version 4,
Lustre mounted with `flock`, GPFS). Where it does not reach (Lustre mounted with `localflock`, NFS version 3 without a
lock daemon), or where there is none at all, a lease does.

The leases of a run are numbered. Whoever makes the next number holds the run: only one of several can make a file that
is not there yet, on network file systems too. The highest number is never deleted, so that none comes twice and a slow
process cannot take away what another one has made since.

The holder touches its lease every BEAT_S seconds. One of another machine is a dead one's when this machine has seen it
stand still for DEAD_S, by a clock of its own that nobody sets: times of two machines are never compared. Since when it
stands still is noted beside it (seen.*.json), for the next command that looks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.base.shared_folders import explain, open_plain, share_with_group
from compclip.runs import progress
from compclip.runs.run_folder import RunFolder

POLL_S = 0.2
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # what flock says where a file system has none
LOST = 75  # the exit code of a process whose run another one took over
BEAT_S = 15.0
DEAD_S = 60.0
GIVEN_BACK = 0.0  # the time of a lease whose holder has left


@contextlib.contextmanager
def hold(folder: RunFolder, waiting: Callable[[], None] = lambda: None, devices: int = 1) -> Iterator[None]:
    """Hold a run; a second process waits here, calling `waiting` now and then.

    The time is noted as one of the run's lives, on so many devices. Raises UserError where the folder cannot be
    written.
    """
    lease = Lease(folder)
    file = _try_to_hold(lease)
    if file is None:  # someone may only have looked whether the lock is held
        time.sleep(POLL_S)
        file = _try_to_hold(lease)
    if file is None:
        holder = describe_holder(folder) or "another process"
        print(f"{folder.path}: {holder} works on this run; waiting for it", flush=True)
    while file is None:
        waiting()
        time.sleep(POLL_S)
        file = _try_to_hold(lease)
    with file, contextlib.closing(lease):
        for path in folder.half_written():
            path.unlink(missing_ok=True)
        with _keep_alive(lease, devices):
            yield


@contextlib.contextmanager
def hold_at_once(folder: RunFolder) -> Iterator[bool]:
    """Hold a run without working on it; False where somebody else holds it. Raises UserError as `hold` does."""
    lease = Lease(folder)
    file = _try_to_hold(lease)
    if file is None:
        yield False
        return
    with file, contextlib.closing(lease):
        yield True


def find_holder(folder: RunFolder) -> int | None:
    """Return the process of this machine that holds a run, 0 where its number is unknown, None where none does.

    Raises UserError for a lock that is no plain file.
    """
    if not is_locked(folder.lock):
        return None
    pid = folder.lock.read_text(encoding="utf-8", errors="replace").strip()
    return int(pid) if pid.isdecimal() and len(pid) < 10 else 0


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock, of a run or of a shard. Raises UserError for one that is no plain file."""
    try:
        with open_plain(path, "r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # none there, not ours to read, or a file system without locks
        return False
    return False


def describe_holder(folder: RunFolder) -> str:
    """Describe who holds a run, as `process P` or `process P on HOST`; empty where nobody does."""
    pid = find_holder(folder)
    return _describe_lease_holder(folder, pid is not None) or ("" if pid is None else f"process {pid or '?'}")


def _describe_lease_holder(folder: RunFolder, locked: bool = False) -> str:
    """Describe the process that holds a run by its lease; empty without one, or where it is dead.

    `locked`: whether somebody holds the lock, so that no time needs to pass to know that they live.
    """
    try:
        number = folder.leases()[-1]
        touched = os.stat(folder.lease(number)).st_mtime
    except (OSError, IndexError):
        return ""
    holder = _read_lease(folder.lease(number))
    is_ours = holder.get("machine") == machine_name()
    if touched == GIVEN_BACK or (is_ours and not Path(f"/proc/{holder['pid']}").exists()):
        return ""
    if not locked and _watch(folder, number, touched, machine_name(), time.monotonic()) >= DEAD_S:
        return ""
    if not holder:
        return "another process"
    return f"process {holder['pid']}" if is_ours else f"process {holder['pid']} on {holder['host']}"


def _watch(folder: RunFolder, number: int, touched: float, machine: str, now: float) -> float:
    """Return for how many seconds a machine has seen a lease stand still; note when it is seen as it is for the first
    time.

    `now`: by that machine's clock since its start, which all its processes share. Who may not write the folder sees a
    lease for the first time at each look.
    """
    note = folder.sighting(hashlib.sha256(machine.encode()).hexdigest()[:8])
    sighting = {"lease": number, "touched": touched}
    earlier = {}
    with contextlib.suppress(UserError):
        earlier = read_mapping(note)
    since = earlier.pop("since", None)
    if earlier == sighting and isinstance(since, float) and since <= now:
        return now - since
    with contextlib.suppress(UserError):
        write_json(note, {**sighting, "since": now})
    return 0.0


def _try_to_hold(lease: Lease) -> IO[str] | None:
    """Take lock and lease and return the lock's open file; None where another process has either.

    Raises UserError where the folder cannot be written, or where not all of it is the run's own.
    """
    path = lease.folder.lock
    try:
        lease.folder.make()
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_plain(path, "a+"))
            locked = _take_lock(file)
            replaced = os.fstat(file.fileno()).st_ino != os.stat(path).st_ino  # the folder was removed meanwhile
            if locked is False or replaced or not lease.take(locked=bool(locked)):
                return None
            stack.callback(lease.close)
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
    messages.note(f"{store}: its file system carries no locks; a killed process's run waits a minute for the next one")


@contextlib.contextmanager
def _keep_alive(lease: Lease, devices: int) -> Iterator[None]:
    """Touch lease and life from a thread while the run is held, since a step may take long.

    A process that lost its run leaves at once: what it would save is not its own to write any more.
    """
    life = progress.begin_life(lease.folder, devices)
    over = threading.Event()

    def touch_until_over() -> None:
        while not over.wait(BEAT_S):
            if not lease.beat():
                who = _describe_lease_holder(lease.folder) or "another process"
                print(f"error: {lease.folder.path}: {who} took this run over while this process stood still; leaving",
                      file=sys.stderr, flush=True)  # fmt: skip
                os._exit(LOST)
            progress.touch_life(life)

    thread = threading.Thread(target=touch_until_over, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress.end_life(life)


@functools.cache
def machine_name() -> str:
    """Return a name of this machine since it was started; two with one host name differ."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{socket.gethostname()} {boot}"
    return socket.gethostname()


@dataclass
class Lease:
    """One process's claim on a run. `clock`: seconds that pass evenly on this machine."""

    folder: RunFolder
    machine: str = field(default_factory=machine_name)
    clock: Callable[[], float] = time.monotonic
    number: int = field(default=0, init=False)  # of our lease; 0: none

    def take(self, locked: bool = True) -> bool:
        """Take the run where nobody holds it or its holder is dead; return whether it is ours.

        `locked`: whether a lock is ours that processes of this machine cannot share, so that the last one is gone.
        Raises OSError where the folder cannot be written.
        """
        number = self._last_number()
        if number and not self._is_free(number, locked):
            return False
        return self._make(number + 1)

    def beat(self) -> bool:
        """Touch the lease and return whether it is still ours; it is where the file system does not answer."""
        try:
            if self._last_number() != self.number:
                return False
            os.utime(self.folder.lease(self.number), follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Release the lease if it is still ours."""
        with contextlib.suppress(OSError):
            os.utime(self.folder.lease(self.number), (GIVEN_BACK, GIVEN_BACK), follow_symlinks=False)
        self.number = 0

    def _last_number(self) -> int:
        return max(self.folder.leases(), default=0)

    def _is_free(self, number: int, locked: bool) -> bool:
        """Whether the last lease was given back, was of a process of this machine that is gone, or is a dead one's."""
        path = self.folder.lease(number)
        try:
            touched = os.stat(path).st_mtime
        except FileNotFoundError:  # there is a higher one now
            return False
        gone = locked and _read_lease(path).get("machine") == self.machine
        if gone or touched == GIVEN_BACK:
            return True
        return _watch(self.folder, number, touched, self.machine, self.clock()) >= DEAD_S

    def _make(self, number: int) -> bool:
        """Make the next lease and return whether it holds: another process may have made a higher one."""
        path = self.folder.lease(number)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        self.number = number
        holder = {"host": socket.gethostname(), "machine": self.machine, "pid": os.getpid()}
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(holder))
            share_with_group(path)
            above = self._last_number() > number
        except OSError:
            self.close()
            raise
        if above:
            self.number = 0
            _unlink(path)
            return False
        older = [self.folder.lease(old) for old in self.folder.leases() if old < number]
        for path in (*older, *self.folder.sightings()):
            _unlink(path)
        return True


def _read_lease(path: Path) -> dict[str, Any]:
    """Read a lease; empty where its holder died before it wrote."""
    with contextlib.suppress(UserError):
        lease = read_mapping(path)
        if lease.keys() >= {"host", "machine", "pid"}:
            return lease
    return {}


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
