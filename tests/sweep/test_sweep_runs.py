"""Sweeps whose runs train: on processes of this machine, on a SLURM where there is one; what they leave in MLflow."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from compclip.base.files import fingerprint, write_json
from compclip.config import read
from compclip.runs import cluster, jobs, run_store
from compclip.runs.run_folder import SUMMARY
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_declaration
from compclip.train import __main__ as train_command
from tests import tiny_project
from tests.driven_sweep import kill_when
from tests.tiny_project import cell, trained, wait_for

pytestmark = pytest.mark.usefixtures("forked_commands")
NAME = cell("fsc_clip")
DEADLINE_S = 240
STUDY = """
method: fsc_clip
backbone: tiny
data: scenes
space: {gamma: {float: [0, 5]}, train.lr: {float: [1.0e-3, 1.0e-2], log: true}}
paper: [{gamma: 2.0, train.lr: 1.0e-3}]
objectives: [sugarcrepe/replace]
pruner: dominated
rungs: [0.4, 0.7]
trials: 3
"""
ODD = """
method: fsc_clip
backbone: tiny
data: scenes
overrides: [train.grad_clip_norm=0, train.warmup_steps=0]
space: {train.lr: {float: [1.0e-3, 1.0e+30], log: true}}
paper: [{train.lr: 1.0e+30}, {train.lr: 1.0e-3}]
objectives: [sugarcrepe/replace]
trials: 2
"""


@pytest.fixture(scope="module")
def project(project, tmp_path_factory):
    """All that train needs, and two studies."""
    root = tiny_project.other(project, tmp_path_factory.mktemp("runs") / "project")
    for name, text in (("s", STUDY), ("odd", ODD)):
        path = root / "experiments" / "studies" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def here(here, monkeypatch):
    """The copy's processes have one thread and a store of their own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("COMPCLIP_PROJECT", "compclip")
    return here


def sweep(*args: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "compclip.sweep", "--study", *args], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip


def read_trials(name: str) -> dict:
    return json.loads(Path("studies", name, "trials.json").read_text())


def tracked(experiment: str = "compclip: tiny on scenes") -> list:
    """The MLflow runs of the checkout's store, named in full: MLflow remembers what it opened under a name."""
    from compclip.track import tracking_store

    with tracking_store.open_client(f"sqlite:///{tracking_store.DEFAULT_FILE.absolute()}") as client:
        assert not client.search_registered_models()
        mlflow_experiment = client.get_experiment_by_name(experiment)
        return list(client.search_runs([mlflow_experiment.experiment_id]))


