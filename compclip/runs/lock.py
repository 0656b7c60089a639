"""Who works on a run: one process, on one machine, at a time.

`flock` holds between the processes of a machine, and between machines on file systems that carry it (NFS version 4,
Lustre mounted with `flock`, GPFS). Where it does not reach, a lease does: the holder touches it every BEAT_S seconds,
and one of another machine that was not touched for DEAD_S is a dead one's. Ages are taken by the file system's clock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from compclip.base.errors import UserError
from compclip.runs import lives
from compclip.runs.folder import Folder

BEAT_S, DEAD_S = 15.0, 60.0
POLL_S = 0.2


@dataclass
class Lease:
    """A holder's sign of life beside the lock."""

    path: Path
    host: str = field(default_factory=socket.gethostname)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def take(self) -> bool:
        """Whether the lease is ours now: none was there, it was of this machine, or its holder is dead."""
        held = self._held()
        if held and held["token"] != self.token:
            if held["host"] != self.host and not self._dead():
                return False
            self._clear(held["token"])
        return self._create()

    def beat(self) -> bool:
        """Touch it; whether it is still ours."""
        held = self._held()
        if not held or held["token"] != self.token:
            return False
        with contextlib.suppress(OSError):
            os.utime(self.path)
        return True

    def drop(self) -> None:
        """Give it back."""
        held = self._held()
        if held and held["token"] == self.token:
            self.path.unlink(missing_ok=True)

    def holder(self) -> str:
        """Who holds it, as a person says it."""
        held = self._held()
        return f"process {held['pid']} on {held['host']}" if held else "another process"

    def _held(self) -> dict | None:
        try:
            return json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _dead(self) -> bool:
        """By the clock of the file system: machines' own may differ."""
        probe = self.path.with_name(f".lease.{self.token}")
        probe.touch()
        try:
            return probe.stat().st_mtime - self.path.stat().st_mtime > DEAD_S
        except FileNotFoundError:
            return True
        finally:
            probe.unlink(missing_ok=True)

    def _clear(self, token: str) -> None:
        """Take a dead holder's lease away; one that came in between is put back."""
        aside = self.path.with_name(f".lease.{self.token}.old")
        with contextlib.suppress(OSError, ValueError):
            os.rename(self.path, aside)
            if json.loads(aside.read_text(encoding="utf-8"))["token"] != token:
                os.link(aside, self.path)
        aside.unlink(missing_ok=True)

    def _create(self) -> bool:
        """Write it in one step, which of several only one can: `link` is atomic on network file systems too."""
        fresh = self.path.with_name(f".lease.{self.token}")
        fresh.write_text(json.dumps({"host": self.host, "pid": os.getpid(), "token": self.token}), encoding="utf-8")
        try:
            os.link(fresh, self.path)
        except FileExistsError:
            return False
        finally:
            fresh.unlink(missing_ok=True)
        return True


@contextlib.contextmanager
def hold(folder: Folder, waiting: Callable[[], None] = lambda: None, devices: int = 1) -> Iterator[None]:
    """Hold a run; a second process waits here, calling `waiting` now and then.

    The time is noted as one of the run's lives, on so many devices. Raises UserError where the folder cannot be
    written.
    """
    lease = Lease(folder.lease)
    with _opened(folder.lock) as file:
        _acquire(file, lease, folder, waiting)
        try:
            for path in folder.half_written():
                path.unlink()
            with _beating(lease, folder, devices):
                yield
        finally:
            lease.drop()
            fcntl.flock(file, fcntl.LOCK_UN)


def holder(folder: Folder) -> int | None:
    """The process of this machine that holds a run, 0 where it did not say which; None where none does."""
    try:
        with open(folder.lock, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        pid = folder.lock.read_text(encoding="utf-8").strip()
        return int(pid) if pid.isdigit() else 0
    return None


def _opened(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+", encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: cannot write: {why}; free space or make the folder writable") from error


def _acquire(file: IO[str], lease: Lease, folder: Folder, waiting: Callable[[], None]) -> None:
    if not _both(file, lease) and not _soon(file, lease):
        print(f"{folder.path}: {_said(file, lease)} works on this run; waiting for it", flush=True)
        while not _both(file, lease):
            waiting()
            time.sleep(POLL_S)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()


def _said(file: IO[str], lease: Lease) -> str:
    file.seek(0)
    pid = file.read().strip()
    return lease.holder() if not pid else f"process {pid}"


def _soon(file: IO[str], lease: Lease) -> bool:
    """Try once more: someone may only have looked whether the lock is held."""
    time.sleep(POLL_S)
    return _both(file, lease)


def _both(file: IO[str], lease: Lease) -> bool:
    """Lock and lease, or neither."""
    if not locked(file):
        return False
    try:
        if lease.take():
            return True
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{lease.path}: cannot write: {why}; free space or make the folder writable") from error
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def locked(file: IO[str]) -> bool:
    """Whether the file's lock is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _beating(lease: Lease, folder: Folder, devices: int) -> Iterator[None]:
    """Signs of life while the run is held, from a thread of its own: a step may take long."""
    life, over = lives.begin(folder, devices), threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_S):
            lives.touch(life)
            if not lease.beat():
                print(f"{lease.path}: {lease.holder()} took this run over; saving and leaving", file=sys.stderr)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        lives.touch(life)
