"""A SQLite file as MLflow's store: made whole or not at all, and what is in it that nobody else has.

MLflow makes its tables in some forty steps, and a database that was killed between two of them opens no more. Nothing
here imports mlflow.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from compclip.base.files import beside
from compclip.track import owned

WHOLE = 0x636C6970  # the mark of a database that was complete before it got its name: SQLite's user_version
NOBODYS = ("alembic_version", "workspaces")
# What we log; whatever else holds a row is somebody's.
OURS = (
    "experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics", "inputs", "input_tags",
    "datasets", "logged_models", "logged_model_metrics", "logged_model_params", "logged_model_tags",
    "registered_models", "registered_model_tags", "registered_model_aliases", "model_versions", "model_version_tags",
)  # fmt: skip
JOURNALS = ("-journal", "-wal", "-shm")
PATIENCE_S = 60  # for another process that is writing
FIRST = "Default"  # the experiment that MLflow makes with its tables


class Artifacts(NamedTuple):
    """Where a run or a logged model has its files."""

    id: str
    uri: str


def complete(file: Path, connect: Callable[[str], object]) -> None:
    """Make the database where there is none, or one that was killed before anybody logged anything.

    `connect` has MLflow open an address and make its tables. The caller is the file's only writer.
    """
    for path in left(file):
        path.unlink()
    if not file.exists() or (_unused(file) and not _opens(file, connect)):
        fresh = beside(file, "new")
        connect(f"sqlite:///{fresh}")
        with _opened(fresh) as database:
            database.execute(f"PRAGMA user_version = {WHOLE}")
        set_aside(file)
        install(fresh, file)


def left(file: Path) -> list[Path]:
    """What stands under a hidden name beside a database whose only writer the caller is: others were killed there."""
    return sorted(file.parent.glob(f".{glob.escape(file.name)}.*"))


def install(fresh: Path, file: Path) -> None:
    """Give a whole database its name. What SQLite kept beside an older one would be played back into it."""
    for beside_it in JOURNALS:
        file.with_name(file.name + beside_it).unlink(missing_ok=True)
    os.replace(fresh, file)


def set_aside(file: Path) -> None:
    """Keep a file that is no whole database under another name, and say so; the last one of them stays."""
    if file.exists() and file.stat().st_size:
        aside = file.with_name(f"{file.name}.broken")
        os.replace(file, aside)
        print(f"note: {file}: is no whole MLflow database; made anew, the old file is {aside}", flush=True)


def alone(file: Path, project: str) -> bool:
    """Whether nothing would be lost but what is made again from this project's files.

    A file that is no database is set aside; one that cannot be looked through may hold anything.
    """
    if not file.exists():
        return True
    try:
        with _opened(file) as database:
            return not any(_strangers(database, project))
    except sqlite3.OperationalError:
        return False
    except sqlite3.DatabaseError:
        set_aside(file)
        return True


def artifacts(file: Path) -> list[Artifacts]:
    """Where the runs and models of a database have their files, deleted ones too; none of one that cannot be read."""
    found: list[Artifacts] = []
    with contextlib.suppress(sqlite3.DatabaseError), _opened(file) as database:
        found += map(Artifacts._make, database.execute("SELECT run_uuid, artifact_uri FROM runs"))
        found += map(Artifacts._make, database.execute("SELECT model_id, artifact_location FROM logged_models"))
    return found


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    if not file.is_file():
        raise sqlite3.OperationalError("no file")
    with contextlib.closing(sqlite3.connect(file, timeout=PATIENCE_S)) as database, database:
        yield database


def _unused(file: Path) -> bool:
    """Whether a database of MLflow's, or an empty file, may be half made: it has no mark, and nobody's data."""
    try:
        with _opened(file) as database:
            marked = database.execute("PRAGMA user_version").fetchone()[0] == WHOLE
            return not marked and (_is_mlflow(database) or not _tables(database)) and not any(_held(database))
    except sqlite3.DatabaseError:
        return False


def _opens(file: Path, connect: Callable[[str], object]) -> bool:
    """Whether MLflow can open a copy: a server may have made the file and be at work on it."""
    copy = beside(file, "new")
    try:
        with _opened(file) as database, contextlib.closing(sqlite3.connect(copy)) as target:
            database.backup(target)
        connect(f"sqlite:///{copy}")
    except Exception:  # whatever MLflow's migrations raise
        return False
    finally:
        copy.unlink(missing_ok=True)
    return True


def _is_mlflow(database: sqlite3.Connection) -> bool:
    return bool({"alembic_version", "experiments"} & set(_tables(database)))


def _tables(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in rows]


def _held(database: sqlite3.Connection) -> Iterator[str]:
    """The tables in which something was logged."""
    for table in _tables(database):
        but = f"WHERE name <> '{FIRST}'" if table == "experiments" else ""
        if table not in NOBODYS and database.execute(f'SELECT 1 FROM "{table}" {but} LIMIT 1').fetchone():
            yield table


def _strangers(database: sqlite3.Connection, project: str) -> Iterator[str]:
    """What is in it that this project did not log."""
    if not _is_mlflow(database):
        yield from _tables(database)
        return
    yield from (table for table in _held(database) if table not in OURS)
    ids = dict(database.execute("SELECT experiment_id, name FROM experiments"))
    mine = {number for number, name in ids.items() if owned.named(name, project)}
    yield from (name for number, name in ids.items() if number not in mine and name != FIRST)
    runs = dict(database.execute("SELECT run_uuid, experiment_id FROM runs"))
    tags = _tags(database, "tags", "run_uuid")
    own = {run for run, experiment in runs.items() if experiment in mine and owned.run(tags.get(run, {}), project)}
    yield from runs.keys() - own
    sources = database.execute("SELECT model_id, source_run_id FROM logged_models")
    yield from (model for model, source in sources if source not in own)
    models = _tags(database, "registered_model_tags", "name")
    names = [name for (name,) in database.execute("SELECT name FROM registered_models")]
    yield from (name for name in names if not owned.named(models.get(name, {}).get(owned.EXPERIMENT, ""), project))


def _tags(database: sqlite3.Connection, table: str, of: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, key, value in database.execute(f'SELECT {of}, key, value FROM "{table}"'):
        found.setdefault(name, {})[key] = value
    return found
