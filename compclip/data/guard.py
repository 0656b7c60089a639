"""Runs a server for as long as another process lives: `python -I guard.py PARENT PATIENCE_S COMMAND…`.

It ends the server and all that this started, kindly first, when it is told to (SIGTERM), when its parent has gone, by
whatever signal, and when the server has ended by itself. Killed itself, it takes the server along (on Linux). A process
of its own, since a killed one ends nothing; of the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

TICK_S = 0.1
DEATH_SIGNAL, SUBREAPER = 1, 36  # of prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


class Guard:
    """The server's process group, of which whatever is left behind becomes this process's child."""

    def __init__(self, command: list[str]) -> None:
        self.code: int | None = None
        _prctl(SUBREAPER, 1)
        self._leader = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=lambda: _prctl(DEATH_SIGNAL, signal.SIGKILL)
        )

    def reap(self) -> None:
        """Note how the server ended, and bury what it left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._leader.pid:
                self.code = self._leader.returncode = os.waitstatus_to_exitcode(status)

    def end(self, patience_s: float) -> None:
        """Ask the group to end, and after so long end it."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + patience_s
            while self._told(number) and time.monotonic() < until:
                number = 0  # a look
                time.sleep(TICK_S)
                self.reap()

    def _told(self, number: int) -> bool:
        try:
            os.killpg(self._leader.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(argv: list[str]) -> int:
    """Guard one server; gives its exit code, 128 and more where a signal ended it."""
    parent, patience_s, command = int(argv[0]), float(argv[1]), argv[2:]
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: told.append(1))
    try:
        guard = Guard(command)
    except (OSError, ValueError) as error:
        print(f"{command[0]}: {error}", flush=True)
        return 127
    while not told and guard.code is None and os.getppid() == parent:
        time.sleep(TICK_S)
        guard.reap()
    guard.end(patience_s)
    code = guard.code or 0
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
