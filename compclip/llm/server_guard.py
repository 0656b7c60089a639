"""Run a server as long as another process lives: `python -I server_guard.py PARENT PATIENCE_S COMMAND…`.

It ends the server and all its processes, with SIGTERM first, when it gets SIGTERM, when its parent has gone by whatever
signal, and when the server has ended by itself. If the guard is killed, the server dies with it (on Linux). It is a
process apart, since a killed task ends nothing; it uses the standard library alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

TICK_S = 0.1
# of prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
DEATH_SIGNAL = 1
SUBREAPER = 36


class ServerGuard:
    """The server's process group; processes that it leaves behind become children of this one."""

    def __init__(self, command: list[str]) -> None:
        self.code: int | None = None
        _prctl(SUBREAPER, 1)
        self._leader = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=lambda: _prctl(DEATH_SIGNAL, signal.SIGKILL)
        )

    def reap(self) -> None:
        """Note the server's exit code, and reap ended processes."""
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
        """Send SIGTERM to the group, and SIGKILL after `patience_s`."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + patience_s
            is_alive = self._send_signal(number)
            while is_alive and time.monotonic() < until:
                time.sleep(TICK_S)
                self.reap()
                is_alive = self._send_signal(0)  # which only asks whether one is left

    def _send_signal(self, number: int) -> bool:
        """Send a signal to the group; return whether it has a process."""
        try:
            os.killpg(self._leader.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(argv: list[str]) -> int:
    """Guard one server; return its exit code, 128 and more where a signal ended it."""
    parent = int(argv[0])
    patience_s = float(argv[1])
    command = argv[2:]
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.append(number))
    try:
        guard = ServerGuard(command)
    except (OSError, ValueError) as error:
        print(f"{command[0]}: {error}", flush=True)
        return 127
    while not signals and guard.code is None and os.getppid() == parent:
        time.sleep(TICK_S)
        guard.reap()
    guard.end(patience_s)
    code = guard.code or 0
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
