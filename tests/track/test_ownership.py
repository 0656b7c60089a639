"""Several projects, and people, in one store: each removes and hides what is its own."""

import os
import re
import shutil

import pytest
from mlflow.entities import ViewType

from compclip.base.errors import UserError
from compclip.track import sync, tracking_store, writer
from compclip.track.entries import KEY
from compclip.track.tracking_store import PROJECT
from compclip.track.writer import StoreWriter
from tests import fake_runs
from tests.track.project import leave_header, source, update

PROJECTS = ("team_1", "teamA1", "TEAM_1", "team_1b")


def read_store(uri):
    """Every run that the store shows, by experiment and name, and every logged model with its run."""
    with tracking_store.open_client(uri) as client:
        experiments = {e.experiment_id: e.name for e in client.search_experiments(view_type=ViewType.ALL)}
        runs = client.search_runs(list(experiments))
        names = {(experiments[run.info.experiment_id], run.info.run_name): run.info.run_id for run in runs}
        models = client.search_logged_models(list(experiments))
        return names, {(experiments[m.experiment_id], m.model_id, m.source_run_id) for m in models}


def exclude_project(contents, project):
    """What of it is not of a project."""
    names, models = contents
    is_foreign = lambda row: not row[0].startswith(f"{project}: ")  # noqa: E731
    return {k: v for k, v in names.items() if is_foreign(k)}, set(filter(is_foreign, models))


@pytest.fixture
def logged_models(runs, monkeypatch):
    """Checkpoints are logged as models, without the models' files."""
    monkeypatch.setattr(writer, "fill_model", leave_header)
    for path in runs.glob("runs/*/*/checkpoint"):
        (path / "open_clip_model.safetensors").write_bytes(b"")


def test_a_project_s_runs_that_are_gone_take_nobody_else_s_along(tmp_path, logged_models, uri):
    """`_` stands for any character in the filter; names are compared letter by letter. Nor does a rebuild."""
    for project in PROJECTS:
        update(tmp_path, uri, project=project)
    original = read_store(uri)
    assert len(original[0]) == len(original[1]) == 4 * len(PROJECTS)
    path = fake_runs.trained(tmp_path, "clic-vit-scenes-0").metrics
    path.write_text(path.read_text().replace("\n", " \n"))
    for _ in range(2):
        counts = update(tmp_path, uri, project="team_1")
    assert counts["unchanged"] == 4
    updated = read_store(uri)
    assert exclude_project(updated, "team_1") == exclude_project(original, "team_1")
    assert set(updated[0]) == set(original[0]) and updated[0] != original[0]
    assert sync.update_store(source(tmp_path, project="team_1"), uri, anew=True)["added"] == 4
    rebuilt = read_store(uri)
    assert exclude_project(rebuilt, "team_1") == exclude_project(original, "team_1")
    assert set(rebuilt[0]) == set(original[0]) and len(rebuilt[1]) == len(original[1])


def test_a_folder_keeps_its_project(tmp_path, monkeypatch):
    """Its own name in its own store, with digits elsewhere; after a move, too. A copy beside it is another project, and so is a name that the environment gives."""
    monkeypatch.delenv(sync.PROJECT)
    first = tmp_path / "my clip"
    first.mkdir()
    server = "http://tracker:5000"
    name = sync.name_project(server, first)
    assert re.fullmatch(r"my_clip-[0-9a-f]{6}", name)
    assert sync.name_project(server, first) == name
    assert sync.name_project(f"sqlite:///{first}/mlflow/mlflow.db", first) == "my_clip"
    assert sync.name_project(f"sqlite:///{tmp_path}/mlflow.db", first) == name
    shutil.copytree(first, tmp_path / "copy")
    assert sync.name_project(server, tmp_path / "copy") != name
    first.rename(tmp_path / "moved")
    first.mkdir()
    assert sync.name_project(server, tmp_path / "moved") == name != sync.name_project(server, first)
    assert sync.name_project(f"sqlite:///{tmp_path}/moved/mlflow/mlflow.db", tmp_path / "moved") == "my_clip"


@pytest.mark.parametrize("project", ["%", "a: b", "../x"])
def test_a_project_has_a_name(tmp_path, runs, project, monkeypatch):
    """`%` was everybody's."""
    monkeypatch.setenv(sync.PROJECT, project)
    with pytest.raises(UserError, match="COMPCLIP_PROJECT .*: must be letters, digits and"):
        sync.name_project("http://tracker:5000")


def test_what_people_logged_by_hand_stays(tmp_path, runs, uri):
    """A run in our experiment, and an empty experiment of our name."""
    update(tmp_path, uri)
    with tracking_store.open_client(uri) as client:
        home = client.get_experiment_by_name("compclip: vit on scenes").experiment_id
        unmarked_run = client.create_run(home, run_name="mine", tags={"kind": "cell"}).info.run_id
        theirs = client.create_run(home, run_name="theirs", tags={KEY: "cell/x", PROJECT: "other"}).info.run_id
        empty = client.create_experiment("compclip: my own tries")
    assert sync.update_store(source(tmp_path), uri, anew=True)["added"] == 4
    update(tmp_path, uri)
    with tracking_store.open_client(uri) as client:
        things = (client.get_run(unmarked_run).info, client.get_run(theirs).info, client.get_experiment(empty))
        assert [thing.lifecycle_stage for thing in things] == ["active"] * 3


def test_a_version_registered_by_hand_keeps_its_model(tmp_path, logged_models, uri):
    update(tmp_path, uri)
    with tracking_store.open_client(uri) as client:
        logged_run = StoreWriter(client, "compclip", None).tracked_runs["cell/clic-vit-scenes-0"][0]
        model = client.get_logged_model(logged_run.outputs.model_outputs[0].model_id)
        folder = tracking_store.path_of_uri(model.artifact_location)
        (folder / "data").mkdir(parents=True)
        client.create_registered_model("prod")
        client.create_model_version("prod", model.artifact_location, logged_run.info.run_id)
    path = fake_runs.trained(tmp_path, "clic-vit-scenes-0").metrics
    path.write_text(path.read_text().replace("\n", " \n"))
    assert update(tmp_path, uri)["replaced"] == 1
    with tracking_store.open_client(uri) as client:
        assert [v.run_id for v in client.search_model_versions("name = 'prod'")] == [logged_run.info.run_id]
        assert folder.is_dir()


@pytest.mark.parametrize("way", ["..", "link", "same", "above", "scheme", "other"])
def test_only_a_run_s_own_folder_is_removed(tmp_path, way):
    """Paths are resolved before they are compared: the address is what a store says."""
    artifacts, foreign_folder = tmp_path / "mlflow" / "artifacts", tmp_path / "mine" / "id"
    (artifacts / "0001" / "id").mkdir(parents=True)
    foreign_folder.mkdir(parents=True)
    os.symlink(tmp_path / "mine", artifacts / "0001" / "link")
    uri = {
        "..": f"file://{artifacts}/0001/../../../mine/id/artifacts",
        "link": f"file://{artifacts}/0001/link/id/artifacts",
        "same": f"file://{artifacts}/x",
        "above": f"file://{artifacts}/0001/artifacts",
        "scheme": f"s3://bucket{artifacts}/0001/id/artifacts",
        "other": f"file://{foreign_folder}/artifacts",
    }[way]
    writer.remove_files(uri, artifacts, "id")
    assert foreign_folder.is_dir() and (artifacts / "0001" / "id").is_dir()
    writer.remove_files(f"file://{artifacts}/0001/id/artifacts", artifacts, "id")
    assert not (artifacts / "0001" / "id").exists()
