"""Sweeps: a restart repeats and loses nothing, the same seed gives the same trials; failures, conditions, objectives.

Runs are a formula here (tests/driven_sweep.py); those of test_sweep_runs.py train.
"""

import json
import shutil
from collections import Counter
from pathlib import Path

import optuna
import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_driver as sweep_driver
from compclip.sweep import study_page, study_results
from compclip.sweep.study_driver import open_study
from tests import fake_sweep
from tests.driven_sweep import Here, drawn, driver, forget, project, states, study, trials  # noqa: F401

SAMPLERS = [name for name in plugins.list_plugins(plugins.SAMPLERS) if name != "tpe"]


@pytest.mark.parametrize("sampler", ["tpe", *(pytest.param(name, marks=pytest.mark.long) for name in SAMPLERS)])
def test_a_restart_gives_the_same_trials(folder, sampler):
    """7 trials in one go equal 7 trials of three drivers; the first are the paper's."""
    driver(sampler=sampler, startup_trials=4).drive(7)
    once = trials()
    forget()
    for target in (1, 5, 7):
        driver(sampler=sampler, startup_trials=4).drive(target)
    assert drawn(trials()) == drawn(once) and len(once) == 7
    assert once[0]["paper"] and not any(t["paper"] for t in once[1:])
    if sampler != "nsga2":  # a child may equal its parent
        assert len({json.dumps(t["params"]) for t in once}) == 7


def test_another_seed_gives_other_trials(folder):
    drawn_params = []
    for seed in (0, 1):
        driver(seed=seed).drive(3)
        drawn_params.append([t["params"] for t in trials()])
        forget()
    assert drawn_params[0][0] == drawn_params[1][0] and not any(p in drawn_params[1] for p in drawn_params[0][1:])


@pytest.mark.parametrize("sampler", ["tpe", pytest.param("gp", marks=pytest.mark.long)])
def test_a_driver_that_dies_between_two_values(folder, sampler, monkeypatch):
    """The trial is finished with the values it would have had; nothing was submitted without its key in the storage."""
    driver(sampler=sampler, startup_trials=2).drive(6)
    once = trials()
    forget()
    driver(sampler=sampler, startup_trials=2).drive(5)
    dying = driver(sampler=sampler, startup_trials=2)
    trial = dying.opened.ask()
    trial.suggest_float("gamma", 0, 5)
    jobs = Here()
    driver(jobs, sampler=sampler, startup_trials=2).drive(6)
    assert drawn(trials()) == drawn(once) and len(jobs.sent) == 1


def test_a_trial_costs_the_same_however_many_there_were(folder, monkeypatch):
    """A finished one is read once; what is made of all of them waits until it is due, and for the end."""
    counts = Counter()
    for module, name in ((study_results, "trial_to_json"), (study_page, "write_page")):
        real = getattr(module, name)
        counted = lambda *args, name=name, real=real: (counts.update([name]), real(*args))[1]  # noqa: E731
        monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(sweep_driver, "PAGES_APART", 1e9)
    driver(sampler="random").drive(8)
    assert counts["write_page"] == 2 and counts["trial_to_json"] <= 3 * 8


def test_a_long_trial_costs_few_looks(folder, monkeypatch):
    """Ten minutes of one: the storage is asked once in ten seconds, and looks come the later the longer it takes."""
    clock, looks, questions = [0.0], [], []
    sender = Here(endless=True)
    waiting = driver(sender)
    real = waiting.opened.get_trials

    def sleep(seconds):
        clock[0] += seconds
        looks.append(seconds)
        if clock[0] > 600:
            sender.endless = False
            fake_sweep.leave(sender.jobs[-1].folder, {"sugarcrepe": {"metrics": {"swap": 0.7}}})

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(waiting.opened, "get_trials", lambda **how: questions.append(1) or real(**how))
    waiting.poll_s = 0.5
    waiting.drive(1)
    assert states() == ["complete"] and clock[0] < 610
    assert len(looks) < 400 and len(questions) < 100


def test_conditional_values_are_drawn_only_then(folder):
    """lambda_local belongs to minmax."""
    driver(sampler="random").drive(8)
    assert {t["params"]["attention"] for t in trials()} == {"minmax", "softmax"}
    assert all(("lambda_local" in t["params"]) == (t["params"]["attention"] == "minmax") for t in trials())


