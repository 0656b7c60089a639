"""Sweeps: killed drivers lose and repeat nothing, the same seed gives the same trials, one driver at a time.

Runs are a formula here (tests/fake_sweep.py); those of test_sweep_runs.py train.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.config import read, switch
from compclip.launch import slurm
from compclip.launch.profiles import Profile
from compclip.runs import store
from compclip.runs.folder import Folder
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import declared, pruning, results
from compclip.sweep import driver as sweep_driver
from compclip.sweep.driver import Driver, open_study
from tests import fake_sweep
from tests.conftest import ROOT

DEADLINE_S = 120
IMPORTANCE = sweep_driver.importance


class Here:
    """Runs whose results are there at once; the first `failures` trials fail with a reason, or all go on for ever."""

    def __init__(self, failures: int = 0, endless: bool = False) -> None:
        self.failures, self.endless, self.sent, self.jobs = failures, endless, [], []

    def submit(self, stored, params):
        """Write the results now."""
        self.sent.append(stored.key)
        job = fake_sweep.Job(stored.folder, os.getpid() if self.endless else 0)
        job.reason = lambda: "no space left"
        trained = stored.run.method_name != "pretrained"
        broken = trained and self.failures > 0
        self.failures -= broken
        if not broken and not (self.endless and trained):
            fake_sweep.leave(
                stored.folder, {n: {"metrics": values} for n, values in fake_sweep.metrics(stored.run).items()}
            )
        self.jobs.append(job)
        return job

    def attach(self, stored):
        """None lives on."""
        return next((j for j in self.jobs if j.folder == stored.folder and self.endless), None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with parameters, inputs and the study `s`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweep_driver, "importance", lambda study, opened: {})  # a quarter of a second for each trial
    return fake_sweep.make(tmp_path)


def study(**changes) -> declared.Study:
    """The tests' study with some keys replaced."""
    return declared.parse("s", OmegaConf.to_container(OmegaConf.create(fake_sweep.STUDY)) | changes)


def driver(jobs=None, url: str = "", workers: int = 1, **changes) -> Driver:
    """A driver in the current folder."""
    made = study(**changes)
    opened = open_study(made, sweep_command.storage_url(url, "s", Path(".")), "base")
    return Driver(made, opened, jobs or Here(), Path("params.yaml"), Path("."), workers, 0.01, fake_sweep.scored)


def trials() -> list[dict]:
    """What trials.json says."""
    return json.loads(Path("studies/s/trials.json").read_text())["trials"]


def forget() -> None:
    """Remove the study and its runs."""
    for name in (".work", "store"):
        shutil.rmtree(name)


def drawn(found: list[dict]) -> list[tuple]:
    """Numbers and values, in order."""
    return [(t["number"], sorted(t["params"].items()), t["values"]) for t in found]


@pytest.mark.parametrize("sampler", plugins.names(plugins.SAMPLERS))
def test_a_restart_gives_the_same_trials(folder, sampler):
    """10 trials in one go equal 10 trials of four drivers; the first are the paper's."""
    driver(sampler=sampler, startup_trials=4).drive(10)
    once = trials()
    forget()
    for target in (1, 2, 7, 10):
        driver(sampler=sampler, startup_trials=4).drive(target)
    assert drawn(trials()) == drawn(once) and len(once) == 10
    assert once[0]["paper"] and not any(t["paper"] for t in once[1:])
    if sampler != "nsga2":  # a child may equal its parent
        assert len({json.dumps(t["params"]) for t in once}) == 10


def test_another_seed_gives_other_trials(folder):
    """The seed is what they depend on."""
    found = []
    for seed in (0, 1):
        driver(seed=seed).drive(4)
        found.append([t["params"] for t in trials()])
        forget()
    assert found[0][0] == found[1][0] and not any(p in found[1] for p in found[0][1:])


@pytest.mark.parametrize("sampler", ["tpe", "tpe_joint"])
def test_a_driver_that_dies_between_two_values(folder, sampler, monkeypatch):
    """The trial is finished with the values it would have had; nothing was submitted without its key in the storage."""
    driver(sampler=sampler, startup_trials=2).drive(6)
    once = trials()
    forget()
    driver(sampler=sampler, startup_trials=2).drive(5)
    dying = driver(sampler=sampler, startup_trials=2)
    asked = dying.opened.ask()
    asked.suggest_float("gamma", 0, 5)
    jobs = Here()
    driver(jobs, sampler=sampler, startup_trials=2).drive(6)
    assert drawn(trials()) == drawn(once) and len(jobs.sent) == 1


