"""The MLflow store: where it is, one writer at a time, a client, and its errors as one line."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from compclip.base.errors import UserError, one_line
from compclip.base.urls import checked, hidden, shown
from compclip.track import sqlite

if TYPE_CHECKING:
    from mlflow import MlflowClient

VARIABLE = "MLFLOW_TRACKING_URI"
MEMORY = ("sqlite://", "sqlite:///", "sqlite:///:memory:")
DEFAULT_URI = "sqlite:///mlflow/mlflow.db"
DEFAULT_FILE = Path("mlflow/mlflow.db")
PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default waits minutes for an absent server
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # what it logs of errors are tracebacks, with addresses in them
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
LATER = "nothing is lost: start it and run `python -m compclip.track` again"


def store_uri(given: str | None) -> str:
    """The tracking URI: the one given, MLFLOW_TRACKING_URI, or the SQLite file of the checkout.

    Raises UserError for one that MLflow cannot hold a store at, or whose parts cannot be told.
    """
    uri = given or os.environ.get(VARIABLE) or DEFAULT_URI
    if "://" not in uri or uri.startswith("file:"):
        raise UserError(
            f"uri={shown(uri)!r}: MLflow 3 keeps no file store; give sqlite:///FILE or a server's http:// address"
        )
    if uri in MEMORY:
        raise UserError(f"uri={uri!r}: names no file, and the store would go with the command; give sqlite:///FILE")
    return checked(uri, "uri")


def database(uri: str) -> Path | None:
    """The SQLite file of a URI; None for a server or another database."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def is_server(uri: str) -> bool:
    """Whether an MLflow server stands between us and the database; it keeps the artifacts, too."""
    return uri.startswith(("http://", "https://"))


def local(artifacts: str) -> Path:
    """The folder of a `file://` address, in which MLflow quotes some characters."""
    return Path(unquote(urlsplit(artifacts).path))


def beside(uri: str, name: str) -> Path:
    """A file beside the store, or where the checkout's store would be."""
    return (database(uri) or DEFAULT_FILE).with_name(name)


@contextmanager
def lock(file: Path) -> Iterator[None]:
    """One writer at a time; the next one says for whom it waits. The system frees the lock of a killed process."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = open(file, "a+", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{file}: cannot write: {error.strerror}; make its folder writable or give --uri") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            print(f"{file}: process {handle.read().strip() or '?'} is writing the store; waiting for it", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


@contextmanager
def client(uri: str) -> Iterator[MlflowClient]:
    """A client, its database made if need be, for one writer of this checkout; errors of MLflow become one line."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    file = database(uri)
    with lock(beside(uri, "mlflow.lock") if file is None else file.with_suffix(".lock")):
        reachable(uri)
        with _errors(uri):
            if file is not None:
                sqlite.complete(file, _connected)
            yield _connected(uri)


def _connected(uri: str) -> MlflowClient:
    from mlflow import MlflowClient

    found = MlflowClient(uri, uri)
    found.search_experiments(max_results=1)  # makes the tables, so that nothing below meets an empty database
    return found


def reachable(uri: str) -> None:
    """Raise UserError at once where nobody listens: MLflow itself tries a database for a minute and more."""
    parts = urlsplit(uri)
    port = parts.port or PORTS.get(parts.scheme.partition("+")[0])
    if not parts.hostname or not port:
        return
    try:
        with socket.create_connection((parts.hostname, port), timeout=10):
            pass
    except OSError as error:
        raise UserError(f"{shown(uri)}: no server answers ({error.strerror or error}); {LATER}") from error


@contextmanager
def _errors(uri: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        raise UserError(_explained(uri, error)) from error


def _explained(uri: str, error: Exception) -> str:
    """The error and its fix in a line; a server that has gone is told from one that refuses."""
    if isinstance(error, ModuleNotFoundError):
        return f"{shown(uri)}: needs the package {error.name!r}; install it (PostgreSQL: `pip install psycopg[binary]`)"
    reachable(uri)
    text = hidden(one_line(str(getattr(error, "message", error))), uri)[:300]
    if isinstance(error, OSError) and error.errno:
        return f"{shown(uri)}: {error.strerror} ({error.filename}); free space or mend the folder, then run it again"
    return f"{shown(uri)}: {text}; check it, or move it away and run `python -m compclip.track` again"
