"""Sweeps: killed drivers lose and repeat nothing, the same seed gives the same trials, one driver at a time.

Most tests use runs that are a formula (tests/fake_sweep.py); the last ones train.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest
from omegaconf import OmegaConf

from compclip import config, train
from compclip.backbone import WEIGHTS
from compclip.data import prepare
from compclip.data.scenes import generate
from compclip.data.scenes.config import World
from compclip.errors import UserError
from compclip.files import fingerprint, write_json
from compclip.pretrain import main as pretrain
from compclip.sweep import __main__ as command
from compclip.sweep import declared, local, results
from compclip.sweep import job as sweep_job
from compclip.sweep.driver import Driver, open_study
from tests import fake_sweep
from tests.conftest import ROOT
from tests.test_train import TINY

DEADLINE_S = 120


class Here:
    """Runs whose results are there at once, or that fail with a reason, or that go on for ever."""

    def __init__(self, broken: str = "", endless: bool = False) -> None:
        self.broken, self.endless, self.sent, self.jobs = broken, endless, [], []

    def submit(self, key, params, run):
        """Write the results now."""
        self.sent.append(key)
        job = fake_sweep.Job(key, os.getpid() if self.endless else 0)
        job.reason = lambda: self.broken
        if not self.broken and not (self.endless and run.method_name != "pretrained"):
            for name, metrics in fake_sweep.metrics(run).items():
                write_json(fake_sweep.work(key) / "final" / "results" / f"{name}.json", {"metrics": metrics})
        self.jobs.append(job)
        return job

    def attach(self, key):
        """None lives on."""
        return next((j for j in self.jobs if j.key == key and self.endless), None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with parameters and the study `s`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(fake_sweep.PARAMS)
    (tmp_path / "experiments/studies").mkdir(parents=True)
    (tmp_path / "experiments/studies/s.yaml").write_text(fake_sweep.STUDY)
    return tmp_path


def study(**changes) -> declared.Study:
    """The tests' study with some keys replaced."""
    return declared.parse("s", OmegaConf.to_container(OmegaConf.create(fake_sweep.STUDY)) | changes)


def driver(jobs=None, url: str = "", workers: int = 1, **changes) -> Driver:
    """A driver in the current folder."""
    made = study(**changes)
    opened = open_study(made, command.storage_url(url, "s", Path(".")), "base")
    return Driver(made, opened, jobs or Here(), fake_sweep.key_of, Path("params.yaml"), workers=workers, poll_s=0.01)


def trials() -> list[dict]:
    """What trials.json says."""
    return json.loads(Path("studies/s/trials.json").read_text())["trials"]


def drawn(found: list[dict]) -> list[tuple]:
    """Numbers and values, in order."""
    return [(t["number"], sorted(t["params"].items()), t["values"]) for t in found]


@pytest.mark.parametrize("sampler", declared.SAMPLERS)
def test_a_restart_gives_the_same_trials(folder, sampler):
    """10 trials in one go equal 10 trials of four drivers; the first are the paper's."""
    driver(sampler=sampler, startup_trials=4).drive(10)
    once = trials()
    shutil.rmtree(".work")
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
        shutil.rmtree(".work")
    assert found[0][0] == found[1][0] and not any(p in found[1] for p in found[0][1:])


@pytest.mark.parametrize("sampler", ["tpe", "tpe_joint"])
def test_a_driver_that_dies_between_two_values(folder, sampler, monkeypatch):
    """The trial is finished with the values it would have had; nothing was submitted without its key in the storage."""
    driver(sampler=sampler, startup_trials=2).drive(6)
    once = trials()
    shutil.rmtree(".work")
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


def test_failures_are_told_and_can_be_tried_again(folder, monkeypatch):
    """Three in a row stop the driver; with the cause gone, --retry-failed brings the budget's number of finished trials."""
    driver().drive(2)
    with pytest.raises(UserError, match="3 trials failed in a row, the last: no space left; remove the cause"):
        driver(Here(broken="no space left")).drive(8)
    assert [t["state"] for t in trials()] == ["complete"] * 2 + ["failed"] * 3
    assert trials()[4]["reason"] == "no space left"
    again = driver()
    assert again.retry_failed() == 3 and again.retry_failed() == 0
    again.drive(8)
    assert Counter(t["state"] for t in trials()) == {"complete": 8, "failed": 3}
    failed = {t["number"]: t["params"] for t in trials() if t["state"] == "failed"}
    assert {t["retry_of"]: t["params"] for t in trials() if t["retry_of"] is not None} == failed


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
        open_study(study(), command.storage_url("", "s", Path(".")), "other")


def test_two_objectives(folder):
    """The front holds what nothing beats, the choice is on it, and NSGA-II and TPE both run."""
    two = ["sugarcrepe/swap", "retrieval/i2t"]
    driver(objectives=two, sampler="nsga2", startup_trials=4).drive(12)
    found = json.loads(Path("studies/s/trials.json").read_text())
    assert found["best"] in found["front"] and set(found["importance"]) == set(two)
    storage = optuna.storages.RDBStorage("sqlite:///.work/studies/s.db")
    native = {t.number for t in optuna.load_study(study_name="s", storage=storage).best_trials}
    assert set(found["front"]) == native