def test_conditional_values_are_drawn_only_then(folder):
    """lambda_local belongs to minmax."""
    driver(sampler="random").drive(20)
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


def states() -> list[str]:
    """Of all trials, in order."""
    return [t["state"] for t in trials()]


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


def test_failed_trials_count_and_the_study_goes_on(folder):
    """Once a trial has come through, it takes ten in a row to stop."""
    driver().drive(1)
    driver(Here(failures=9)).drive(12)
    assert states() == ["complete"] + ["failed"] * 9 + ["complete"] * 2
    with pytest.raises(UserError, match="10 trials failed in a row"):
        driver(Here(failures=99)).drive(30)
    assert states()[12:] == ["failed"] * 10


def test_impossible_values_fail_alone(folder):
    """A method that refuses its values is a failed trial with the method's own words."""
    space = {"space": {"epsilon": {"float": [0.0, 1.5]}}, "paper": [{"epsilon": 1.25}, {"epsilon": 0.5}]}
    driver(**space).drive(2)
    assert [t["state"] for t in trials()] == ["failed", "complete"]
    assert "epsilon=1.25: must be >= 0 and < 1" in trials()[0]["reason"]


def test_a_wrong_column_stops_before_training(folder):
    """The pretrained model's results show it."""
    jobs = Here()
    with pytest.raises(UserError, match="unknown metric 'swop'; did you mean 'swap'"):
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


def test_two_objectives(folder, monkeypatch):
    """The front holds what nothing beats, the choice is on it, and NSGA-II and TPE both run."""
    two = ["sugarcrepe/swap", "retrieval/i2t"]
    driver(objectives=two, sampler="nsga2", startup_trials=4).drive(11)
    monkeypatch.setattr(sweep_driver, "importance", IMPORTANCE)
    driver(objectives=two, sampler="nsga2", startup_trials=4).drive(12)
    found = json.loads(Path("studies/s/trials.json").read_text())
    assert found["best"] in found["front"] and set(found["importance"]) == set(two)
    storage = optuna.storages.RDBStorage("sqlite:///.work/studies/s.db")
    native = {t.number for t in optuna.load_study(study_name="s", storage=storage).best_trials}
    assert set(found["front"]) == native


PRUNING = {"pruner": "median", "startup_trials": 1, "space": {"gamma": {"float": [0, 5]}},
           "paper": [{"gamma": 1.0}, {"gamma": 5.0}]}  # fmt: skip


def rungs(gamma: float, *values: float) -> Folder:
    """Write a trial's scores at the rungs, and half a line behind them; gives its folder."""
    made = study(**PRUNING)
    params = read.load("params.yaml", declared.overrides(made, {"gamma": gamma}, {}))
    folder = store.of(declared.run(made, params)).folder
    lines = [json.dumps({"step": i + 1, "metrics": {"sugarcrepe/swap": v}}) + "\n" for i, v in enumerate(values)]
    write_atomic(folder.intermediate, "".join(lines) + '{"step": 9')
    return folder


TWO = ["sugarcrepe/swap", {"column": "retrieval/loss", "direction": "minimize"}]
DOMINATED = {
    "pruner": "dominated",
    "objectives": TWO,
    "startup_trials": 2,
    "space": {"gamma": {"float": [0, 5]}},
    "paper": [],
}
SCORES = [(0.5, 0.5), (0.6, 0.4), (0.7, 0.6), (0.4, 0.5), (0.4, 0.1), (0.55, 0.45)]  # of six trials at the first rung


def at_rung(gamma: float, swap: float, loss: float) -> Folder:
    """A run with scores of both objectives at a rung; gives its folder."""
    made = study(**DOMINATED)
    params = read.load("params.yaml", declared.overrides(made, {"gamma": gamma}, {}))
    folder = store.of(declared.run(made, params)).folder
    metrics = {"sugarcrepe/swap": swap, "retrieval/loss": loss}
    write_atomic(folder.intermediate, json.dumps({"step": 1, "metrics": metrics}) + "\n")
    return folder


