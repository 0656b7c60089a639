"""A project's own name, and what a rebuild removes."""

import re
import shutil

import pytest

from compclip.track import sync, tracking_store
from tests import fake_runs
from tests.track.project import source, update


@pytest.fixture
def without_name(monkeypatch):
    """No configuration names the project."""
    monkeypatch.delenv(sync.PROJECT)


def checkout(root):
    fake_runs.make(root, fake_runs.cells(("pretrained", "clic")))
    for path in root.glob("runs/*/*/checkpoint"):
        (path / "open_clip_model.safetensors").write_bytes(b"")
    return root


def runs_by_experiment(uri):
    with tracking_store.open_client(uri) as client:
        names = {e.experiment_id: e.name for e in client.search_experiments()}
        return sorted((names[r.info.experiment_id], r.info.run_id) for r in client.search_runs(list(names)))


def test_two_checkouts_of_one_name_are_two_projects(tmp_path, without_name, uri):
    first, second = checkout(tmp_path / "a" / "clip"), checkout(tmp_path / "b" / "clip")
    update(first, uri)
    first_runs = runs_by_experiment(uri)
    assert update(second, uri)["added"] == 4
    assert sync.update_store(source(second), uri, anew=True)["added"] == 4
    assert set(first_runs) < set(runs_by_experiment(uri))
    assert update(first, uri) == {"unchanged": 4}


def test_a_folder_keeps_its_project(tmp_path, without_name, capsys):
    """After a move, too; a copy beside it is another project, and so is a name that the environment gives."""
    first = tmp_path / "my clip"
    first.mkdir()
    name = sync.name_project(root=first)
    assert re.fullmatch(r"my_clip-[0-9a-f]{6}", name)
    assert capsys.readouterr().err.count(name) == 1
    assert sync.name_project(root=first) == name
    shutil.copytree(first, tmp_path / "copy")
    assert sync.name_project(root=tmp_path / "copy") != name
    first.rename(tmp_path / "moved")
    first.mkdir()
    assert sync.name_project(root=tmp_path / "moved") == name != sync.name_project(root=first)
