"""The MLflow UI over all runs, for this machine alone unless --host says otherwise: `compclip dashboard`."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from contextlib import suppress

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping
from compclip.base.progress_line import ProgressLine
from compclip.base.urls import mask_url, warn_of_password
from compclip.track import tracking_store

TOUR = "docs/mlflow.md is a tour of what it shows"
POLL_S = 0.2  # between two looks whether it answers
LOOPBACK = re.compile(r"localhost|::1|127(\.\d+){3}")  # hosts that only this machine reaches


def main(argv: list[str]) -> int:
    """The `dashboard` command: becomes the MLflow server until Ctrl-C."""
    parser = CommandParser(prog="compclip dashboard", description=__doc__.splitlines()[0], example="--port 5001")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; anything else opens it to others")
    parser.add_argument("--port", type=int, default=5000, help="where the page is served; default: 5000")
    parser.add_argument(
        "--uri", help=f"tracking URI; default: {tracking_store.VARIABLE} or {tracking_store.DEFAULT_URI}"
    )
    args = parser.parse_args(argv)
    uri = tracking_store.store_uri(args.uri)
    warn_of_password(args.uri, "--uri", tracking_store.VARIABLE)
    if tracking_store.is_server(uri):
        print(f"the store is a server of its own: open {mask_url(uri)}/{page_address(uri)}")
        return 0
    check_arguments(uri, args.host, args.port)
    # the job runner serves language-model features and costs processes
    environment = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment |= {"MLFLOW_LOGGING_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore", **os.environ}
    environment["MLFLOW_BACKEND_STORE_URI"] = uri  # a command line is everybody's to read
    tracking_store.check_schema(uri)
    if LOOPBACK.fullmatch(args.host):
        messages.note(f"listening on {args.host}: this machine alone can open it; --host 0.0.0.0 opens it to others")
    else:
        messages.warn(f"listening on {args.host}: other machines can open it, and the UI has no password")
    name = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{name}:{args.port}/{page_address(uri)}"
    announce((args.host, args.port), address)
    return os.execve(sys.executable, server_command(uri, args.host, args.port), environment)


def announce(place: tuple[str, int], address: str) -> None:
    """Say the address when the server answers: a process beside this one, which becomes the server, does."""
    server = os.getpid()
    if os.fork():
        return
    waiting = ProgressLine("starting MLflow")
    waiting.bar_format = "{desc} {elapsed}"
    while os.getppid() == server and not _answers(place):
        waiting.update()
        time.sleep(POLL_S)
    waiting.close()
    if os.getppid() == server:
        print(f"{address}\n{TOUR}; Ctrl-C ends it", flush=True)
    os._exit(0)


def _answers(place: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(place, timeout=1):
        return True
    return False


def check_arguments(uri: str, host: str, port: int) -> None:
    """Raise UserError where there is no store yet, the port is taken, or an argument is none."""
    file = tracking_store.sqlite_file(uri)
    if file is not None and not file.is_file():
        raise UserError(f"{file}: no store yet; make it with `compclip track`")
    if not host.strip():
        raise UserError(
            f"--host {host!r}: would open it to every machine; give 127.0.0.1, or 0.0.0.0 where you mean that"
        )
    if not 0 < port < 65536:
        raise UserError(f"--port {port}: must be from 1 to 65535")
    try:
        with socket.create_server((host, port)):
            pass
    except (OSError, UnicodeError) as error:
        raise UserError(f"--host {host} --port {port}: cannot listen: {error}; choose another --port") from error


def page_address(uri: str) -> str:
    """Return the part of the address that opens the grid's experiment; the list of all before the store was made."""
    note = tracking_store.path_beside(uri, "view.json")
    return tracking_store.address(str(read_mapping(note).get("experiment", "")) if note.is_file() else "")


def server_command(uri: str, host: str, port: int) -> list[str]:
    """Return the server's command line. One worker: SQLite has one writer. Uploads by hand stay beside the database."""
    words = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "1"]
    words += ["--uvicorn-opts", "--log-level warning"]  # a line a request hides the address
    file = tracking_store.sqlite_file(uri)
    if file:
        words += ["--artifacts-destination", str((file.parent / "uploads").absolute())]
    return words


if __name__ == "__main__":
    sys.exit(entry(main))
