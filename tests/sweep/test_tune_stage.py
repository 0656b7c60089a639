"""The stage `tune`: each method alike, on validation items alone; runs of all seeds take what it chose.

Runs are a formula: test items reward a high gamma, validation items one near 2.
"""

import functools
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest

from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping
from compclip.config import grid, plan, read, tuning
from compclip.config.__main__ import main as config_command
from compclip.config.sections import Tune
from compclip.launch.profiles import VARIABLE
from compclip.report import tuned_rows
from compclip.report.run_details import find_stale_runs
from compclip.runs import keys, run_store
from compclip.runs.picture_splits import is_validation
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Trained
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_driver, study_page, study_results, tune_stage
from tests import fake_sweep

TUNE = "tune: {trials: 3, part_trials: 2, objectives: [sugarcrepe/swap], space: {train.lr: {factor: [0.5, 2]}}}\n"
PARAMS = (
    fake_sweep.PARAMS.replace("methods: [pretrained, fsc_clip]", "methods: [pretrained, finetune, fsc_clip]") + TUNE
)
PARAMS = PARAMS.replace("fsc_clip: {}, hard_positives: {}", "fsc_clip: {gamma: 20.0}, finetune: {}")
PARAMS = PARAMS.replace("seeds: [0]", "seeds: [0, 1]")
PARAMS = PARAMS.replace("benchmarks: [sugarcrepe, retrieval]", "benchmarks: [sugarcrepe]")
PICTURES = [1000 * number << 32 for number in range(65)]  # the lowest fifth is validation


class Here:
    """Runs whose results are there at once."""

    def __init__(self):
        self.sent = []

    def submit(self, stored, params):
        self.sent.append(stored)
        gamma = getattr(stored.run.method, "gamma", 1.0)
        best_place = {True: 1 / (1 + abs(gamma - 2) / 4), False: gamma / 10}  # by whether it is a validation picture
        sides = [is_validation(picture, 0.2) for picture in PICTURES]
        outcomes = [float(rank(sides, i) < best_place[side]) for i, side in enumerate(sides)]
        document = {
            "benchmark": "sugarcrepe", "kind": "composition", "lower": [], "scores": [], "headline": [],
            "metrics": {"swap": float(np.mean(outcomes))}, "units": {"swap": list(range(len(PICTURES)))},
            "pictures": PICTURES, "items": {"swap": {"ids": list(map(str, PICTURES)), "outcomes": outcomes}},
        }  # fmt: skip
        fake_sweep.leave(stored.folder, {"sugarcrepe": document})
        return fake_sweep.Job(stored.folder, 0)

    def attach(self, stored):
        return None


def rank(sides, place):
    """The share of a picture's side that is before it."""
    same = [i for i, side in enumerate(sides) if side == sides[place]]
    return same.index(place) / len(same)


