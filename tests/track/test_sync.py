"""The MLflow store brought up to date: nothing twice, what changed replaced, projects apart, failures in one line."""

import errno
import json
import shutil
import subprocess
import sys

import pytest
from mlflow import MlflowClient

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.runs.run_folder import Published
from compclip.track import sync, tracking_store, writer
from tests import fake_runs
from tests.track.project import HOME, params, source, steps, tracked, update


def calls(monkeypatch):
    """The names of the client's calls from now on."""
    call_names = []

    def counted(name, real):
        def call(*args, **kwargs):
            call_names.append(name)
            return real(*args, **kwargs)

        return call

    for name, real in list(vars(MlflowClient).items()):
        if callable(real) and not name.startswith("_"):
            monkeypatch.setattr(MlflowClient, name, counted(name, real))
    return call_names


def test_runs_that_are_there_cost_no_calls(tmp_path, runs, uri, monkeypatch):
    """Beside four runs or eight, a call with nothing to do makes the same calls, and so does one with a new run."""
    grid, spent = {"methods": ("pretrained", "clic", "negclip")}, []
    for new_methods, seed in ((("clic",), 2), (("negclip",), 3)):
        fake_runs.make(tmp_path, fake_runs.cells(new_methods))
        update(tmp_path, uri, **grid)
        with monkeypatch.context() as patch:
            call_names = calls(patch)
            assert list(update(tmp_path, uri, **grid)) == ["unchanged"]
            nothing = len(call_names)
            published = Published(tmp_path, fake_runs.cell("clic", seed=seed))
            for path in (published.trained.path, published.results):
                shutil.copytree(path.with_name("vit-scenes-0"), path)
            assert update(tmp_path, uri, **grid)["added"] == 1
            spent.append((nothing, len(call_names) - nothing))
    assert spent[0] == spent[1]


def test_the_content_of_an_entry_does_not_depend_on_the_process(tmp_path, runs):
    """Another process orders its sets in another way."""
    code = ("import sys; from pathlib import Path; from compclip.track import sync;"
            "root = Path(sys.argv[1]); project = sync.load_project(root / 'params.yaml', sys.argv[2], root, root / 'studies');"
            "print([e.content for e in project.entries])")  # fmt: skip
    contents = str([e.content for e in source(tmp_path).entries])
    theirs = subprocess.run([sys.executable, "-c", code, str(tmp_path), tracking_store.DEFAULT_URI], capture_output=True, text=True, check=True,
                            env={"PYTHONHASHSEED": "7", "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert theirs.stdout.strip() == contents


def test_a_run_evaluated_again_replaces_its_old_self(tmp_path, runs, uri):
    update(tmp_path, uri)
    old = tracking_store.path_of_uri(tracked(uri)[1]["clic-vit-scenes-0"].info.artifact_uri)
    path = fake_runs.result(runs, "clic-vit-scenes-0", "hard_positives")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"metrics": raw["metrics"] | {"mean_score": 0.5}}))
    counts = update(tmp_path, uri)
    assert (counts["replaced"], counts["unchanged"], counts["added"]) == (1, 3, 0)
    client, runs_by_name = tracked(uri)
    assert len(runs_by_name) == 4
    assert runs_by_name["clic-vit-scenes-0"].data.metrics["hard_positives/mean_score"] == 0.5
    assert steps(client, runs_by_name["clic-vit-scenes-0"]) == [10, 20, 30]
    assert not old.exists()