def test_pruning_looks_rung_by_rung(folder):
    """A trial below the median of the finished ones at a rung is stopped there, whenever the driver looks."""
    keys = {"pruner": "median", "startup_trials": 1, "space": {"gamma": {"float": [0, 5]}},
            "paper": [{"gamma": 1.0}, {"gamma": 5.0}]}  # fmt: skip
    column = "sugarcrepe/swap"

    def scored(key: str, *values: float) -> None:
        lines = [json.dumps({"step": i + 1, "metrics": {column: v}}) + "\n" for i, v in enumerate(values)]
        fake_sweep.work(key).mkdir(parents=True, exist_ok=True)
        (fake_sweep.work(key) / "intermediate.jsonl").write_text("".join(lines) + '{"step": 9')

    made = study(**keys)
    params = {g: declared.run(made, config.load("params.yaml", declared.overrides(made, {"gamma": g}))) for g in (1.0, 5.0)}
    scored(fake_sweep.key_of(params[1.0]), 0.5, 0.6)
    scored(fake_sweep.key_of(params[5.0]), 0.55, 0.4, 0.9)
    jobs = Here(endless=True)
    first = driver(jobs, **keys)
    for name, metrics in fake_sweep.metrics(params[1.0]).items():
        path = fake_sweep.work(fake_sweep.key_of(params[1.0])) / "final" / "results" / f"{name}.json"
        write_json(path, {"metrics": metrics})
    first.drive(2)
    assert [t["state"] for t in trials()] == ["complete", "pruned"]
    assert trials()[1]["intermediate"] == {"1": 0.55, "2": 0.4}
    assert [j.cancelled for j in jobs.jobs if j.key == trials()[1]["run_key"]] == [True]
    rungs = json.loads((fake_sweep.work(trials()[1]["run_key"]) / "rungs.json").read_text())
    assert rungs == {"shares": [0.25, 0.5], "benchmarks": ["sugarcrepe"]}


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
    return len(list(cwd.glob(".work/*/final/results/sugarcrepe.json")))


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
    config.use("studies/s/best.yaml", force=True)


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
    home = Path(subprocess.run(["mktemp", "-d", "/tmp/pgXXXXXX"], capture_output=True, text=True, check=True).stdout.strip())
    shutil.chown(home, "postgres", "postgres")
    as_postgres, binaries = ["runuser", "-u", "postgres", "--"], found[-1].parent
    subprocess.run([*as_postgres, binaries / "initdb", "-D", home / "data", "-A", "trust"], check=True, capture_output=True,
                   cwd=home)  # fmt: skip
    control = [*as_postgres, binaries / "pg_ctl", "-D", home / "data", "-w"]
    options = f"-k {home} -c listen_addresses='' -c fsync=off"
    subprocess.run([*control, "-o", options, "-l", home / "log", "start"], check=True, stdout=subprocess.DEVNULL, cwd=home)
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
    shutil.rmtree(".work")
    process = start("--trials", "8", "--storage", postgres, cwd=folder)
    wait_for(process, lambda: finished(folder) >= 4)
    process.kill()
    process.communicate()
    out, err = start("--trials", "8", "--storage", postgres, cwd=folder).communicate(timeout=DEADLINE_S)
    assert "8 complete" in out, err
    assert drawn(trials()) == drawn(once)
    _, err = start("--storage", postgres.replace("/sweeps", "/nowhere"), cwd=folder).communicate(timeout=DEADLINE_S)
    assert err.startswith("error: study s: storage: ") and "nowhere" in err and "secret" not in err
    assert len(err.splitlines()) == 1
    assert not list(folder.glob(".work/studies/*.db"))