def finished_at(*gammas: float) -> None:
    """The same with results, as if a trial of each had been trained."""
    for gamma, (swap, loss) in zip(gammas, SCORES, strict=False):
        documents = {"sugarcrepe": {"metrics": {"swap": swap}}, "retrieval": {"metrics": {"loss": loss}}}
        fake_sweep.leave(at_rung(gamma, swap, loss), documents)


@pytest.fixture
def lossy(monkeypatch):
    """The pretrained model has the second objective too."""
    monkeypatch.setattr(fake_sweep, "metrics", lambda run: {"sugarcrepe": {"swap": 0.5}, "retrieval": {"loss": 0.5}})


def test_two_objectives_prune_what_is_dominated(folder, lossy):
    """By hand, of those before: trial 3 is behind all of 0, 1 and 2 of which 2 has a higher loss: two of three; 4 has
    the least loss; 5 is behind 1 alone."""
    gammas = [float(i) for i in range(6)]
    paper = {"paper": [{"gamma": g} for g in gammas]}
    finished_at(*gammas)
    driver(**DOMINATED | paper, dominated_share=0.6).drive(6)
    assert states() == ["complete"] * 3 + ["pruned"] + ["complete"] * 2
    assert trials()[3]["values"] is None and trials()[3]["intermediate"] == {"1": [0.4, 0.5]}
    found = json.loads(Path("studies/s/trials.json").read_text())
    assert set(found["front"]) == {1, 2, 4} and found["dominated_share"] == 0.6
    once = drawn(trials())
    shutil.rmtree(".work")
    for target in (2, 3, 4, 6):
        driver(**DOMINATED | paper, dominated_share=0.6).drive(target)
    assert drawn(trials()) == once and states()[3] == "pruned"
    forget()
    finished_at(*gammas)
    driver(**DOMINATED | paper, dominated_share=0.7).drive(6)
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
    made = study(**DOMINATED)
    assert not pruning.stops(made, [0.0, 1.0], [[1.0, 0.0]])
    assert pruning.stops(made, [0.0, 1.0], [[1.0, 0.0], [0.5, 2.0]])
    assert not pruning.stops(made, [0.5, 0.5], [[0.5, 0.5]] * 5)
    assert pruning.stops(made, [0.5, 0.5], [[0.5, 0.4]] * 2)
    assert not pruning.stops(made, [0.5, 0.5], [[0.6, 0.4], [0.6, 0.6], [0.4, 0.4]])


POINT = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(POINT, st.lists(POINT, min_size=2), POINT)
def test_a_trial_of_the_front_is_never_stopped(one, others, better):
    """Nothing dominates it; another trial more changes no verdict by more than its own part; slow counting agrees."""
    made = study(**DOMINATED)
    ahead = [o for o in others if o != one and o[0] >= one[0] and o[1] <= one[1]]
    assert pruning.stops(made, one, others) == (2 * len(ahead) >= len(others))
    if not ahead:
        assert not pruning.stops(made, one, others)
    if better[0] > one[0] and better[1] < one[1] and pruning.stops(made, one, others):
        assert pruning.stops(made, one, [*others, better])


@pytest.fixture
def below(folder):
    """A finished trial, and the folder of one that is below it at the second rung."""
    fake_sweep.leave(rungs(1.0, 0.5, 0.6), {"sugarcrepe": {"metrics": {"swap": 0.7}}})
    return rungs(5.0, 0.55, 0.4, 0.9)


def test_pruning_looks_rung_by_rung(below):
    """A trial below the median of the finished ones at a rung is stopped there, whenever the driver looks."""
    sender = Here(endless=True)
    driver(sender, **PRUNING).drive(2)
    assert states() == ["complete", "pruned"]
    assert trials()[1]["intermediate"] == {"1": [0.55], "2": [0.4]}
    assert [j.cancelled for j in sender.jobs if j.folder == below] == [True]
    asked = json.loads(below.rungs.read_text())
    assert asked == {"shares": [0.25, 0.5], "benchmarks": ["sugarcrepe"]}


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


def test_what_another_command_sends_is_not_taken_for_lost(tmp_path, monkeypatch):
    """A note of jobs in the making is left alone while its writer lives; a dead one's jobs are found in the queue."""
    cluster = slurm.Slurm(Profile(), tmp_path)
    monkeypatch.setattr(slurm, "_ids_named", lambda name: ["7_0", "7_1"])
    with pytest.raises(KeyboardInterrupt), slurm._noted(tmp_path / ".work" / "slurm", ["a", "b"]):
        assert cluster.recover() == 0
        raise KeyboardInterrupt
    assert cluster.recover() == 2
    assert json.loads((tmp_path / "store/b/job.json").read_text())["id"] == "7_1"
    assert cluster.recover() == 0