@pytest.fixture(scope="module")
def sender():
    """The sender of all runs; pages are not drawn for each trial, and code is not hashed."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    instant = Here()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_page, "write_page", lambda *_: None)
        patch.setattr(study_results, "best_yaml", lambda *_: "")
        patch.setattr(sweep_command, "base_key", lambda study, params: "base")
        patch.setattr(sweep_command, "make_sender", lambda profile: instant)
        driver = functools.partial(study_driver.StudyDriver, scored=fake_sweep.scored, poll_s=0.01)
        patch.setattr(study_driver, "StudyDriver", driver)
        patch.setattr(plan, "hash_stage_code", lambda *_: "code")
        yield instant


@pytest.fixture(scope="module")
def tuned(sender, tmp_path_factory):
    folder = fake_sweep.make(tmp_path_factory.mktemp("tuned") / "p")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(PARAMS)
        assert tune_stage.main(["-j", "1"]) == 0
    return folder


@pytest.fixture
def project(tuned, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(tuned, tmp_path / "copy"))


def write_params(text):
    Path("params.yaml").write_text(text)
    write_plan()


def write_plan():
    plan.write_plan(read.load_params("params.yaml"), Path("plan"))


def load_tuned(method):
    return tuning.read_document(method, Path("."))["tiny-scenes"]


def test_the_schedule_first_then_own_parameters_by_number(project):
    """As many trials for all, then two for each of four parameters, which run with the chosen rate."""
    [schedule, own] = load_tuned("fsc_clip")["request"]["searches"]
    assert [*schedule["space"]] == ["train.lr"] and schedule["trials"] == 3
    assert {*own["space"]} == {"lambda_global", "lambda_local", "gamma", "epsilon"} and own["trials"] == 8
    assert [search["trials"] for search in load_tuned("finetune")["request"]["searches"]] == [3]
    document = load_tuned("fsc_clip")
    assert {*document["values"]} == {*schedule["space"], *own["space"]}
    assert document["trials"][0]["paper"] and document["trials"][0]["params"]["gamma"] == 20.0
    rates = {trial["params"]["train.lr"] for trial in document["trials"] if trial["params"]["gamma"] != 20}
    assert rates == {document["values"]["train.lr"]}


def test_a_space_is_widened_until_the_best_trial_lies_inside(project):
    """The optimum, a gamma near 2, lies below the declared space; test items would have had the highest gamma."""
    document = load_tuned("fsc_clip")
    gammas = [trial["params"]["gamma"] for trial in document["trials"]]
    declared = document["request"]["searches"][1]["space"]["gamma"]["float"]
    assert declared == [5.0, 80.0] and document["values"]["gamma"] < 5
    assert document["space"]["gamma"]["float"][0] < document["values"]["gamma"] and "gamma" not in document["edges"]
    assert abs(document["values"]["gamma"] - 2) == min(abs(gamma - 2) for gamma in gammas)


def test_without_widenings_the_edge_is_noted(project, monkeypatch):
    monkeypatch.setattr(Tune, "widenings", 0)
    write_plan()
    tune_stage.main(["-j", "1", "--method", "fsc_clip"])
    document = load_tuned("fsc_clip")
    assert "gamma" in document["edges"] and document["values"]["gamma"] >= 5


@pytest.mark.parametrize(("dimension", "best", "tried", "first"), [
    ({"float": [1.0, 100.0], "log": True}, 20.0, [3.0], {"float": [100.0, 1000.0], "log": True}),
    ({"float": [1.0, 100.0], "log": True}, 20.0, [3.0, 30.0], None),
    ({"float": [0.0, 1.0], "log": False}, 0.4, [0.5], {"float": [-0.5, 0.0], "log": False}),
    ({"int": [1, 4], "log": False}, 4, [2], {"int": [4, 6], "log": False}),
    ({"categorical": ["a", "b"]}, "b", ["a"], None),
])  # fmt: skip
def test_where_an_edge_is_and_what_lies_beyond_it(dimension, best, tried, first):
    """The best value is at an edge where nothing beyond it was tried; a range goes on by half of its length."""
    side = tune_stage.find_edge(dimension, best, [best, *tried])
    extensions = tune_stage.extend_range(dimension, side)
    assert (extensions[0][1] if extensions else None) == first


def test_the_runs_of_all_seeds_take_what_was_chosen(project, sender):
    """By the plan and its keys as by params.yaml; config.yaml and report agree; a second time trains nothing."""
    values = load_tuned("fsc_clip")["values"]
    assert values["gamma"] != 20.0
    keys.write_keys(Path("."))
    planned = run_store.load_planned("fsc_clip")
    params = read.load_params("params.yaml")
    resolved = [run for run in grid.resolve_all(params) if run.cell.method == "fsc_clip"]
    assert [run.cell.seed for run in planned] == [0, 1]
    assert {run.resolved["method"]["gamma"] for run in planned} == {values["gamma"]}
    assert {run.resolved["train"]["lr"] for run in planned} == {values["train.lr"]}
    assert [run.key for run in planned] == [run_store.locate_run(run).key for run in resolved]
    assert not {run.key for run in planned} & {run.key for run in sender.sent}  # the trials' seed is none of the grid's
    run = FinishedRun(Trained(Path()), Path(), planned[0].cell, planned[0].resolved, [], {}, {})
    assert find_stale_runs(params, [run], partial=True) == []
    count = len(sender.sent)
    assert count >= 3 + 3 + 8
    tune_stage.main(["-j", "1"])
    assert len(sender.sent) == count


def test_values_of_another_request_are_nobody_s(project, capsys, monkeypatch):
    """After an edit the runs have their declared values until they are tuned again; keys ask for that in one line."""
    write_params(PARAMS.replace("trials: 3", "trials: 4"))
    run = grid.resolve(read.load_params("params.yaml"), "fsc_clip-tiny-scenes-0")
    assert run.method.gamma == 20.0
    with pytest.raises(
        UserError, match=r"has no values of tiny-scenes for the present `tune`; run `compclip repro tune`"
    ):
        keys.write_keys(Path("."))
    write_params(PARAMS.replace(TUNE, ""))
    assert json.dumps(read_mapping(Path("plan/tune/tune.json"))) == '{"studies": {}, "code": ""}'  # and none is hashed
    assert tune_stage.main([]) == 0 and capsys.readouterr().out.endswith("nothing to tune\n")
    assert [path.name for path in Path("tuned").iterdir()] == [tuning.LIST]
    assert keys.write_keys(Path(".")) == 6


def test_trials_are_jobs_of_the_command_s_profile(project, sender, monkeypatch):
    """`compclip repro --on PROFILE` names it to its stages."""
    profiles = []
    monkeypatch.setattr(sweep_command, "make_sender", lambda profile: profiles.append(profile) or sender)
    Path("far.yaml").write_text("{partition: far, jobs: 3}")
    monkeypatch.setenv(VARIABLE, "far.yaml")
    assert tune_stage.main(["--method", "finetune"]) == 0
    assert {(profile.partition, profile.jobs) for profile in profiles} == {("far", 3)}


def test_a_budget_of_device_hours_ends_a_study(project, monkeypatch):
    """No trial is begun when they are spent; what was chosen is the best until then."""
    write_params(PARAMS.replace("trials: 3", "trials: 6, device_hours: 1, seed: 7"))
    monkeypatch.setattr(study_driver.progress, "sum_device_seconds", lambda folder: 1200.0)
    tune_stage.main(["-j", "1", "--method", "fsc_clip"])
    document = tuning.read_document("fsc_clip", Path("."))["tiny-scenes"]
    assert len(document["trials"]) == 3 and document["device_seconds"] == 3600
    assert document["space"]["gamma"] == document["request"]["searches"][1]["space"]["gamma"]  # not widened untried


@pytest.mark.parametrize(("edit", "message"), [
    ("split: test", "tune: unknown key 'split'"),
    ("seed: 1", "tune.seed=1: is one of grid.seeds, so tuning would favour its luck; give another"),
    ("objectives: [winoground/text]", "unknown benchmark 'winoground'"),
    ("space: {train.lrr: {factor: [1, 2]}}", "tune.space: unknown parameter 'train.lrr'; did you mean 'train.lr'"),
    ("space: {fsc_clip.gama: {factor: [1, 2]}}", "unknown parameter 'fsc_clip.gama'; did you mean"),
    ("space: {train.lr: {factor: [2, 1]}}", "must rise"),
    ("space: {train.lr: {}}", "must have one of factor, float, int, categorical"),
])  # fmt: skip
def test_a_leak_or_a_slip_is_one_line_and_exit_2(project, capsys, monkeypatch, edit, message):
    """Test items choose nothing, and neither does the luck of a seed that the report shows."""
    key = edit.partition(":")[0]
    defaults = ("objectives: [sugarcrepe/swap]", "space: {train.lr: {factor: [0.5, 2]}}")
    lines = ["trials: 2", edit, *(line for line in defaults if not line.startswith(key))]
    Path("params.yaml").write_text(PARAMS.replace(TUNE, f"tune: {{{', '.join(lines)}}}\n"))
    monkeypatch.setattr(sys, "argv", ["config", "check"])
    assert entry(config_command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_a_tuned_row_is_marked_where_the_report_shows_validation_items(project):
    """Whole benchmarks have them; test items alone do not."""
    run = grid.resolve(read.load_params("params.yaml"), "fsc_clip-tiny-scenes-1")
    finished = FinishedRun(Trained(Path()), Path(), run.cell, run.plain, [], {}, {})
    studies = tuned_rows.read_studies(Path("."))
    marked = {split: tuned_rows.find_tuned_rows([finished], studies, ["sugarcrepe"], split)
              for split in ("whole", "validation", "test")}  # fmt: skip
    assert [len(rows) for rows in marked.values()] == [1, 1, 0]
    assert "chosen by sugarcrepe/swap on validation items" in marked["whole"]["fsc_clip", "tiny", "scenes"]
