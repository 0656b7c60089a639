"""A SQLite file as MLflow's store: made whole or not at all, and what is in it that nobody else has.

MLflow makes its tables in some forty steps, and a database that was killed between two of them opens no more. Nothing
here imports mlflow.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from compclip.base.files import beside

WHOLE = 0x636C6970  # the mark of a database that was complete before it got its name: SQLite's user_version
NOBODYS = ("alembic_version", "workspaces")
JOURNALS = ("-journal", "-wal", "-shm")
PATIENCE_S = 60  # for another process that is writing
FIRST = "Default"  # the experiment that MLflow makes with its tables


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
    """What `beside` named in the making of a database whose only writer the caller is: others were killed there."""
    ours = re.compile(rf"\.{re.escape(file.name[:100])}\.[0-9a-f]{{12}}\.(new|lock)(-journal|-wal|-shm)?")
    return sorted(path for path in file.parent.glob(".*") if ours.fullmatch(path.name))


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


def check(file: Path) -> None:
    """Set aside a file that is no database, so that one can be made in its place."""
    if not file.exists():
        return
    try:
        with _opened(file) as database:
            _tables(database)
    except sqlite3.OperationalError:
        return
    except sqlite3.DatabaseError:
        set_aside(file)


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