def start(*args: str, cwd: Path) -> subprocess.Popen:
    """The command with fake jobs, as a process."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, str(ROOT / "tests/fake_sweep.py"), "--study", "s", *args], cwd=cwd, env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def wait_for(process: subprocess.Popen, enough) -> None:
    """Until `enough()`, at most two minutes."""
    deadline = time.monotonic() + DEADLINE_S
    while not enough():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finished(cwd: Path) -> int:
    """Results that are there, the pretrained model's too."""
    return len(list(cwd.glob("store/*/scored.json")))


def test_a_driver_killed_three_times(folder):
    """24 trials on two workers: 24 finished, none repeated, none lost; each run started once."""
    for enough in (4, 10, 18):
        process = start("-j", "2", cwd=folder)
        wait_for(process, lambda: finished(folder) >= enough)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.communicate()
    out, err = start("-j", "2", cwd=folder).communicate(timeout=DEADLINE_S)
    assert "24 complete" in out, err
    assert [t["number"] for t in trials()] == list(range(24))
    assert {t["state"] for t in trials()} == {"complete"}
    assert len({json.dumps(t["params"]) for t in trials()}) == 24
    starts = Counter((folder / "starts.txt").read_text().split())
    assert len(starts) == 25 and set(starts.values()) == {1}
    switch.use("studies/s/best.yaml", force=True)


def test_a_second_driver_is_told(folder):
    """One line, exit code 2, nothing touched."""
    with results.sole_driver("s", folder):
        process = start(cwd=folder)
        _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert err.strip() == (f"error: study s: process {os.getpid()} drives it already; wait for it, or stop it and "
                           "start again")  # fmt: skip
    assert not (folder / ".work/studies/s.db").exists()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a fresh PostgreSQL server on a socket of its own, or a skip that says what lacks."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found or shutil.which("runuser") is None:
        pytest.skip("no PostgreSQL server; apt-get install postgresql to run this test")
    pytest.importorskip("psycopg", reason="no psycopg; pip install 'psycopg[binary]' to run this test")
    if os.geteuid() != 0:
        pytest.skip("PostgreSQL is started as the user postgres, which needs root")
    home = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path must be short
    shutil.chown(home, "postgres", "postgres")
    as_postgres, binaries = ["runuser", "-u", "postgres", "--"], found[-1].parent
    subprocess.run([*as_postgres, binaries / "initdb", "-D", home / "data", "-A", "trust"], check=True, capture_output=True,
                   cwd=home)  # fmt: skip
    control = [*as_postgres, binaries / "pg_ctl", "-D", home / "data", "-w"]
    options = f"-k {home} -c listen_addresses='' -c fsync=off"
    subprocess.run(
        [*control, "-o", options, "-l", home / "log", "start"], check=True, stdout=subprocess.DEVNULL, cwd=home
    )
    try:
        subprocess.run([*as_postgres, binaries / "createdb", "-h", home, "sweeps"], check=True, cwd=home)
        yield f"postgresql+psycopg://postgres:secret@/sweeps?host={home}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd=home)
        shutil.rmtree(home)


def test_postgresql(folder, postgres):
    """A killed driver goes on there as well, with the trials that SQLite has; the password is shown nowhere."""
    driver().drive(8)
    once = trials()
    forget()
    process = start("--trials", "8", "--storage", postgres, cwd=folder)
    wait_for(process, lambda: finished(folder) >= 4)
    process.kill()
    process.communicate()
    out, err = start("--trials", "8", "--storage", postgres, cwd=folder).communicate(timeout=DEADLINE_S)
    assert "8 complete" in out, err
    assert drawn(trials()) == drawn(once)
    _, err = start("--storage", postgres.replace("/sweeps", "/nowhere"), cwd=folder).communicate(timeout=DEADLINE_S)
    assert "\nerror: study s: storage: " in f"\n{err}" and "nowhere" in err and "secret" not in err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["warning", "error"]  # of the password, and why
    assert not list(folder.glob(".work/studies/*.db"))
