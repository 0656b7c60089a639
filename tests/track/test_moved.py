"""A project that was moved or copied: its runs have their artifacts, and nothing is written where it was."""

import shutil
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.track import sync, tracking_store
from tests import fake_runs
from tests.track.project import HOME, source, tracked, update


@pytest.fixture
def project(tmp_path, empty_database, monkeypatch):
    """A project in a folder of its own, tracked from there, with models; its name has a space."""
    root = fake_runs.make(tmp_path / "first place", fake_runs.cells(("pretrained", "clic")))
    for path in root.glob("runs/*/*/checkpoint"):
        (path / "open_clip_model.safetensors").write_bytes(b"weights")
    (root / "mlflow").mkdir()
    (root / "mlflow/mlflow.db").write_bytes(empty_database)
    monkeypatch.chdir(root)
    assert update(Path(), store())["added"] == 4
    return root


def store() -> str:
    """The store of the current folder; absolute, since MLflow keeps the connections of a process by address."""
    return f"sqlite:///{Path.cwd() / 'mlflow/mlflow.db'}"


def copy_project(project: Path, target: Path, monkeypatch) -> Path:
    shutil.copytree(project, target)
    monkeypatch.chdir(target)
    return target


def check_artifacts(root: Path) -> None:
    """Every run and model has its files, and they lie in the project."""
    client, runs = tracked(store())
    models = [client.get_logged_model(o.model_id) for run in runs.values() for o in run.outputs.model_outputs]
    addresses = [run.info.artifact_uri for run in runs.values()] + [model.artifact_location for model in models]
    folders = [tracking_store.path_of_uri(uri) for uri in addresses]
    assert len(runs) == 4 and len(models) > 0
    assert all(folder.is_relative_to(root) and any(folder.iterdir()) for folder in folders)


def snapshot(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


@pytest.mark.parametrize("anew", [False, True])
def test_a_moved_project_has_its_artifacts(project, tmp_path, monkeypatch, anew):
    """Copied to another disk, and the first deleted: all is logged again, and no folder comes up at the old place."""
    moved = copy_project(project, tmp_path / "other" / "place", monkeypatch)
    shutil.rmtree(project)
    counts = sync.update_store(source(Path()), store(), anew)
    assert +counts == ({"added": 4} if anew else {"replaced": 4})
    check_artifacts(moved)
    assert not project.exists()


def test_a_copy_leaves_the_first_alone(project, tmp_path, monkeypatch):
    """Under one name, too, which a clone that goes on with a project gives."""
    copy = copy_project(project, tmp_path / "copy", monkeypatch)
    files = snapshot(project)
    sync.update_store(source(Path()), store(), anew=True)
    check_artifacts(copy)
    assert snapshot(project) == files


def test_nothing_is_written_outside(tmp_path, runs, uri):
    """An experiment of our name that somebody made with a place of its own."""
    with tracking_store.open_client(uri) as client:
        client.create_experiment(HOME, (tmp_path / "elsewhere").as_uri())
    with pytest.raises(UserError, match=f"experiment {HOME!r}: its files lie in .*elsewhere, outside of"):
        update(tmp_path, uri)
    assert not (tmp_path / "elsewhere").exists()
