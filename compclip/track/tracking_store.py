"""The MLflow store: where it is, one writer at a time, a client, and its errors as one line."""

from __future__ import annotations

import glob
import json
import os
import shlex
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import yaml

from compclip.base.errors import UserError, one_line
from compclip.base.files import hold_exclusively, temporary_path
from compclip.base.urls import check_url, mask_message, mask_url

if TYPE_CHECKING:
    from mlflow import MlflowClient


VARIABLE = "MLFLOW_TRACKING_URI"
MEMORY = ("sqlite://", "sqlite:///", "sqlite:///:memory:")
DEFAULT_URI = "sqlite:///mlflow/mlflow.db"
DEFAULT_FILE = Path("mlflow/mlflow.db")
TURN_S = 0.2  # between two looks whether a lock is free
JOURNALS = ("-journal", "-wal", "-shm")
PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the default waits minutes for an absent server
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # what it logs of errors are tracebacks, with addresses in them
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# MLflow keeps what it opened by its address: a file that was moved away, and made anew, would be written nowhere.
SQLITE_SETTINGS = {"MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool"}
PROJECT = "mlflow.compclip.project"  # the tag that tells our runs and experiments from what others log
LATER = "nothing is lost: start it and run `compclip track` again"


def store_uri(uri_option: str | None) -> str:
    """Return the tracking URI: the one given, MLFLOW_TRACKING_URI, or the SQLite file of the checkout.

    Raises UserError for one that MLflow cannot hold a store at, or whose parts cannot be told.
    """
    uri = uri_option or os.environ.get(VARIABLE) or DEFAULT_URI
    if "://" not in uri or uri.startswith("file:"):
        raise UserError(
            f"uri={mask_url(uri)!r}: MLflow 3 keeps no file store; give sqlite:///FILE or a server's http:// address"
        )
    if uri in MEMORY:
        raise UserError(f"uri={uri!r}: names no file, and the store would go with the command; give sqlite:///FILE")
    return check_url(uri, "uri")


def sqlite_file(uri: str) -> Path | None:
    """Return the SQLite file of a URI; None for a server or another database."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def is_server(uri: str) -> bool:
    """Return whether an MLflow server stands between us and the database; it keeps the artifacts, too."""
    return uri.startswith(("http://", "https://"))


def path_of_uri(artifacts: str) -> Path:
    """Return the folder of a `file://` address, in which MLflow quotes some characters."""
    return Path(unquote(urlsplit(artifacts).path))


def path_beside(uri: str, name: str) -> Path:
    """Return a file beside the store, or where the checkout's store would be."""
    return (sqlite_file(uri) or DEFAULT_FILE).with_name(name)


