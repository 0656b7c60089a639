"""The MLflow store against the run directories it is made from."""

from __future__ import annotations

import json
import os

import pytest

from compclip import dashboard, track
from compclip.errors import UserError
from tests import fake_runs


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A migrated database: making one takes seconds, copying it none."""
    folder = tmp_path_factory.mktemp("empty")
    with track._store(f"sqlite:///{folder / 'mlflow.db'}") as client:
        client.search_experiments()
    return (folder / "mlflow.db").read_bytes()


@pytest.fixture
def runs(tmp_path):
    return fake_runs.make(tmp_path / "runs", fake_runs.cells(("pretrained", "clic")))


@pytest.fixture
def uri(tmp_path, empty_database):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mlflow.db").write_bytes(empty_database)
    return f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"


def tracked(uri):
    with track._store(uri) as client:
        return client, track._tracked(client)


def test_every_value_of_a_run_is_in_the_store(runs, uri):
    assert track.sync(track.read(runs), uri) == {"added": 4, "skipped": 0}
    client, found = tracked(uri)
    assert sorted(found) == sorted(p.name for p in runs.iterdir())
    run = found["clic-vit-scenes-1"]
    assert run.data.metrics["sugarcrepe/swap"] == 0.75
    assert run.data.metrics["sugarcrepe/swap_att/unseen_pairs"] == 1.0
    assert run.data.params["train.lr"] == "2e-06"
    assert {k: run.data.tags[k] for k in ("method", "seed", "run_key", "device")} == {
        "method": "clic", "seed": "1", "run_key": "key-clic-vit-scenes-1", "device": "cpu",
    }  # fmt: skip
    assert client.get_experiment(run.info.experiment_id).name == "compclip: vit, scenes"
    assert run.info.end_time == 1_700_000_030_000
    assert run.info.start_time == 1_700_000_030_000 - 62_000


def test_loss_curves_keep_the_steps_and_times_of_the_file(runs, uri):
    track.sync(track.read(runs), uri)
    client, found = tracked(uri)
    history = client.get_metric_history(found["clic-vit-scenes-0"].info.run_id, "train/clip")
    assert [(m.step, m.value, m.timestamp) for m in history] == [
        (10, 2.5, 1_700_000_010_000), (20, 2.0, 1_700_000_020_000), (30, 1.5, 1_700_000_030_000),
    ]  # fmt: skip


def test_artifacts_are_the_run_s_files(runs, uri, tmp_path):
    track.sync(track.read(runs), uri)
    client, found = tracked(uri)
    run = found["clic-vit-scenes-0"].info.run_id
    names = sorted(a.path for a in client.list_artifacts(run))
    assert names == ["checkpoint", "config.yaml", "environment.json", "metrics.jsonl", "results"]
    copy = client.download_artifacts(run, "results/retrieval.json", str(tmp_path))
    with open(copy, encoding="utf-8") as file:
        assert file.read() == (runs / "clic-vit-scenes-0/results/retrieval.json").read_text()


def test_a_large_checkpoint_is_only_named(runs, uri):
    track.sync(track.read(runs), uri, checkpoint_mib=0)
    client, found = tracked(uri)
    run = found["clic-vit-scenes-0"]
    assert "checkpoint" not in [a.path for a in client.list_artifacts(run.info.run_id)]
    assert run.data.tags["checkpoint"] == str(runs / "clic-vit-scenes-0" / "checkpoint")
    assert run.data.tags["checkpoint_uploaded"] == "false"


def test_a_second_sync_adds_nothing(runs, uri):
    track.sync(track.read(runs), uri)
    before = {name: run.info.run_id for name, run in tracked(uri)[1].items()}
    assert track.sync(track.read(runs), uri) == {"unchanged": 4}
    assert {name: run.info.run_id for name, run in tracked(uri)[1].items()} == before


def test_a_run_evaluated_again_replaces_its_old_self(runs, uri):
    track.sync(track.read(runs), uri)
    path = runs / "clic-vit-scenes-0" / "results" / "hard_positives.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"metrics": raw["metrics"] | {"mean_score": 0.5}}))
    done = track.sync(track.read(runs), uri)
    assert (done["replaced"], done["unchanged"], done["added"]) == (1, 3, 0)
    found = tracked(uri)[1]
    assert len(found) == 4
    assert found["clic-vit-scenes-0"].data.metrics["hard_positives/mean_score"] == 0.5


def test_a_run_whose_logging_was_killed_is_logged_again(runs, uri):
    track.sync(track.read(runs), uri)
    client, found = tracked(uri)
    client.update_run(found["clic-vit-scenes-0"].info.run_id, status="RUNNING")
    assert track.sync(track.read(runs), uri)["replaced"] == 1


def test_values_that_are_no_numbers_are_counted(runs, uri):
    path = runs / "clic-vit-scenes-0" / "metrics.jsonl"
    path.write_text(path.read_text().replace('"grad_norm": 1.0', '"grad_norm": NaN', 2))
    assert track.sync(track.read(runs), uri)["skipped"] == 2


def test_rebuild_holds_the_files_and_nothing_else(runs, uri, tmp_path):
    track.sync(track.read(runs), uri)
    old = tracked(uri)[1]["clic-vit-scenes-0"].info
    for file in sorted((runs / "clic-vit-scenes-1").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (runs / "clic-vit-scenes-1").rmdir()
    assert track.rebuild(track.read(runs), uri)["added"] == 3
    # a new process reads the new file; in this one MLflow still holds the old one open
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "store" / "mlflow.db").read_bytes())
    found = tracked(f"sqlite:///{copy}")[1]
    assert sorted(found) == ["clic-vit-scenes-0", "pretrained-vit-scenes-0", "pretrained-vit-scenes-1"]
    assert not os.path.exists(old.artifact_uri.removeprefix("file://"))
    assert os.path.isdir(found["clic-vit-scenes-0"].info.artifact_uri.removeprefix("file://"))
    files = sorted(p.name for p in (tmp_path / "store").iterdir())
    assert files == ["artifacts", "mlflow.db", "mlflow.lock", "synced.json"]


def test_long_parameters_are_cut():
    found = track.params({"method": {"text": "x" * 900}, "train": {"betas": [0.9, 0.98]}})
    assert len(found["method.text"]) == 500
    assert found["method.text"].endswith("…")
    assert found["train.betas"] == "[0.9, 0.98]"


def test_the_cell_s_own_parameters_stand_bare():
    found = track.params({"cell": {"method": "clic"}, "method": {"gamma": 2.0}})
    assert found == {"method": "clic", "method.gamma": "2.0"}


@pytest.mark.parametrize("uri", ["mlruns", "file:///tmp/mlruns"])
def test_a_file_store_is_refused(uri):
    with pytest.raises(UserError, match="keeps no file store; give sqlite:///"):
        track.store_uri(uri)


def test_the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker:5000")
    assert track.store_uri(None) == "http://tracker:5000"
    assert track.store_uri("sqlite:///x.db") == "sqlite:///x.db"


def test_no_runs_is_an_error(tmp_path):
    with pytest.raises(UserError, match="holds no run"):
        track.read(tmp_path)


def test_dashboard_refuses_without_a_store(tmp_path):
    with pytest.raises(UserError, match="no store yet; make it with"):
        dashboard.check(f"sqlite:///{tmp_path / 'none.db'}", "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("gpu1", False)],
)
def test_only_loopback_is_local(host, local):
    assert dashboard.is_local(host) is local
    lines = dashboard.messages("sqlite:///x.db", track.Path("nowhere"), host, 5000)
    assert lines[0].startswith("warning:") is not local


def test_dashboard_counts_runs_newer_than_the_store(runs, uri):
    track.sync(track.read(runs), uri)
    assert dashboard.newer_runs(uri, runs) == 0
    path = runs / "clic-vit-scenes-0" / "metrics.jsonl"
    path.write_text(path.read_text() + "\n")
    assert dashboard.newer_runs(uri, runs) == 1


def test_dashboard_listens_where_it_is_told():
    words = dashboard.command("sqlite:///x.db", "127.0.0.1", 5001)
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert "--allowed-hosts" not in words
    assert dashboard.command("sqlite:///x.db", "0.0.0.0", 1, "gpu1:1")[-2:] == ["--allowed-hosts", "gpu1:1"]


def test_a_method_without_parameters_keeps_its_name():
    """The empty parameters of `pretrained` do not hide the cell's method."""
    assert track.params({"cell": {"method": "pretrained"}, "method": {}}) == {"method": "pretrained"}
