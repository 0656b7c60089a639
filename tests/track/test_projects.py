"""A project's own name, what a rebuild removes, and versions that outlive a change of the grid."""

import re
import shutil

import pytest

from compclip.track import sync, tracking_store, writer
from tests import fake_runs
from tests.track.project import leave_header, params, source, update


@pytest.fixture
def without_name(monkeypatch):
    """No configuration names the project."""
    monkeypatch.delenv(sync.PROJECT)


@pytest.fixture
def registered(monkeypatch):
    """Checkpoints are registered, and the files of the models left out."""
    monkeypatch.setattr(writer, "fill_model", leave_header)


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


def versions(uri, model="compclip-vit-on-scenes"):
    """The run of each version, by number, and where the aliases point."""
    with tracking_store.open_client(uri) as client:
        rows = client.search_model_versions(f"name = '{model}'")
        runs = {str(v.version): client.get_run(v.run_id).info for v in rows}
        assert {info.lifecycle_stage for info in runs.values()} <= {"active"}
        aliases = client.get_registered_model(model).aliases
        return {n: info.run_name for n, info in runs.items()}, {a: runs[str(n)].run_name for a, n in aliases.items()}


def test_another_grid_leaves_the_versions_of_the_former_one(tmp_path, registered, uri):
    """Of the same models and data, with other methods and columns."""
    checkout(tmp_path)
    update(tmp_path, uri, columns=["sugarcrepe/swap_att", "sugarcrepe/swap_obj"])
    first_versions = versions(uri)
    assert len(first_versions[0]) == 4 and first_versions[1]["best-sugarcrepe"] == "clic-vit-scenes-0"
    update(tmp_path, uri, methods=("pretrained",), columns=["retrieval/i2t_recall_at_1"])
    second_versions = versions(uri)
    clic = {number: name for number, name in first_versions[0].items() if name.startswith("clic")}
    assert clic.items() <= second_versions[0].items() and sorted(second_versions[0].values()) == sorted(
        first_versions[0].values()
    )
    assert second_versions[1].keys() == first_versions[1].keys()


def test_versions_follow_a_run_into_another_experiment(tmp_path, registered, uri):
    """A grid with one more backbone has an experiment of its own, where the former grid's cells are logged again."""
    checkout(tmp_path)
    update(tmp_path, uri)
    first_versions = versions(uri)
    path = params(tmp_path)
    path.write_text(path.read_text().replace("[vit]", "[vit, big]").replace("32}", "32}, big: {model: ViT-L-14}"))
    assert sync.update_store(sync.load_project(path, tmp_path, tmp_path / "studies"), uri)["replaced"] == 4
    second_versions = versions(uri)
    assert (sorted(second_versions[0].values()), second_versions[1]) == (
        sorted(first_versions[0].values()),
        first_versions[1],
    )
    assert len(versions(uri, "compclip-vit+big-on-scenes")[0]) == 4
    sync.update_store(sync.load_project(path, tmp_path, tmp_path / "studies"), uri, anew=True)
    assert versions(uri)[1] == first_versions[1]
