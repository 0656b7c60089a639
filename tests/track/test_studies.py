"""Studies in the MLflow store: a run with its trials below it."""

import json
import shutil

import pytest

from compclip.base.files import write_json
from compclip.runs.run_folder import Published, RunFolder
from compclip.track import report_rows
from tests import fake_runs
from tests.track.project import HOME, steps, tracked, update

STUDY = {
    "study": "gamma", "method": "clic", "objectives": [{"metric": "retrieval/t2i_recall_at_1", "direction": "maximize"}],
    "trials": [
        {"number": 0, "state": "complete", "params": {"method.gamma": 2.0}, "values": [0.5], "run_key": "a"},
        {"number": 1, "state": "complete", "params": {"method.gamma": 1.0}, "values": [0.7], "run_key": "b"},
        {"number": 2, "state": "pruned", "params": {"method.gamma": 9.0}, "values": None, "folder": "store/c",
         "intermediate": {"5": [0.5], "10": [0.25]}, "started": "2026-11-21T06:00:00+00:00", "ended": "2026-11-21T06:01:00+00:00"},
        {"number": 3, "state": "running", "params": {"method.gamma": 3.0}, "values": None},
    ],
}  # fmt: skip


@pytest.fixture
def sweep(tmp_path, runs):
    """A study whose second trial has a finished run."""
    folder = tmp_path / "studies" / "gamma"
    run_folder, published = RunFolder(tmp_path / "store" / "b"), Published(tmp_path, fake_runs.cell("clic"))
    shutil.copytree(published.trained.path, run_folder.final.path)
    shutil.copytree(published.results, run_folder.scores("new"))
    write_json(run_folder.scores("old") / "sugarcrepe.json", {"of": "another evaluation"})
    write_json(run_folder.scored, {"identity": "new"})
    raw = json.loads(json.dumps(STUDY))
    raw["trials"][1]["folder"] = "store/b"  # from the project's root
    write_json(folder / "trials.json", raw)
    return folder


def test_a_study_is_a_run_with_its_trials_below_it(tmp_path, sweep, uri):
    assert update(tmp_path, uri)["added"] == 4 + 5
    client, runs_by_name = tracked(uri)
    parent = runs_by_name["study gamma"]
    assert parent.data.metrics == {"best/retrieval/t2i_recall_at_1": 70.0, "study/complete_trials": 2,
                                   "study/pruned_trials": 1, "study/running_trials": 1}  # fmt: skip
    children = [runs_by_name[f"gamma 00{number}"] for number in range(4)]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert [run.info.status for run in (parent, *children)] == ["RUNNING", "FINISHED", "FINISHED", "KILLED", "RUNNING"]
    second = runs_by_name["gamma 001"]
    assert second.data.params["method.gamma"] == "1.0"
    assert second.data.metrics["retrieval/t2i_recall_at_1"] == 100.0
    assert second.data.metrics["objective/retrieval/t2i_recall_at_1"] == 70.0
    assert steps(client, second) == [10, 20, 30]
    assert client.get_experiment(second.info.experiment_id).name == HOME
    pruned = runs_by_name["gamma 002"]
    assert pruned.data.metrics == {"intermediate/retrieval/t2i_recall_at_1": 25.0}
    assert pruned.info.end_time - pruned.info.start_time == 60_000


def test_a_study_that_goes_on_keeps_its_finished_trials(tmp_path, sweep, uri):
    update(tmp_path, uri)
    first_runs = tracked(uri)[1]
    raw = json.loads((sweep / "trials.json").read_text())
    raw["trials"][3] |= {"state": "complete", "values": [0.9]}
    write_json(sweep / "trials.json", raw)
    counts = update(tmp_path, uri)
    assert (counts["replaced"], counts["unchanged"], counts["added"]) == (2, 3 + 4, 0)
    second_runs = tracked(uri)[1]
    assert len(second_runs) == 5 + 4
    assert second_runs["gamma 001"].info.run_id == first_runs["gamma 001"].info.run_id
    assert second_runs["gamma 001"].data.tags["mlflow.parentRunId"] == second_runs["study gamma"].info.run_id
    assert second_runs["study gamma"].info.status == "FINISHED"
    assert second_runs["study gamma"].data.metrics["best/retrieval/t2i_recall_at_1"] == 90.0


def test_the_lowest_value_is_the_best_where_asked(sweep):
    raw = json.loads((sweep / "trials.json").read_text())
    write_json(sweep / "trials.json", raw | {"objectives": [{"metric": "loss", "direction": "minimize"}]})
    best = report_rows.best_trials(report_rows.read_study(sweep))
    assert {name: trial["number"] for name, trial in best.items()} == {"loss": 0}