REAL = """
grid: {methods: [pretrained, fsc_clip], backbones: [tiny], data: [scenes], seeds: [0]}
train: {max_steps: 6, batch_size: 8, lr: 1.0e-2, warmup_steps: 1, threads: 1, log_every_steps: 1, checkpoint_every_steps: 2}
methods: {pretrained: {}, fsc_clip: {}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: world/train.json, images: world/train, captioner: scenes}}
benchmarks: {sugarcrepe: {path: world/sugarcrepe, images: world/test}}
evaluate: {benchmarks: [sugarcrepe], threads: 2}
scenes: {train: 24, retrieval: 2, records: 4, per_class: 1, processes: 1}
"""
REAL_STUDY = """
method: fsc_clip
backbone: tiny
data: scenes
space: {gamma: {float: [0, 5]}, train.lr: {float: [1.0e-3, 1.0e-2], log: true}}
paper: [{gamma: 2.0, train.lr: 1.0e-2}]
objectives: [sugarcrepe/replace]
pruner: median
rungs: [0.4, 0.7]
trials: 4
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tiny world, annotated, a random backbone, and a study that prunes."""
    root = tmp_path_factory.mktemp("real")
    (root / "params.yaml").write_text(REAL)
    (root / "experiments/studies").mkdir(parents=True)
    (root / "experiments/studies/real.yaml").write_text(REAL_STUDY)
    write_json(root / "tiny.json", TINY)
    generate.generate(World(train=24, retrieval=2, records=4, per_class=1, processes=1), root / "world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert prepare.main(["--data", "scenes"]) == 0
        assert prepare.main(["--data", "scenes", "--annotate"]) == 0
        assert pretrain(["--backbone", "tiny"]) == 0
    return root


@pytest.fixture
def real(made, tmp_path, monkeypatch):
    """A copy of it as the current folder."""
    shutil.copytree(made, tmp_path / "p")
    monkeypatch.chdir(tmp_path / "p")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / "p"


def sweep(*args: str) -> subprocess.Popen:
    """The command itself."""
    return subprocess.Popen([sys.executable, "-m", "compclip.sweep", "--study", "real", *args], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip


def test_trials_are_runs_of_the_grid(real):
    """A killed driver's job goes on, is attached, and has the bits of the grid's cell, though it was scored on the way."""
    process = sweep()
    wait_for(process, lambda: len(list(real.glob(".work/*/run.yaml"))) >= 2)
    process.kill()
    process.communicate()
    out, err = sweep("-j", "2").communicate(timeout=DEADLINE_S)
    found = json.loads(Path("studies/real/trials.json").read_text())
    first, states = found["trials"][0], Counter(t["state"] for t in found["trials"])
    assert states["complete"] + states["pruned"] == 4 and "4 " in out and len(found["reference"]["values"]) == 1, err
    lines = list(map(json.loads, Path(f".work/{first['run_key']}/intermediate.jsonl").read_text().splitlines()))
    assert [line["step"] for line in lines] == [2, 4] and list(first["intermediate"]) == ["2", "4"]
    assert first["values"] == [json.loads(Path(first["folder"], "results/summary.json").read_text())["sugarcrepe/replace"]]
    assert train.main(["--cell", "fsc_clip-tiny-scenes-0"]) == 0
    key = json.loads(Path("runs/fsc_clip-tiny-scenes-0/environment.json").read_text())["run_key"]
    assert key == first["run_key"], "the paper's values are the grid's cell: one run serves both"
    swept = fingerprint(f".work/{key}/final/checkpoint/{WEIGHTS}")
    shutil.rmtree(Path(".work") / key)
    assert train.main(["--cell", "fsc_clip-tiny-scenes-0"]) == 0
    assert fingerprint(f"runs/fsc_clip-tiny-scenes-0/checkpoint/{WEIGHTS}") == swept


def test_a_killed_job_scores_each_rung_once(real):
    """Killed after a rung, with half a line behind it, the run goes on and ends with the undisturbed bits."""
    study = declared.load("real")
    config_of = config.load("params.yaml", ["methods.fsc_clip.gamma=1.5"])
    run = declared.run(study, config_of)
    key = sweep_job.publisher(run).key
    work = Path(".work") / key
    ends = []
    for disturbed in (False, True):
        shutil.rmtree(work, ignore_errors=True)
        write_json(work / "rungs.json", {"shares": [0.4, 0.7], "benchmarks": ["sugarcrepe"]})
        job = local.Local().submit(key, "params.yaml", run)
        if disturbed:
            wait_for(job.child, (work / "intermediate.jsonl").is_file)
            job.child.kill()
            job.child.wait()
            with open(work / "intermediate.jsonl", "a") as file:
                file.write('{"step": 4, "metr')
            assert job.state() == "failed" and "SIGKILL" in job.reason()
            job = local.Local().submit(key, "params.yaml", run)
        assert job.child.wait(timeout=DEADLINE_S) == 0, job.reason()
        assert job.state() == "done"
        ends.append((fingerprint(work / "final/checkpoint"), (work / "intermediate.jsonl").read_text()))
    assert ends[0] == ends[1] and len(ends[0][1].splitlines()) == 2


def test_a_job_that_fails_says_why(real):
    """Exit code and last line of its log; the trial is failed with it and the others are not touched."""
    run = declared.run(declared.load("real"), config.load("params.yaml", ["train.batch_size=4000"]))
    key = sweep_job.publisher(run).key
    job = local.Local().submit(key, "params.yaml", run)
    assert job.child.wait(timeout=DEADLINE_S) == 2
    assert job.state() == "failed"
    assert job.reason().startswith("exit code 2: error: train.batch_size=4000: the data has 24 samples")
    assert local.Local().attach(key) is None


def test_a_live_job_is_attached_and_cancelled(real):
    """By the lock it holds; another process that trains the key is not ours to stop."""
    run = declared.run(declared.load("real"), config.load("params.yaml", ["train.max_steps=100000"]))
    key = sweep_job.publisher(run).key
    job = local.Local().submit(key, "params.yaml", run)
    wait_for(job.child, lambda: (Path(".work") / key / "metrics.jsonl").is_file())
    attached = local.Local().attach(key)
    assert attached.state() == "running"
    attached.cancel()
    assert job.child.wait(timeout=DEADLINE_S) == 1 and "stopped by a signal after step" in job.reason()
    assert attached.state() == "failed"
    with sweep_job.publisher(run).lock():
        assert local.Local().attach(key) is None
