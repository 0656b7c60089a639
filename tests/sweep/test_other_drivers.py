"""Several drivers of one storage: trials that somebody else told, those of a live driver, and of one that is gone."""

from collections import Counter
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from compclip.sweep import study_driver
from compclip.sweep.study_driver import OtherDrivers
from compclip.sweep.study_results import NOTED
from tests import fake_sweep
from tests.driven_sweep import Here, driver, project, states, trials  # noqa: F401
from tests.sweep.test_sweep_processes import DEADLINE_S, start
from tests.tiny_project import wait_for


class Interfering(Here):
    """Runs of which somebody else tells the trial while its job is under way."""

    def __init__(self, state: TrialState, **options) -> None:
        super().__init__(**options)
        self.state = state

    def submit(self, stored, params):
        """Tell the newest trial, as a script that cleans up does."""
        job = super().submit(stored, params)
        opened = optuna.load_study(study_name="s", storage="sqlite:///.work/studies/s.db")
        for trial in opened.get_trials(states=[TrialState.RUNNING]):
            values = [0.25] if self.state == TrialState.COMPLETE else None
            opened.tell(trial.number, values, state=self.state)
        return job


@pytest.mark.parametrize(("state", "failures"), [(TrialState.FAIL, 0), (TrialState.COMPLETE, 2)])
def test_a_trial_that_somebody_else_told_stays_as_it_was_told(folder, capsys, state, failures):
    """Whether its own job was finished or had failed; the study goes on to its number of trials."""
    driver(Interfering(state, failures=failures)).drive(3)
    name = {"FAIL": "failed"}.get(state.name, state.name.lower())
    assert states() == [name] * 3
    assert capsys.readouterr().out.count(f"{name} (told by somebody else)") == 3


def test_a_trial_that_was_told_before_its_rung_was_noted(folder):
    """The pruner's notes are changes of a trial as well; a ValueError of a trial that still runs is a mistake."""
    asking = driver(pruner="dominated")
    trial = asking.opened.ask()
    with pytest.raises(ValueError, match="mine"):
        asking._unless_told(trial, lambda: float("mine"), 0.0)
    asking.opened.tell(trial.number, state=TrialState.FAIL)
    assert asking._unless_told(trial, lambda: trial.set_user_attr(NOTED, {"1": [0.5]}), True)
    assert states() == ["failed"]


def foreign_trial(name: str) -> int:
    opened = driver().opened
    trial = opened.ask()
    trial.set_user_attr(study_driver.DRIVER, name)
    return trial.number


def test_a_live_driver_keeps_its_trials_until_it_tells_them(folder, capsys, monkeypatch):
    """Ours waits for them at its end, so that no page is left with a running trial."""
    number = foreign_trial("elsewhere:/home/me")
    waiting = driver()
    monkeypatch.setattr("time.sleep", lambda _: waiting.opened.tell(number, state=TrialState.FAIL))
    waiting.drive(3)
    assert Counter(states()) == {"failed": 1, "complete": 2}
    assert "elsewhere:/home/me drives study s as well" in capsys.readouterr().out


def test_trials_of_a_driver_that_is_gone_are_taken_over(folder, monkeypatch):
    """One that gave no sign of life for so long by our own clock."""
    foreign_trial("elsewhere:/home/me")
    monkeypatch.setattr(study_driver, "GONE_S", 0)
    driver().drive(3)
    assert states() == ["complete"] * 3


def test_a_sign_of_life_counts_from_when_it_was_seen(folder, monkeypatch):
    """Clocks are never compared: a beat that changes is life, one that stands still is none."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    opened = driver().opened
    here, there = OtherDrivers(opened, Path("a")), OtherDrivers(opened, Path("b"))
    trial = opened.ask()
    trial.set_user_attr(study_driver.DRIVER, there.own_name)
    frozen = opened.get_trials()[trial.number]
    names = []
    for seconds, is_alive in ((0, True), (100, True), (100, True), (100, False), (100, False)):
        now[0] += seconds
        if is_alive:
            there.exchange_beats()
        here.exchange_beats()
        names.append(here.find_driver(frozen))
    assert names == [there.own_name] * 4 + [""]
    assert there.find_driver(frozen) == ""  # its own


@pytest.mark.long
@pytest.mark.usefixtures("forked_commands")
def test_two_drivers_from_two_folders_share_the_work(tmp_path):
    """Each trial is trained once, both end well, and both pages have every trial finished."""
    folders = [fake_sweep.make(tmp_path / name) for name in ("one", "two")]
    storage = f"sqlite:///{tmp_path}/s.db"
    options = ("--trials", "12", "-j", "2", "--storage", storage)
    processes = [start(*options, cwd=folders[0])]
    wait_for((folders[0] / "starts.txt").exists)  # the paper's values are in the storage then
    processes.append(start(*options, cwd=folders[1]))
    outputs = [process.communicate(timeout=DEADLINE_S) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert all("running" not in out.splitlines()[-1] for out, _ in outputs)
    lines = [(folder / "starts.txt").read_text().split() for folder in folders]
    started = Counter(key for keys in lines for key in keys)
    assert sorted(started.values())[:-1] == [1] * (len(started) - 1)  # but the pretrained model, scored in both
