"""A holder's sign of life: it guards a run between machines where the file system carries no lock between them.

The leases of a run are numbered. Whoever makes the next number holds the run: only one of several can make a file that
is not there yet, on network file systems too. The highest number is never deleted, so that none comes twice and a slow
process cannot take away what another one has made since.

The holder touches its lease every BEAT_S seconds. One of another machine is a dead one's when it was not touched for
DEAD_S by the file system's clock and also stood still for STILL_S while we looked: some file systems (Lustre) stamp
with the writers' own clocks, and these may differ. After LONG_S nobody looks again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.base.shared_folders import share_with_group
from compclip.runs.run_folder import RunFolder

BEAT_S, STILL_S, DEAD_S, LONG_S = 15.0, 30.0, 60.0, 3600.0
GIVEN_BACK = 0.0  # the time of a lease whose holder has left


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
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    number: int = field(default=0, init=False)  # of our lease; 0: none
    _seen: tuple[int, float, float] = field(default=(0, 0.0, 0.0), init=False)  # another's number, its time, since when

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

    def drop(self) -> None:
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
        return gone or touched == GIVEN_BACK or self._is_silent(number, touched)

    def _is_silent(self, number: int, touched: float) -> bool:
        """Return whether it was not touched for long, by the file system's clock and while we looked."""
        now, first = self.clock(), self._seen[:2] != (number, touched)
        if first:
            self._seen = (number, touched, now)
        if not first and now - self._seen[2] < STILL_S:
            return False
        return self._read_clock() - touched > (LONG_S if first else DEAD_S)

    def _read_clock(self) -> float:
        """Return the time by the file system's clock."""
        probe = self.folder.path / f".lease.{self.token}"
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            os.utime(probe)
            return os.stat(probe).st_mtime
        finally:
            os.unlink(probe)

    def _make(self, number: int) -> bool:
        """Make the next lease and return whether it holds: another process may have made a higher one."""
        path = self.folder.lease(number)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        self.number = number
        holder = {"host": socket.gethostname(), "machine": self.machine, "pid": os.getpid(), "token": self.token}
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(holder))
            share_with_group(path)
            above = self._last_number() > number
        except OSError:
            self.drop()
            raise
        if above:
            self.number = 0
            _unlink(path)
            return False
        for old in self.folder.leases():
            if old < number:
                _unlink(self.folder.lease(old))
        return True


def describe_holder(folder: RunFolder) -> str:
    """Describe the process that holds a run by its lease; empty without one, or after DEAD_S without a sign of life."""
    try:
        path = folder.lease(folder.leases()[-1])
        touched = os.stat(path).st_mtime
    except (OSError, IndexError):
        return ""
    if touched == GIVEN_BACK or time.time() - touched > DEAD_S:
        return ""
    holder = _read_lease(path)
    if not holder:
        return "another process"
    if holder["machine"] != machine_name():
        return f"process {holder['pid']} on {holder['host']}"
    return f"process {holder['pid']}" if Path(f"/proc/{holder['pid']}").exists() else ""


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
