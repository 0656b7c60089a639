"""What MLflow holds of a run: values, facts, data sets, description, files as links."""

import json

import pytest

from compclip.base.files import write_json
from compclip.runs.run_folder import Published
from compclip.track import tracking_store, writer
from tests import fake_runs
from tests.track.project import HOME, tracked, update


def test_every_value_of_a_run_is_in_the_store(tmp_path, runs, uri):
    assert update(tmp_path, uri) == {"added": 4}
    client, runs_by_name = tracked(uri)
    assert sorted(runs_by_name) == sorted(cell.name for cell in fake_runs.cells(("pretrained", "clic")))
    run = runs_by_name["clic-vit-scenes-1"]
    assert run.data.metrics["sugarcrepe/swap"] == 75.0
    assert run.data.metrics["sugarcrepe/swap_att/unseen_pairs"] == 100.0
    assert run.data.params["train.lr"] == "2e-06"
    assert {k: run.data.tags[k] for k in ("method", "seed", "run_key", "device")} == {
        "method": "clic", "seed": "1", "run_key": "key-clic-vit-scenes-1", "device": "cpu",
    }  # fmt: skip
    facts = {name: value for name, value in run.data.metrics.items() if name.startswith("system/")}
    assert facts == {"system/peak_memory_mib": 900, "system/threads": 1, "system/train_seconds": 62.0,
                     "system/evaluate_seconds": 1.5, "system/samples_per_second": 100.0}  # fmt: skip
    datasets = {(i.dataset.name, i.dataset.digest, i.tags[0].value) for i in run.inputs.dataset_inputs}
    assert ("retrieval", "retrieval" * 2, "evaluation") in datasets
    history = client.get_metric_history(run.info.run_id, "train/clip")
    assert [(m.step, m.value, m.timestamp) for m in history] == [
        (10, 3.5, 1_700_000_010_000), (20, 3.0, 1_700_000_020_000), (30, 2.5, 1_700_000_030_000),
    ]  # fmt: skip
    assert client.get_experiment(run.info.experiment_id).name == HOME
    assert run.info.end_time == 1_700_000_030_000
    assert run.info.start_time == 1_700_000_030_000 - 62_000


def test_device_hours_count_every_life_and_every_run_once(tmp_path, runs, uri):
    """Those of the experiment are of different runs: two cells may share one."""
    for name, seconds, key in (("clic-vit-scenes-0", 5400, "a"), ("clic-vit-scenes-1", 1800, "b"),
                               ("pretrained-vit-scenes-0", 1800, "b")):  # fmt: skip
        path = fake_runs.trained(runs, name).environment
        write_json(path, json.loads(path.read_text()) | {"device_seconds": seconds, "run_key": key})
    update(tmp_path, uri)
    client, runs_by_name = tracked(uri)
    assert runs_by_name["clic-vit-scenes-0"].data.metrics["system/device_hours"] == 1.5
    assert "system/device_hours" not in runs_by_name["pretrained-vit-scenes-1"].data.metrics
    note = client.get_experiment_by_name(HOME).tags["mlflow.note.content"]
    assert "Training took 2.00 device-hours" in note


def test_means_that_only_the_report_makes_are_metrics(tmp_path, runs, uri):
    """Its summary, and a column of params.yaml that no result file has, under its own name; no other one is."""
    update(tmp_path, uri, columns=["retrieval/mean_recall_at_1", "sugarcrepe/swap_att", "other/average"])
    run = tracked(uri)[1]["clic-vit-scenes-0"]
    assert run.data.metrics["Comp"] == pytest.approx(90)  # the mean of the columns shown
    assert (run.data.metrics["I2T"], run.data.metrics["T2I"]) == (80.0, 100.0)  # Recall@1
    assert "seed 0" in run.data.tags["mlflow.note.content"]
    assert run.data.metrics["retrieval/mean_recall_at_1"] == pytest.approx(90)
    assert "other/average" not in run.data.metrics


def inodes(folder):
    return {path.name: path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def test_artifacts_are_links_that_go_without_the_run_s_files(tmp_path, runs, uri):
    update(tmp_path, uri)
    client, runs_by_name = tracked(uri)
    run, published = runs_by_name["clic-vit-scenes-0"], Published(runs, fake_runs.cell("clic"))
    original_inodes = inodes(published.trained.path) | inodes(published.results)
    linked = inodes(tracking_store.path_of_uri(run.info.artifact_uri))
    assert linked == {name: inode for name, inode in original_inodes.items() if name in linked}
    assert {"config.yaml", "metrics.jsonl", "retrieval.json"} <= set(linked)
    with tracking_store.open_client(uri):
        writer.remove_run(client, run, tmp_path / "mlflow" / "artifacts")
    assert not tracking_store.path_of_uri(run.info.artifact_uri).exists()
    assert inodes(published.trained.path) | inodes(published.results) == original_inodes
