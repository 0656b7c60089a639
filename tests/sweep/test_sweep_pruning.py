"""Pruning by dominance, of one objective and of two: what is stopped, and what never is."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.runs import run_store
from compclip.runs.run_folder import RunFolder
from compclip.sweep import sampling_and_pruning, study_declaration
from tests import fake_sweep
from tests.driven_sweep import Here, drawn, driver, forget, project, states, study, trials  # noqa: F401

PRUNING = {"pruner": "dominated", "startup_trials": 1, "space": {"gamma": {"float": [0, 5]}},
           "paper": [{"gamma": 1.0}, {"gamma": 5.0}]}  # fmt: skip


def rungs(gamma: float, *metrics: dict[str, float], declared: dict = PRUNING) -> RunFolder:
    """Write a trial's scores at the rungs, and half a line behind them; gives its folder."""
    declaration = study(**declared)
    params = read.load_params("params.yaml", study_declaration.trial_overrides(declaration, {"gamma": gamma}, {}))
    folder = run_store.locate_run(study_declaration.trial_run(declaration, params)).folder
    lines = [json.dumps({"step": step, "metrics": values}) + "\n" for step, values in enumerate(metrics, 1)]
    write_atomic(folder.intermediate, "".join(lines) + '{"step": 9')
    return folder


TWO = ["sugarcrepe/swap", {"column": "retrieval/loss", "direction": "minimize"}]
DOMINATED = {
    "pruner": "dominated", "objectives": TWO, "startup_trials": 2, "space": {"gamma": {"float": [0, 5]}}, "paper": [],
}  # fmt: skip
SCORES = [(0.5, 0.5), (0.6, 0.4), (0.7, 0.6), (0.4, 0.5), (0.4, 0.1), (0.55, 0.45)]  # of six trials at the first rung


def at_rung(gamma: float, swap: float, loss: float) -> RunFolder:
    """A run with scores of both objectives at a rung; gives its folder."""
    return rungs(gamma, {"sugarcrepe/swap": swap, "retrieval/loss": loss}, declared=DOMINATED)


def finished_at(*gammas: float) -> None:
    """The same with results, as if a trial of each had been trained."""
    for gamma, (swap, loss) in zip(gammas, SCORES, strict=False):
        documents = {"sugarcrepe": {"metrics": {"swap": swap}}, "retrieval": {"metrics": {"loss": loss}}}
        fake_sweep.leave(at_rung(gamma, swap, loss), documents)


@pytest.fixture
def lossy(monkeypatch):
    """The pretrained model has the second objective too."""
    monkeypatch.setattr(fake_sweep, "metrics", lambda run: {"sugarcrepe": {"swap": 0.5}, "retrieval": {"loss": 0.5}})


def test_two_objectives_prune_what_is_dominated(folder, lossy, monkeypatch):
    """By hand, of those before: trial 3 is behind all of 0, 1 and 2 of which 2 has a higher loss: two of three; 4 has
    the least loss; 5 is behind 1 alone."""
    gammas = [float(i) for i in range(6)]
    paper = {"paper": [{"gamma": g} for g in gammas]}
    finished_at(*gammas)
    monkeypatch.setattr(study_declaration.Study, "dominated_share", 0.6)
    driver(**DOMINATED | paper).drive(6)
    assert states() == ["complete"] * 3 + ["pruned"] + ["complete"] * 2
    assert trials()[3]["values"] is None and trials()[3]["intermediate"] == {"1": [0.4, 0.5]}
    document = json.loads(Path("studies/s/trials.json").read_text())
    assert set(document["front"]) == {1, 2, 4} and document["dominated_share"] == 0.6
    once = drawn(trials())
    shutil.rmtree(".work")
    for target in (3, 6):
        driver(**DOMINATED | paper).drive(target)
    assert drawn(trials()) == once and states()[3] == "pruned"
    forget()
    finished_at(*gammas)
    monkeypatch.setattr(study_declaration.Study, "dominated_share", 0.7)
    driver(**DOMINATED | paper).drive(6)
    assert states() == ["complete"] * 6


