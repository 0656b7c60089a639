"""The database: whole or not there, repaired by the next start, and never taken from whoever else has data in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from compclip.track import sqlite, store, sync
from tests.track.project import source, tracked, update

# What a first `track` leaves that was killed between two of MLflow's steps.
STOPPED = {
    "no tables": "DROP TABLE alembic_version",
    "a table less": "DROP TABLE webhooks; UPDATE alembic_version SET version_num = 'cbc13b556ace'",
    "an older version": "UPDATE alembic_version SET version_num = 'cbc13b556ace'",
    "no version": "DELETE FROM alembic_version",
}


@pytest.fixture
def file(uri):
    return store.database(uri)


def run(file, script):
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(script)


def left(file):
    return sorted(p.name for p in file.parent.iterdir())


@pytest.mark.parametrize("way", STOPPED)
def test_a_database_that_was_killed_in_the_making_is_made_again(tmp_path, runs, uri, file, way):
    run(file, f"{STOPPED[way]}; PRAGMA user_version = 0")
    if way == "no tables":
        file.write_bytes(b"")
    assert update(tmp_path, uri)["added"] == 4
    assert len(tracked(uri)[1]) == 4


def test_it_is_kept_under_another_name(tmp_path, runs, uri, file, capsys):
    """Should anybody miss it after all."""
    run(file, f"{STOPPED['no version']}; PRAGMA user_version = 0")
    before = file.read_bytes()
    update(tmp_path, uri)
    assert (tmp_path / "mlflow" / "mlflow.db.broken").read_bytes() == before
    assert "is no whole MLflow database; made anew, the old file is" in capsys.readouterr().out


def test_a_broken_one_that_holds_runs_is_left_as_it_is(tmp_path, runs, uri, file):
    """They may be somebody's."""
    run(
        file,
        f"INSERT INTO runs (run_uuid, experiment_id) VALUES ('x', 0); {STOPPED['no version']}; PRAGMA user_version = 0",
    )
    before = file.read_bytes()
    with pytest.raises(Exception, match="mlflow.db: "):
        update(tmp_path, uri)
    assert file.read_bytes()[:16] == before[:16] and not file.with_name("mlflow.db.broken").exists()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT run_uuid FROM runs").fetchall() == [("x",)]


def test_an_empty_one_that_a_server_made_is_used(tmp_path, runs, uri, file):
    """It may be open there: the same file stays."""
    run(file, "PRAGMA user_version = 0")
    before = file.stat().st_ino
    update(tmp_path, uri)
    assert file.stat().st_ino == before


def test_what_a_kill_left_beside_it_goes(tmp_path, runs, uri, file):
    for name in (".mlflow.db.0123456789ab.new", ".mlflow.db.0123456789ab.new-journal", ".mlflow.db.0123456789ab.lock"):
        file.with_name(name).write_text("x")
    update(tmp_path, uri)
    assert not [name for name in left(file) if name.startswith(".")]


def test_an_old_journal_is_not_played_into_a_new_database(tmp_path, empty_database):
    """SQLite would take it for the new one's."""
    fresh, file = tmp_path / "fresh", tmp_path / "mlflow.db"
    fresh.write_bytes(empty_database)
    for end in sqlite.JOURNALS:
        file.with_name(file.name + end).write_bytes(b"x")
    sqlite.install(fresh, file)
    assert left(file) == ["mlflow.db"]


@pytest.mark.parametrize(
    "theirs",
    [
        "INSERT INTO runs (run_uuid, experiment_id) VALUES ('x', 0)",
        "INSERT INTO experiments (experiment_id, name) VALUES (7, 'mine')",
        "INSERT INTO experiments (experiment_id, name) VALUES (7, 'Compclip: mine')",
        "INSERT INTO experiments (experiment_id, name) VALUES (7, 'compclip2: mine')",
        "INSERT INTO registered_models (name) VALUES ('mine')",
        "INSERT INTO runs (run_uuid, experiment_id) SELECT 'x', experiment_id FROM experiments WHERE name LIKE 'compclip: %'",
        "INSERT INTO webhooks (webhook_id, name, url, status) VALUES ('x', 'mine', 'http://x', 'ACTIVE')",
        "CREATE TABLE mine (x); INSERT INTO mine VALUES (1)",
    ],
)
def test_a_rebuild_deletes_no_row_of_others(tmp_path, runs, uri, file, theirs):
    update(tmp_path, uri)
    before = set(rows(file))
    run(file, theirs)
    strangers = set(rows(file)) - before
    assert sync.rebuild(source(tmp_path), uri)["added"] == 4
    assert strangers <= set(rows(file)) and strangers


def rows(file):
    """Every row of every table that may be somebody's."""
    with closing(sqlite3.connect(file)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(name, *map(str, row)) for name in names for row in database.execute(f'SELECT * FROM "{name}"')]


def test_a_file_that_is_no_database_is_kept(tmp_path, runs, capsys):
    """`--uri sqlite:///notes.txt --rebuild`."""
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n" * 100)
    assert sync.rebuild(source(tmp_path), f"sqlite:///{notes}")["added"] == 4
    assert (tmp_path / "notes.txt.broken").read_text() == "my notes\n" * 100


def test_another_program_s_database_is_kept(tmp_path, runs):
    file = tmp_path / "bookmarks.db"
    run(file, "CREATE TABLE bookmarks (url); INSERT INTO bookmarks VALUES ('x')")
    sync.rebuild(source(tmp_path), f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT url FROM bookmarks").fetchall() == [("x",)]
