"""The MLflow UI over all runs, on this machine only: `python -m compclip.dashboard [--port 5000]`."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
from pathlib import Path

from compclip import track
from compclip.errors import UserError, entry
from compclip.files import read_json


def main(argv: list[str]) -> int:
    """The `dashboard` command: becomes the MLflow server until Ctrl-C."""
    args = _parser().parse_args(argv)
    uri = track.store_uri(args.uri)
    if uri.startswith("http"):
        print(f"the store is a server of its own: open {uri}")
        return 0
    check(uri, args.host, args.port)
    for line in messages(uri, args.runs, args.host, args.port):
        print(line, flush=True)
    environment = {"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ}
    return os.execve(sys.executable, command(uri, args.host, args.port, args.allowed_hosts), environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compclip.dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; anything else opens it to others")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the run directories")
    parser.add_argument("--uri", help=f"tracking URI; default: MLFLOW_TRACKING_URI or {track.DEFAULT_URI}")
    parser.add_argument("--allowed-hosts", help="names by which others reach it, for example gpu1.example.org:5000")
    return parser


def check(uri: str, host: str, port: int) -> None:
    """Raise UserError where there is no store yet or the port is taken."""
    file = track.database(uri)
    if file is not None and not file.is_file():
        raise UserError(f"{file}: no store yet; make it with `python -m compclip.track`")
    try:
        with socket.create_server((host, port)):
            pass
    except (OSError, OverflowError) as error:
        raise UserError(f"--host {host} --port {port}: cannot listen: {error}; choose another --port") from error


def messages(uri: str, runs: Path, host: str, port: int) -> list[str]:
    """What to tell before the server starts: warning, hint, address."""
    out = []
    if not is_local(host):
        out.append(f"warning: {host} is reachable from other machines, and the UI has no password")
    if newer := newer_runs(uri, runs):
        out.append(f"hint: {newer} runs are not in the store yet; bring it up to date with `python -m compclip.track`")
    name = f"[{host}]" if ":" in host else host
    # without the last part the UI opens on its pages for language-model applications
    return [*out, f"http://{name}:{port}/#/experiments?workflowType=machine_learning over {uri}; Ctrl-C ends it"]


def is_local(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def newer_runs(uri: str, runs: Path) -> int:
    """How many run directories are not in the store, or changed after they were logged."""
    stamp = track.stamp(uri)
    held = read_json(stamp) if stamp.is_file() else {}
    return sum(held.get(p.parent.name) != track.content(p.parent) for p in runs.glob("*/config.yaml"))


def command(uri: str, host: str, port: int, allowed_hosts: str | None = None) -> list[str]:
    """The server's command line. One worker: SQLite has one writer. Uploads by hand stay beside the database."""
    words = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", host, "--port", str(port)]
    words += ["--workers", "1"]
    if file := track.database(uri):
        words += ["--artifacts-destination", str((file.parent / "uploads").absolute())]
    return [*words, "--allowed-hosts", allowed_hosts] if allowed_hosts else words


if __name__ == "__main__":
    sys.exit(entry(main))