def test_a_running_trial_that_is_dominated_is_cancelled(folder, lossy):
    """Both rungs are asked of it, with the benchmarks of both objectives; the sampler goes on after it."""
    paper = {"paper": [{"gamma": g} for g in (0.0, 1.0, 2.0, 3.0)]}
    finished_at(0.0, 1.0, 2.0)
    last = at_rung(3.0, *SCORES[3])
    sender = Here(endless=True)
    driver(sender, **DOMINATED | paper).drive(4)
    assert states() == ["complete"] * 3 + ["pruned"]
    assert [j.cancelled for j in sender.jobs if j.folder == last] == [True]
    assert json.loads(last.rungs.read_text()) == {"shares": [0.25, 0.5], "benchmarks": ["sugarcrepe", "retrieval"]}
    driver(**DOMINATED | paper).drive(6)
    assert Counter(states()) == {"complete": 5, "pruned": 1}


def test_too_few_others_stop_nothing():
    """`startup_trials` of them are needed, a share of exactly the declared one is enough, equals beat nobody."""
    declaration = study(**DOMINATED)
    assert not sampling_and_pruning.should_stop(declaration, [0.0, 1.0], [[1.0, 0.0]])
    assert sampling_and_pruning.should_stop(declaration, [0.0, 1.0], [[1.0, 0.0], [0.5, 2.0]])
    assert not sampling_and_pruning.should_stop(declaration, [0.5, 0.5], [[0.5, 0.5]] * 5)
    assert sampling_and_pruning.should_stop(declaration, [0.5, 0.5], [[0.5, 0.4]] * 2)
    assert not sampling_and_pruning.should_stop(declaration, [0.5, 0.5], [[0.6, 0.4], [0.6, 0.6], [0.4, 0.4]])


POINT = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(POINT, st.lists(POINT, min_size=2), POINT)
def test_a_trial_of_the_front_is_never_stopped(point, other_points, better):
    """Nothing dominates it; another trial more changes no verdict by more than its own part; slow counting agrees."""
    declaration = study(**DOMINATED)
    ahead = [o for o in other_points if o != point and o[0] >= point[0] and o[1] <= point[1]]
    assert sampling_and_pruning.should_stop(declaration, point, other_points) == (2 * len(ahead) >= len(other_points))
    if not ahead:
        assert not sampling_and_pruning.should_stop(declaration, point, other_points)
    is_better = better[0] > point[0] and better[1] < point[1]
    if is_better and sampling_and_pruning.should_stop(declaration, point, other_points):
        assert sampling_and_pruning.should_stop(declaration, point, [*other_points, better])


@pytest.fixture
def below(folder):
    """A finished trial, and the folder of one that is below it at the second rung."""
    first, second = ([{"sugarcrepe/swap": value} for value in values] for values in ((0.5, 0.6), (0.55, 0.4, 0.9)))
    fake_sweep.leave(rungs(1.0, *first), {"sugarcrepe": {"metrics": {"swap": 0.7}}})
    return rungs(5.0, *second)


def test_pruning_looks_rung_by_rung(below):
    """A trial behind half of the finished ones at a rung is stopped there, whenever the driver looks."""
    sender = Here(endless=True)
    driver(sender, **PRUNING).drive(2)
    assert states() == ["complete", "pruned"]
    assert trials()[1]["intermediate"] == {"1": [0.55], "2": [0.4]}
    assert [j.cancelled for j in sender.jobs if j.folder == below] == [True]
    rungs_document = json.loads(below.rungs.read_text())
    assert rungs_document == {"shares": [0.25, 0.5], "benchmarks": ["sugarcrepe"]}


def test_a_pruned_run_of_another_command_runs_on(below):
    """A grid may want it to its end."""
    sender = Here(endless=True)
    sender.jobs.append(fake_sweep.Job(below, os.getpid()))
    driver(sender, **PRUNING).drive(2)
    assert states() == ["complete", "pruned"] and below.key not in sender.sent
    assert not any(j.cancelled for j in sender.jobs)


def test_a_cluster_that_does_not_cancel_is_a_warning(below, monkeypatch, capsys):
    """The study goes on without the trial."""

    def refuse(job) -> None:
        raise UserError("job 7: scancel failed")

    monkeypatch.setattr(fake_sweep.Job, "cancel", refuse)
    driver(Here(endless=True), **PRUNING).drive(2)
    assert states() == ["complete", "pruned"]
    assert capsys.readouterr().err == "warning: trial 1: job 7: scancel failed; it runs on\n"
