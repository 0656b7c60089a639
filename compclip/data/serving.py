"""A server of one's own for the length of a task: started, waited for, watched, stopped, whatever ends the task.

    with running(server, log) as (ready, watch):
        chat.ask(questions, ready, watch=watch)

The command is params.yaml's and so may be a stranger's: it runs where the person says so, in the environment, and is
split into words as a shell would, without one.
"""

from __future__ import annotations

import http.client
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from compclip.base.errors import UserError, cut, one_line
from compclip.config.servers import PORT, Server
from compclip.data import guard

ALLOW = "COMPCLIP_ALLOW_SERVER"
HOST = "127.0.0.1"
LOOK_S = 2.0  # how long a look whether it is ready may take
TICK_S = 0.1
PATIENCE_S = 15.0  # between SIGTERM and SIGKILL
TAIL_LINES, TAIL_BYTES = 3, 4096
Asked = TypeVar("Asked", bound=Server)


@contextmanager
def running(server: Asked, log: Path) -> Iterator[tuple[Asked, Callable[[], None]]]:
    """The settings with the address to ask, and a function that raises UserError where its server has died.

    Where the settings have a `server`, it runs for so long, and writes to `log`. Raises UserError where that is not
    allowed here, or does not become ready.
    """
    if not server.server:
        yield server, lambda: None
        return
    if os.environ.get(ALLOW) != "1":
        raise UserError(
            f"server={cut(server.server, 200)}: params.yaml asks to start this program; read it, then allow grids to "
            f"start servers with {ALLOW}=1 in the environment"
        )
    port = _free_port()
    own = _Own(_start(server.server, port, log), server.server, log)
    try:
        own.await_ready(port, server.server_ready_s)
        yield replace(server, url=f"http://{HOST}:{port}/v1", server=""), own.check
    finally:
        own.stop()


def log_name() -> str:
    """A log's name that no other process has."""
    return f"server-{socket.gethostname()}-{os.getpid()}.log"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return sock.getsockname()[1]


def _start(command: str, port: int, log: Path) -> subprocess.Popen[bytes]:
    words = [word.replace(PORT, str(port)) for word in shlex.split(command)]
    guarded = [sys.executable, "-I", guard.__file__, str(os.getpid()), str(PATIENCE_S), *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        return subprocess.Popen(
            guarded, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )


@dataclass(frozen=True)
class _Own:
    """The guard of a server, its command and its log."""

    guard: subprocess.Popen[bytes]
    command: str
    log: Path

    def await_ready(self, port: int, seconds: float) -> None:
        """Return once it answers. Raises UserError where it dies or takes longer than that."""
        until = time.monotonic() + seconds
        while not _ready(port):
            self.check()
            if time.monotonic() >= until:
                raise self._error(f"not ready within server_ready_s={seconds:g}; raise it")
            time.sleep(TICK_S)

    def check(self) -> None:
        """Raise UserError where the server has ended."""
        if (code := self.guard.poll()) is not None:
            raise self._error(f"ended with exit code {code}")

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.guard.terminate()
        try:
            self.guard.wait(2 * PATIENCE_S + 5)
        except subprocess.TimeoutExpired:
            self.guard.kill()

    def _error(self, what: str) -> UserError:
        said = _tail(self.log) or "nothing"
        return UserError(f"server={cut(self.command, 200)}: {what}; its log {self.log} ends with: {cut(said, 400)}")


def _ready(port: int) -> bool:
    """Whether it is well, or knows no such question and tells its models."""
    health = _status(port, "/health")
    return health == 200 or (health in (404, 405) and _status(port, "/v1/models") == 200)


def _status(port: int, path: str) -> int:
    """The status of an answer, 0 where there is none."""
    connection = http.client.HTTPConnection(HOST, port, timeout=LOOK_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError):
        return 0
    finally:
        connection.close()


def _tail(log: Path) -> str:
    """The last lines of a log that say something."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            raw = file.read(TAIL_BYTES)
    except OSError:
        return ""
    lines = [one_line(line) for line in raw.decode("utf-8", "replace").splitlines()]
    return " | ".join([line for line in lines if line][-TAIL_LINES:])
