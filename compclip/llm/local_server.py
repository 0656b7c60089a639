"""Run a server for the length of a task: start it, wait for it, watch it, and stop it whatever ends the task.

    with run_server(server, log) as (ready, watch):
        ask_questions(questions, ready, watch=watch)

The command stands in params.yaml, perhaps a stranger's: it runs only where the environment allows it, and is split
into words as a shell would, without one.
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

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line, shorten
from compclip.config.servers import ALLOW, PORT, Server
from compclip.llm import server_guard

HOST = "127.0.0.1"
REQUEST_TIMEOUT_S = 2.0  # of a request whether it is ready
TICK_S = 0.1
READY_S = 3600.0  # until it must answer: a large model loads for minutes
PATIENCE_S = 15.0  # between SIGTERM and SIGKILL
TAIL_LINES = 3
TAIL_BYTES = 4096
ServerConfig = TypeVar("ServerConfig", bound=Server)


@contextmanager
def run_server(server: ServerConfig, log: Path) -> Iterator[tuple[ServerConfig, Callable[[], None]]]:
    """Give the settings with the address to ask, and a function that raises UserError where the server has died.

    A `server` of the settings runs for the length of the context, and writes to `log`. Raises UserError where it is not
    allowed here, or does not become ready.
    """
    if not server.server:
        yield server, lambda: None
        return
    if os.environ.get(ALLOW) != "1":
        raise UserError(
            f"server={shorten(server.server, 200)}: params.yaml asks to start this program; read it, then allow grids "
            f"to start servers with {ALLOW}=1 in the environment"
        )
    port = _free_port()
    process = _ServerProcess(_start(server.server, port, log), server.server, log)
    try:
        process.await_ready(port, READY_S)
        yield replace(server, url=f"http://{HOST}:{port}/v1", server=""), process.check
    finally:
        process.stop()


def log_name() -> str:
    """Return a log's name that no other process has."""
    return f"server-{socket.gethostname()}-{os.getpid()}.log"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        return sock.getsockname()[1]


def _start(command: str, port: int, log: Path) -> subprocess.Popen[bytes]:
    words = [word.replace(PORT, str(port)) for word in shlex.split(command)]
    command_line = [sys.executable, "-I", server_guard.__file__, str(os.getpid()), str(PATIENCE_S), *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        environment = environment_variables.without_place(os.environ)
        return subprocess.Popen(command_line, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                start_new_session=True, env=environment)  # fmt: skip


@dataclass(frozen=True)
class _ServerProcess:
    """The guard of a server, its command and its log."""

    guard: subprocess.Popen[bytes]
    command: str
    log: Path

    def await_ready(self, port: int, seconds: float) -> None:
        """Return once it answers. Raises UserError where it dies or takes longer than that."""
        until = time.monotonic() + seconds
        while not _is_ready(port):
            self.check()
            if time.monotonic() >= until:
                raise self._error(f"not ready within {seconds:g} s")
            time.sleep(TICK_S)

    def check(self) -> None:
        """Raise UserError where the server has ended."""
        code = self.guard.poll()
        if code is not None:
            raise self._error(f"ended with exit code {code}")

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.guard.terminate()
        try:
            self.guard.wait(2 * PATIENCE_S + 5)
        except subprocess.TimeoutExpired:
            self.guard.kill()

    def _error(self, what: str) -> UserError:
        tail = _tail(self.log) or "nothing"
        return UserError(
            f"server={shorten(self.command, 200)}: {what}; its log {self.log} ends with: {shorten(tail, 400)}"
        )


def _is_ready(port: int) -> bool:
    """Return whether it is healthy, or has no such page and lists its models."""
    health = _status(port, "/health")
    return health == 200 or (health in (404, 405) and _status(port, "/v1/models") == 200)


def _status(port: int, path: str) -> int:
    """Return the status of a reply, 0 where there is none."""
    connection = http.client.HTTPConnection(HOST, port, timeout=REQUEST_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError):
        return 0
    finally:
        connection.close()


def _tail(log: Path) -> str:
    """Return the last lines of a log that are not empty."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        raw = file.read(TAIL_BYTES)
    lines = [one_line(line) for line in raw.decode("utf-8", "replace").splitlines()]
    return " | ".join([line for line in lines if line][-TAIL_LINES:])
