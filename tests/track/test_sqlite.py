"""The SQLite store: complete or absent, and rows of other projects stay."""

import sqlite3
from contextlib import closing

import pytest

from compclip.base.errors import UserError
from compclip.track import sync, tracking_store
from compclip.track.tracking_store import JOURNALS
from tests.track.project import source, update


@pytest.fixture
def file(uri):
    return tracking_store.sqlite_file(uri)


def run(file, script):
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(script)


def test_what_lies_beside_a_new_database_goes(tmp_path, runs, uri, file):
    """SQLite would take an old journal for the new one's; the rest a killed process left."""
    file.unlink()
    left_files = [
        file.with_name(name + suffix) for name in ("mlflow.db", ".mlflow.db.0a1b00002a00.new") for suffix in JOURNALS
    ]
    for path in left_files:
        path.write_bytes(b"x")
    assert update(tmp_path, uri)["added"] == 4
    assert not any(path.exists() for path in left_files)


def test_a_database_that_was_moved_away_is_made_anew_by_the_same_process(tmp_path, runs, uri, file):
    """A follower lives for days, and MLflow keeps what it has opened by its address."""
    for _ in range(2):
        assert update(tmp_path, uri)["added"] == 4
        assert sum(row[0] == "runs" for row in rows(file)) == 4
        file.rename(tmp_path / "away.db")


THEIRS = (
    "INSERT INTO runs (run_uuid, experiment_id) VALUES ('x', 0)",
    "INSERT INTO experiments (experiment_id, name) VALUES (7, 'mine')",
    "INSERT INTO experiments (experiment_id, name) VALUES (8, 'Compclip: mine')",
    "INSERT INTO registered_models (name) VALUES ('mine')",
    "INSERT INTO runs (run_uuid, experiment_id) SELECT 'y', experiment_id FROM experiments WHERE name LIKE 'compclip: %' LIMIT 1",
    "INSERT INTO webhooks (webhook_id, name, url, status) VALUES ('x', 'mine', 'http://x', 'ACTIVE')",
    "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)",
)


def test_a_rebuild_deletes_no_row_of_others(tmp_path, runs, uri, file):
    update(tmp_path, uri)
    our_rows = set(rows(file))
    run(file, ";".join(THEIRS))
    strangers = set(rows(file)) - our_rows
    assert sync.update_store(source(tmp_path), uri, anew=True)["added"] == 4
    assert strangers <= set(rows(file)) and len(strangers) >= len(THEIRS)


def test_a_locked_database_is_one_line(tmp_path, runs, uri, file):
    """What to do, without SQL or the library's address."""
    locked = f"{uri}?timeout=0"  # SQLite's own wait
    with closing(sqlite3.connect(file, isolation_level=None)) as locking_connection:
        locking_connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError) as error:
            update(tmp_path, locked)
    advice = "another program has locked it; end that one, or wait for it, then run `compclip track` again"
    assert str(error.value) == f"{locked}: {advice}"


def rows(file):
    """Every row of every table that may be somebody's."""
    with closing(sqlite3.connect(file)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(name, *map(str, row)) for name in names for row in database.execute(f'SELECT * FROM "{name}"')]


def test_a_file_of_another_program_is_kept(tmp_path, runs):
    """`--uri sqlite:///notes.txt --rebuild`, and a database that is not MLflow's."""
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n" * 100)
    with pytest.raises(UserError, match="notes.txt: .*not a database"):
        sync.update_store(source(tmp_path), f"sqlite:///{notes}", anew=True)
    assert notes.read_text() == "my notes\n" * 100
    file = tmp_path / "bookmarks.db"
    run(file, "CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('x')")
    sync.update_store(source(tmp_path), f"sqlite:///{file}", anew=True)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT url FROM bookmarks").fetchall() == [("x",)]
