"""A run that tests hold, and a project whose runs are made by hand."""

from pathlib import Path

import pytest

from compclip.runs import key_parts
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun
from tests import fake_store


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """An empty run."""
    (tmp_path / "key").mkdir()
    return RunFolder(tmp_path / "key")


@pytest.fixture
def made_project(tmp_path, monkeypatch) -> Path:
    """The current folder, with the files that keys depend on."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    return tmp_path / "p"


@pytest.fixture
def recorded(made_project) -> StoredRun:
    """A cell's finished run, which says what its key was made of."""
    run = fake_store.finish(fake_store.runs(Path("."))[0], seconds=65)
    key_parts.write_parts(run.folder, key_parts.describe_key(run.run, run.root))
    return run