@contextmanager
def take_turn(file: Path, busy: str, waits: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Hold a lock file; where another process has it, say so and wait for it while `waits` says so.

    The system frees the lock of a killed process. Raises UserError with `busy`, formatted with that one's number.
    """
    message = ""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(hold_exclusively(file, busy))
                break
            except UserError as error:
                if not waits():
                    raise
                if not message:
                    message = f"{error}; waiting for it"
                    print(message, flush=True)
            except OSError as error:
                fix = "make its folder writable or give --uri"
                raise UserError(f"{file}: cannot write: {error.strerror}; {fix}") from error
            time.sleep(TURN_S)
        yield


def lock_store(file: Path) -> AbstractContextManager[None]:
    """Hold the store as its one writer."""
    return take_turn(file, f"{file}: process {{}} is writing the store")


@contextmanager
def open_client(uri: str) -> Iterator[MlflowClient]:
    """Open a client, its database made if need be, for one writer of this checkout.

    Errors of MLflow become one line.
    """
    file = sqlite_file(uri)
    with lock_store(path_beside(uri, "mlflow.lock") if file is None else file.with_suffix(".lock")):
        require_server(uri)
        with _convert_errors(uri):
            if file is not None:
                _create_database(file)
            yield _connect(uri)


def check_schema(uri: str) -> None:
    """Raise UserError for a database that MLflow of this release cannot read; it is not changed."""
    with _convert_errors(uri):
        _connect(uri)


def _create_database(file: Path) -> None:
    """Create a SQLite store under another name and rename it: MLflow's forty migrations can be killed between two.

    The caller holds the lock, so that a file of an earlier attempt is nobody's.
    """
    if file.exists() and file.stat().st_size:
        return
    for path in file.parent.glob(f".{glob.escape(file.name)}.*.new*"):
        path.unlink()
    for suffix in ("", *JOURNALS):  # SQLite would play those of an older database into this one
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    database = temporary_path(file, "new")  # a name that MLflow has not opened before
    _connect(f"sqlite:///{database}")
    os.replace(database, file)


def _connect(uri: str) -> MlflowClient:
    from mlflow import MlflowClient

    mlflow_client = MlflowClient(uri, uri)
    mlflow_client.search_experiments(max_results=1)  # makes the tables, so that nothing below meets an empty database
    return mlflow_client


def require_server(uri: str, timeout_s: float = 10) -> None:
    """Raise UserError at once where nobody listens: MLflow itself tries a database for a minute and more."""
    address = urlsplit(uri)
    port = address.port or PORTS.get(address.scheme.partition("+")[0])
    if not address.hostname or not port:
        return
    try:
        with socket.create_connection((address.hostname, port), timeout=timeout_s):
            pass
    except OSError as error:
        raise UserError(f"{mask_url(uri)}: no server answers ({error.strerror or error}); {LATER}") from error


@contextmanager
def _convert_errors(uri: str) -> Iterator[None]:
    os.environ |= SETTINGS | (SQLITE_SETTINGS if sqlite_file(uri) else {}) | dict(os.environ)  # before the import
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, sqlite3.Error, ModuleNotFoundError, OSError) as error:
        raise UserError(_explain_error(uri, error)) from error


def _explain_error(uri: str, error: Exception) -> str:
    """Return the error and its fix in a line; a server that has gone is told from one that refuses."""
    store = mask_url(uri)
    if isinstance(error, ModuleNotFoundError):
        return f"{store}: needs the package {error.name!r}; install it (PostgreSQL: `pip install psycopg[binary]`)"
    require_server(uri)
    text = mask_message(one_line(str(getattr(error, "message", error))), uri)[:300]
    if "database schema" in text:
        upgrade = f"copy it, then run `mlflow db upgrade {shlex.quote(store)}`"
        newer = "`pip install -U mlflow` where that release is the newer one"
        return f"{store}: is of another release of MLflow; {upgrade}, or {newer}"
    if "is locked" in text:
        return f"{store}: another program has locked it; end that one, or wait for it, then run `compclip track` again"
    text = text.partition("[SQL: ")[0].strip()
    if isinstance(error, OSError) and error.errno:
        return f"{store}: {error.strerror} ({error.filename}); free space or repair the folder, then run it again"
    return f"{store}: {text}; check it, or move it away and run `compclip track` again"


# --- what MLflow's page opens ---------------------------------------------------------------------------------------
# What MLflow's UI opens: shared views of an experiment, which are tags of it, and their addresses.
#
# MLflow 3 shows an experiment as one of language models unless the address says `machine_learning`, and folds runs
# below their parents only where it sorts by time: the rows of the report are logged as if the best one was made last.


METHODS = "methods"
CURVES = "curves"
VIEWS = Path(__file__).with_name("views.yaml")
UI_MODE = "workflowType=machine_learning"
TAG = "mlflow.sharedViewState."
SECTION = "compclip"
MOST_COLUMNS = 6
NUMBER_PX = 85
DIFFERENCE_PX = 200


def address(experiment: str, view: str = METHODS) -> str:
    """Return where a server's UI shows a view; without an experiment, the list of them."""
    if not experiment:
        return f"#/experiments?{UI_MODE}"
    mode = "CHART" if view == CURVES else "TABLE"
    return f"#/experiments/{experiment}/runs?viewStateShareKey={view}&{UI_MODE}&compareRunsMode={mode}"


def name_difference(metric: str) -> str:
    """Return the name of a row's tag with its difference to the reference in a metric."""
    return f"{metric} vs reference"


def make_tags(headlines: Sequence[str]) -> dict[str, str]:
    """Return the experiment's tags with its views; `headlines` are the metrics of the report's columns.

    The list of methods shows the first two, each with its difference to the reference, and others up to six columns.
    Its charts are the first two, one against the other, and each.
    """
    views = yaml.safe_load(VIEWS.read_text(encoding="utf-8"))
    columns = [f"metrics.`{name}`" for name in headlines]
    methods = views[METHODS]
    for name, column in zip(headlines[:2], columns, strict=False):
        methods["selectedColumns"] += [column, f"tags.`{name_difference(name)}`"]
        methods["columnWidths"] |= {column: NUMBER_PX, f"tags.`{name_difference(name)}`": DIFFERENCE_PX}
    others = columns[2 : 2 + MOST_COLUMNS - len(methods["selectedColumns"])]
    methods["selectedColumns"] += others
    methods["columnOrder"] += methods["selectedColumns"]
    methods["columnWidths"] |= dict.fromkeys(others, NUMBER_PX)
    charts = methods["compareRunCharts"]
    if len(headlines) > 1:
        y_axis = {"key": headlines[0], "type": "METRIC"}
        x_axis = {"key": headlines[1], "type": "METRIC"}
        title = f"{headlines[0]} against {headlines[1]}"
        charts.append({"type": "SCATTER", "displayName": title, "xaxis": x_axis, "yaxis": y_axis})
    for name in headlines[:2]:
        charts.append({"type": "BAR", "metricKey": name})
    views[CURVES]["selectedColumns"] = columns
    if columns:
        views[CURVES]["orderByKey"] = columns[0]
    for chart in (*charts, *views[CURVES]["compareRunCharts"]):
        title = chart.setdefault("displayName", chart.get("metricKey"))
        chart |= {"uuid": f"{SECTION} {title}", "metricSectionId": SECTION, "runsCountToCompare": 100}
        chart |= {"deleted": False, "isGenerated": False}
    return {f"{TAG}{name}": json.dumps(view) for name, view in views.items()}