def test_finished_runs_are_shared(folder):
    """The pretrained model is scored once; a run key with results is not submitted again."""
    first, second = Here(), Here()
    driver(first).drive(3)
    shutil.rmtree(".work/studies")
    driver(second).drive(4)
    assert len(first.sent) == 4 and len(second.sent) == 1
    assert json.loads(Path("studies/s/trials.json").read_text())["reference"]["values"] == [0.5]


def test_a_driver_that_waits_for_the_queue_gives_signs_of_life(folder):
    """Other drivers of the study would take its trials over."""
    study_driver = driver(Slurm(Profile()))
    study_driver.sender.while_waiting()
    assert [name for name in study_driver.opened.user_attrs if name.startswith("driver ")]


def test_a_study_that_only_fails_stops_and_can_be_tried_again(folder):
    """Three at the start are enough; with the cause gone, --retry-failed brings the budget's number of finished ones."""
    with pytest.raises(UserError, match="study s: 3 trials failed in a row, the last: no space left; remove the cause"):
        driver(Here(failures=99)).drive(8)
    assert states() == ["failed"] * 3
    assert {t["reason"] for t in trials()} == {"no space left"}
    again = driver()
    assert again.retry_failed() == 3 and again.retry_failed() == 0
    again.drive(8)
    assert Counter(states()) == {"complete": 8, "failed": 3}
    failed = {t["number"]: t["params"] for t in trials() if t["state"] == "failed"}
    assert {t["retry_of"]: t["params"] for t in trials() if t["retry_of"] is not None} == failed


def test_a_trial_bears_its_number_from_its_start(folder):
    """Written before its job is sent: `status` calls it by study and number while it runs."""
    states_at_start = []

    class Looking(Here):
        def submit(self, run, params):
            if run.run.method_name != "pretrained":
                states_at_start.extend((t["number"], t["state"]) for t in trials() if t["run_key"] == run.key)
            return super().submit(run, params)

    driver(Looking()).drive(3)
    assert states_at_start == [(0, "running"), (1, "running"), (2, "running")]


def test_failed_trials_count_and_the_study_goes_on(folder, monkeypatch):
    """Once a trial has come through, it takes ten in a row to stop; here four."""
    monkeypatch.setattr(sweep_driver, "IN_A_ROW", 4)
    driver().drive(1)
    driver(Here(failures=3)).drive(6)
    assert states() == ["complete"] + ["failed"] * 3 + ["complete"] * 2
    with pytest.raises(UserError, match="4 trials failed in a row"):
        driver(Here(failures=99)).drive(20)
    assert states()[6:] == ["failed"] * 4


def test_impossible_values_fail_alone(folder):
    """A method that refuses its values is a failed trial with the method's own words."""
    space = {"space": {"epsilon": {"float": [0.0, 1.5]}}, "paper": [{"epsilon": 1.25}, {"epsilon": 0.5}]}
    driver(**space).drive(2)
    assert [t["state"] for t in trials()] == ["failed", "complete"]
    assert trials()[0]["reason"].startswith("methods.fsc_clip.epsilon=1.25: must be >= 0 and < 1")


def test_a_wrong_column_stops_before_training(folder):
    """The pretrained model's results show it."""
    jobs = Here()
    with pytest.raises(UserError, match="'sugarcrepe/swop'; did you mean 'sugarcrepe/swap'"):
        driver(jobs, objectives=["sugarcrepe/swop"]).drive(4)
    assert len(jobs.sent) == 1


def test_a_changed_study_is_refused(folder):
    """Other trials would not compare; only the number of trials may change."""
    driver().drive(2)
    driver(trials=30).drive(3)
    with pytest.raises(UserError, match="study s: seed, sampler changed since it was begun"):
        driver(seed=5, sampler="random")
    with pytest.raises(UserError, match="the code, the data or the fixed parameters have changed"):
        open_study(study(), sweep_command.storage_url("", "s", Path(".")), "other")


def test_two_objectives(folder):
    """The front holds what nothing beats, the choice is on it, and NSGA-II and TPE both run."""
    two = ["sugarcrepe/swap", "retrieval/i2t"]
    driver(objectives=two, sampler="nsga2", startup_trials=4).drive(8)
    document = json.loads(Path("studies/s/trials.json").read_text())
    assert document["best"] in document["front"]
    storage = optuna.storages.RDBStorage("sqlite:///.work/studies/s.db")
    native = {t.number for t in optuna.load_study(study_name="s", storage=storage).best_trials}
    assert set(document["front"]) == native