@pytest.mark.parametrize(("where", "hurt"), [(MlflowClient, "set_terminated"), (links, "link_or_copy")])
def test_a_run_whose_logging_was_killed_is_logged_again(tmp_path, runs, uri, monkeypatch, where, hurt):
    """Whatever call is the last one that arrives, the next sync leaves one run a cell with every step once."""
    real, calls = getattr(where, hurt), []

    def killed(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(where, hurt, killed)
    with pytest.raises(KeyboardInterrupt):
        update(tmp_path, uri)
    monkeypatch.undo()
    assert not (tmp_path / "mlflow" / "synced.json").exists()
    update(tmp_path, uri)
    client, runs_by_name = tracked(uri)
    assert len(runs_by_name) == 4
    assert all(steps(client, run) == [10, 20, 30] for name, run in runs_by_name.items() if name.startswith("clic"))


def test_doubles_of_writers_that_shared_no_lock_are_removed(tmp_path, runs, uri):
    update(tmp_path, uri)
    project = source(tmp_path)
    with tracking_store.open_client(uri) as client:
        home = client.get_experiment_by_name(HOME).experiment_id
        writer.write_run(client, project.entries[0], home, "", link=True)
    update(tmp_path, uri)
    assert len(tracked(uri)[1]) == 4


def test_a_grid_that_grows_takes_its_runs_along(tmp_path, runs, uri):
    """The experiment is named after the grid; a run outside of it stays where it is."""
    update(tmp_path, uri)
    path = tmp_path / "params.yaml"
    text = params(tmp_path, ("clic",)).read_text().replace("[vit]", "[vit, big]")
    path.write_text(text.replace("ViT-B-32}", "ViT-B-32}, big: {model: ViT-L-14}"))
    counts = sync.update_store(sync.load_project(path, uri, runs, tmp_path / "studies"), uri)
    assert (counts["replaced"], counts["unchanged"]) == (2, 2)
    client, runs_by_name = tracked(uri)
    where = {name: client.get_experiment(run.info.experiment_id).name for name, run in runs_by_name.items()}
    assert where["clic-vit-scenes-0"] == "compclip: vit, big on scenes"
    assert where["pretrained-vit-scenes-0"] == HOME
    # the `+` between the backbones' names is quoted in MLflow's addresses
    artifacts = tracking_store.path_of_uri(runs_by_name["clic-vit-scenes-0"].info.artifact_uri)
    assert "vit+big-on-scenes" in str(artifacts) and (artifacts / "config.yaml").is_file()
    # an experiment whose runs have all moved is hidden, and comes back
    path.write_text(path.read_text().replace("[clic]", "[clic, pretrained]"))
    sync.update_store(sync.load_project(path, uri, runs, tmp_path / "studies"), uri)
    with tracking_store.open_client(uri) as client:
        assert client.get_experiment_by_name(HOME).lifecycle_stage == "deleted"
    assert update(tmp_path, uri)["replaced"] == 4 and not artifacts.exists()
    with tracking_store.open_client(uri) as client:
        assert client.get_experiment_by_name(HOME).lifecycle_stage == "active"


def test_rebuild_holds_the_files_and_nothing_else(tmp_path, runs, uri, capsys):
    """And says how many runs it removes. A server may have the database open; other files beside it stay."""
    update(tmp_path, uri)
    old = tracked(uri)[1]["clic-vit-scenes-0"].info
    shutil.rmtree(fake_runs.trained(runs, "clic-vit-scenes-1").path)
    names = ("mlflow.0002.db", ".mlflow.db.bak", ".mlflow.db.x", "artifacts/2024/x", "artifacts/mine/x")
    foreign_files = [tmp_path / "mlflow" / name for name in names]
    for path in foreign_files:
        write_atomic(path, "mine")
    inode = tracking_store.sqlite_file(uri).stat().st_ino
    assert sync.update_store(source(tmp_path), uri, anew=True)["added"] == 3
    assert "compclip has 4 runs there; each is removed as its files are logged again" in capsys.readouterr().out
    files = {p.name for p in (tmp_path / "mlflow").iterdir()} - {path.name for path in foreign_files}
    assert files == {"artifacts", "mlflow.db", "mlflow.lock", "synced.json", "view.json"}
    assert tracking_store.sqlite_file(uri).stat().st_ino == inode
    assert [path.read_text() for path in foreign_files] == ["mine"] * 5
    runs_by_name = tracked(uri)[1]
    assert sorted(runs_by_name) == ["clic-vit-scenes-0", "pretrained-vit-scenes-0", "pretrained-vit-scenes-1"]
    assert not tracking_store.path_of_uri(old.artifact_uri).exists()
    assert tracking_store.path_of_uri(runs_by_name["clic-vit-scenes-0"].info.artifact_uri).is_dir()


def test_a_full_disk_is_one_line_and_the_next_call_goes_on(tmp_path, runs, uri, monkeypatch):
    real = shutil.copyfile

    def full(source, target):
        if "mlflow" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return real(source, target)

    def refused(source, target):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(links.os, "link", refused)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(UserError, match=r"mlflow/artifacts/.*: cannot write: No space left on device; free space"):
        update(tmp_path, uri)
    monkeypatch.undo()
    assert update(tmp_path, uri)["added"] == 3
    assert len(tracked(uri)[1]) == 4