def test_a_dry_run_says_what_would_be_tried_and_makes_nothing(here, capsys):
    """Trials that are over are counted."""
    write_json(Path("studies/s/trials.json"), {"trials": [{"state": "complete"}, {"state": "running"}]})
    Path("nodes.yaml").write_text("{executor: slurm}")
    before = sorted(here.rglob("*"))
    assert sweep_command.main(["--study", "s", "--on", "nodes.yaml", "-j", "2", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "s: 3 trials of fsc_clip: 1 over, 2 to try, 2 at a time; one of them:\n" in output
    assert "no estimate for 1 run: no finished run of fsc_clip" in output
    assert sorted(here.rglob("*")) == before


def test_trials_are_runs_of_the_grid(here):
    """A killed driver's job goes on, is attached, and has the bits of the grid's cell, though it was scored on the way;
    in MLflow the trials stand below their study, and no checkpoint is registered."""
    kill_when(sweep("s"), lambda: len(list(here.glob("store/*/job.json"))) >= 2)
    out, err = sweep("s", "-j", "2").communicate(timeout=DEADLINE_S)
    document = read_trials("s")
    first, states = document["trials"][0], Counter(t["state"] for t in document["trials"])
    assert states["complete"] + states["pruned"] == 3, (out, err)
    assert out.splitlines()[-1].startswith(
        f"sugarcrepe/replace: trial {document['best']} of {states['complete']}, gamma="
    )
    page = Path("studies/s/index.html").read_text()
    assert 0 < page.index(f"trial {document['best']} of") < page.index("<dt>method</dt>")
    ours = run_store.find_folder(first["run_key"])
    lines = list(map(json.loads, ours.intermediate.read_text().splitlines()))
    assert [line["step"] for line in lines] == [4, 7] and list(first["intermediate"]) == ["4", "7"]
    assert first["folder"] == str(ours.path)
    assert first["values"] == [json.loads((ours.results / SUMMARY).read_text())["sugarcrepe/replace"]]
    runs = tracked()
    parent = next(r for r in runs if r.data.tags["kind"] == "study")
    trials = [r for r in runs if r.data.tags["kind"] == "trial"]
    assert [r.data.tags["mlflow.parentRunId"] for r in trials] == [parent.info.run_id] * 3
    assert train_command.main(["--cell", NAME]) == 0
    key = json.loads((trained(Path("."), NAME) / "environment.json").read_text())["run_key"]
    assert key == first["run_key"], "the paper's values are the grid's cell: one run serves both"
    swept = fingerprint(ours.final.weights)
    for folder in (ours.path, trained(Path("."), NAME)):
        shutil.rmtree(folder)
    assert train_command.main(["--cell", NAME]) == 0
    assert fingerprint(ours.final.weights) == swept


@pytest.mark.long
def test_a_failed_trial_and_a_vanished_server(here, monkeypatch):
    """The trial says why and counts, the study goes on; MLflow that does not answer is one line, made good later."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    driver = sweep("odd", "-j", "2")
    out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 0, err
    assert "studies/odd/index.html: 1 complete, 1 failed" in out
    failed = read_trials("odd")["trials"][0]
    log = run_store.find_folder(failed["run_key"]).log
    assert failed["reason"].startswith("exit code 2: error: train: the loss is nan at step")
    assert failed["reason"].endswith(f"({log})")
    (line,) = err.splitlines()
    assert line.startswith("warning: study odd is not in MLflow: http://127.0.0.1:9: no server answers")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    subprocess.run([sys.executable, "-m", "compclip.track", "--rebuild"], check=True, capture_output=True)
    assert sorted(r.data.tags.get("trial_state", "") for r in tracked()) == ["", "complete", "failed"]


def test_a_killed_job_scores_each_rung_once(here):
    """Killed after a rung, with half a line behind it, the run goes on and ends with the undisturbed bits."""
    study = study_declaration.load_study("s")
    params = read.load_params("params.yaml", ["methods.fsc_clip.gamma=1.5"])
    stored_run = run_store.locate_run(study_declaration.trial_run(study, params))
    ends = []
    for disturbed in (False, True):
        shutil.rmtree(stored_run.folder.path, ignore_errors=True)
        write_json(stored_run.folder.rungs, {"shares": [0.4, 0.7], "benchmarks": ["sugarcrepe"]})
        job = jobs.Local().submit(stored_run, "params.yaml")
        if disturbed:
            wait_for((stored_run.folder.intermediate).is_file)
            job.child.kill()
            job.child.wait()
            with open(stored_run.folder.intermediate, "a") as file:
                file.write('{"step": 7, "metr')
            job = jobs.Local().submit(stored_run, "params.yaml")
        assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
        ends.append((fingerprint(stored_run.folder.final.checkpoint), (stored_run.folder.intermediate).read_text()))
    assert ends[0] == ends[1] and len(ends[0][1].splitlines()) == 2


@pytest.fixture
def cluster_profile(slurm_there, here):
    """A profile of a SLURM that answers; its jobs are cancelled at the end."""
    Path("profile.yaml").write_text("{partition: main, memory_gb: 2, time_min: 30, signal_s: 30, jobs: 2}")
    yield "profile.yaml"
    for line in cluster.run_command("squeue", "--me", "-h", "-o", "%i|%Z").stdout.split():
        if line.endswith(f"|{here}"):
            cluster.run_command("scancel", line.partition("|")[0])


def test_trials_as_jobs_of_a_cluster(here, cluster_profile):
    """A killed driver's jobs go on and are attached; each trial was one job and has its values."""
    tiny_project.collect(cell("pretrained"))  # here, so that the queue has the trials alone
    words = ("s", "--on", cluster_profile, "--trials", "2", "-j", "2")
    kill_when(sweep(*words), lambda: len(list(here.glob("store/*/job.json"))) >= 2)
    original_ids = {p.parent.name: json.loads(p.read_text())["id"] for p in here.glob("store/*/job.json")}
    driver = sweep(*words)
    out, err = driver.communicate(timeout=DEADLINE_S)
    assert driver.returncode == 0, err
    states = Counter(t["state"] for t in read_trials("s")["trials"])
    assert states["complete"] + states["pruned"] == 2, out
    notes = {key: run_store.find_folder(key).job for key in original_ids}
    remaining_ids = {key: json.loads(note.read_text())["id"] for key, note in notes.items() if note.is_file()}
    assert remaining_ids.items() <= original_ids.items() and len(remaining_ids) == 2
    logged = [row["step"] for path in here.glob("store/*/final/metrics.jsonl") for row in tiny_project.steps(path)]
    assert set(Counter(logged).values()) == {states["complete"]}
