"""The MLflow UI over all runs, for this machine alone unless --host says otherwise: `python -m compclip dashboard`."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.base.files import read_json
from compclip.track import reading, store, sync, view
from compclip.track.reading import Memory


def main(argv: list[str]) -> int:
    """The `dashboard` command: becomes the MLflow server until Ctrl-C."""
    args = _parser().parse_args(argv)
    uri = store.store_uri(args.uri)
    if uri.startswith("http"):
        print(f"the store is a server of its own: open {view.address(uri, opened(uri))}")
        return 0
    check(uri, args.host, args.port)
    for line in messages(uri, args.root, args.host, args.port):
        print(line, flush=True)
    # the job runner serves language-model features and costs processes
    environment = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **os.environ}
    return os.execve(sys.executable, command(uri, args.host, args.port, args.allowed_hosts), environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compclip dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; anything else opens it to others")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/ and results/")
    parser.add_argument("--uri", help=f"tracking URI; default: MLFLOW_TRACKING_URI or {store.DEFAULT_URI}")
    parser.add_argument("--allowed-hosts", help="names by which others reach it, for example gpu1.example.org:5000")
    return parser


def check(uri: str, host: str, port: int) -> None:
    """Raise UserError where there is no store yet or the port is taken."""
    file = store.database(uri)
    if file is not None and not file.is_file():
        raise UserError(f"{file}: no store yet; make it with `python -m compclip.track`")
    try:
        with socket.create_server((host, port)):
            pass
    except (OSError, OverflowError) as error:
        raise UserError(f"--host {host} --port {port}: cannot listen: {error}; choose another --port") from error


def messages(uri: str, root: Path, host: str, port: int) -> list[str]:
    """What to tell before the server starts: warning, hint, address."""
    name = f"[{host}]" if ":" in host else host
    if is_local(host):
        out = [f"listening on {host}: this machine alone can open it; --host 0.0.0.0 opens it to others"]
    else:
        out = [f"warning: listening on {host}: other machines can open it, and the UI has no password"]
    if newer := newer_runs(uri, root):
        out.append(f"hint: {newer} runs are not in the store yet; bring it up to date with `python -m compclip.track`")
    return [*out, f"{view.address(f'http://{name}:{port}', opened(uri))} over {store.shown(uri)}; Ctrl-C ends it"]


def opened(uri: str) -> str:
    """The experiment to open: the grid's, or none before the store was made."""
    file = store.beside(uri, "view.json")
    return str(read_json(file)["experiment"]) if file.is_file() else ""


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def newer_runs(uri: str, root: Path) -> int:
    """How many run directories are not in the store, or changed after they were logged."""
    stamp = sync.stamp(uri)
    held = read_json(stamp) if stamp.is_file() else {}
    known = Memory(sync.memory(uri))
    return sum(held.get(reading.name(run)) != known.content(run, scores) for run, scores in reading.published(root))


def command(uri: str, host: str, port: int, allowed_hosts: str | None = None) -> list[str]:
    """The server's command line. One worker: SQLite has one writer. Uploads by hand stay beside the database."""
    words = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", host, "--port", str(port)]
    words += ["--workers", "1"]
    if file := store.database(uri):
        words += ["--artifacts-destination", str((file.parent / "uploads").absolute())]
    return [*words, "--allowed-hosts", allowed_hosts] if allowed_hosts else words


if __name__ == "__main__":
    sys.exit(entry(main))
