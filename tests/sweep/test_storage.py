"""The storage of a study: where it is, and that no password of it is shown."""

import contextlib
import sqlite3
from pathlib import Path

import optuna
import pytest

from compclip.base.errors import UserError
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_driver
from compclip.sweep.__main__ import STORAGE, storage_url


def test_the_variable_keeps_it_off_the_command_line(monkeypatch, capsys):
    monkeypatch.setenv(STORAGE, "postgresql://me:hunter2@db/x")
    assert storage_url("", "s", Path(".")) == "postgresql://me:hunter2@db/x"
    assert capsys.readouterr().err == ""
    assert storage_url("postgresql://me:hunter2@other/x", "s", Path(".")) == "postgresql://me:hunter2@other/x"
    assert capsys.readouterr().err == (
        "warning: --storage holds a password, which `ps` shows to others; give it as COMPCLIP_STORAGE\n"
    )


def test_an_address_whose_parts_cannot_be_told_is_refused(monkeypatch):
    """Which those are: tests/base/test_urls.py."""
    url = "postgresql://me:hun/ter2@db/x"
    with pytest.raises(UserError, match="--storage=.*write / as %2F") as error:
        storage_url(url, "s", Path("."))
    assert "ter2" not in str(error.value)
    monkeypatch.setenv(STORAGE, url)
    with pytest.raises(UserError, match=f"{STORAGE}=") as error:
        storage_url("", "s", Path("."))
    assert "ter2" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["mysql+absent://me:hunter2@db/x", "oracle://me:hunter2@db/x", "nonsense?password=hunter2"]
)
def test_a_database_without_a_driver_is_one_line(url, tmp_path, monkeypatch):
    message = refusal(url, tmp_path, monkeypatch)
    assert "storage" in message and "hunter2" not in message


def refusal(url: str, folder: Path, monkeypatch) -> str:
    """What the command says of a storage that it cannot open."""
    monkeypatch.chdir(folder)
    study = type("Study", (), {"name": "s", "params": "params.yaml"})()
    monkeypatch.setattr(sweep_command.studies, "load_study", lambda _: study)
    monkeypatch.setattr(sweep_command, "run_study", lambda s, args: sweep_command.open_study(s, args.storage, ""))
    with pytest.raises(UserError) as error:
        sweep_command.main(["--study", "s", "--storage", url])
    return str(error.value)


def test_a_locked_storage_is_one_line(tmp_path, monkeypatch):
    """Waited for as long as LOCKED_S says; the line says what to do."""
    monkeypatch.setattr(study_driver, "LOCKED_S", 0.01, raising=False)
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as locking_connection:
        locking_connection.execute("BEGIN EXCLUSIVE")
        message = refusal(f"sqlite:///{tmp_path}/s.db", tmp_path, monkeypatch)
    assert message == (
        "study s: storage: another program has locked it; end that one, or wait for it, then start this again"
    )


def test_a_full_disk_is_one_line_with_the_storage(tmp_path, monkeypatch):
    """The path says which disk."""
    error = sqlite3.OperationalError("database or disk is full")
    monkeypatch.setattr(sweep_command, "run_study", lambda *_: raise_storage_error(error))
    monkeypatch.setattr(sweep_command.studies, "load_study", lambda _: type("Study", (), {"name": "s", "params": ""})())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        sweep_command.main(["--study", "s"])
    where = "study s: storage: sqlite:///.work/studies/s.db"
    assert str(refused.value) == f"{where}: the disk is full; free space, then start this again"


def raise_storage_error(cause):
    """As optuna does."""
    raise optuna.exceptions.StorageInternalError("An exception is raised") from cause


@pytest.mark.parametrize(
    ("revision", "command"),
    [("v3.0.0.a", "optuna storage upgrade --storage sqlite:///{folder}/s.db"), ("v99.a", "pip install -U optuna")],
)
def test_a_storage_of_another_release_is_one_line(tmp_path, monkeypatch, revision, command):
    """With the command that upgrades it, or us."""
    optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/s.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    message = refusal(f"sqlite:///{tmp_path}/s.db", tmp_path, monkeypatch)
    assert f"`{command.format(folder=tmp_path)}`" in message


def test_the_command_that_upgrades_shows_no_password():
    error = RuntimeError("Please execute `$ optuna storage upgrade --storage $STORAGE_URL`")
    message = str(UserError(study_driver._explain_schema("postgresql://me:hunter2@db/x", error)))
    assert "--storage 'postgresql://***@db/x'" in message and "hunter2" not in message


def test_another_program_s_database_is_left_as_it_is(tmp_path):
    """MLflow's has a table of versions, as Optuna's; a file with tables of anybody is not the study's either."""
    for name, table in (("mlflow.db", "alembic_version"), ("bookmarks.db", "bookmarks")):
        with contextlib.closing(sqlite3.connect(tmp_path / name)) as database, database:
            database.execute(f"CREATE TABLE {table} (x)")
        original = (tmp_path / name).read_bytes()
        with pytest.raises(UserError, match=f"{name}: is another program's database; give one of the study's own"):
            sweep_command.open_study(type("Study", (), {"name": "s"})(), f"sqlite:///{tmp_path / name}", "")
        assert (tmp_path / name).read_bytes() == original
