"""Dispatch to a real SLURM (`slurm/local-cluster.sh up`): arrays, preemption, requeue, cancelled and starved jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import score
from compclip.launch import __main__ as launch_command
from compclip.launch import grid, profiles, slurm
from compclip.runs import cluster, jobs
from compclip.runs.store import StoredRun
from compclip.train import __main__ as train_command
from compclip.train import finish
from tests import tiny_project
from tests.tiny_project import at, cell, outcome, steps, trained, wait_for

NAME = cell("fsc_clip")
STEPS = 150


@pytest.fixture(scope="module")
def project(slurm_there, project, tmp_path_factory):
    """All that train needs."""
    return tiny_project.other(project, tmp_path_factory.mktemp("slurm") / "project", STEPS)


@pytest.fixture(scope="module")
def serial(project, tmp_path_factory):
    """The outcome of each cell, trained and evaluated in this process."""
    root = tmp_path_factory.mktemp("serial") / "p"
    shutil.copytree(project, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in map(cell, ("pretrained", "finetune", "fsc_clip")):
            collect(name)
    return {name: outcome(root, name) for name in map(cell, ("pretrained", "finetune", "fsc_clip"))}


@pytest.fixture
def here(here, monkeypatch):
    """The copy's jobs are cancelled at the end."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cluster.queue.cache_clear()
    yield here
    for path in Path("store").glob("*/job.json"):
        cluster.run("scancel", json.loads(path.read_text())["id"])


def profile(**changes) -> Path:
    """A profile of the local cluster with other values."""
    chosen = {"partition": "main", "memory_gb": 2, "time_min": 30, "signal_s": 30, "array_limit": 2, **changes}
    path = Path("profile.yaml")
    path.write_text("\n".join(f"{k}: {json.dumps(v)}" for k, v in chosen.items()))
    return path


def collect(name: str) -> None:
    """What `dvc repro` does with a cell."""
    assert train_command.main(["--cell", name]) == 0
    assert evaluate_command.main(["--cell", name]) == 0


def send(made: StoredRun, **changes) -> jobs.SlurmJob:
    """Send one run, and wait until it has made a few steps."""
    job = slurm.Slurm(profiles.load(profile(**changes))).submit(made, "params.yaml")
    wait_for(lambda: len(steps(made.folder.metrics)) >= 5)
    return job


def ran_twice(made: StoredRun) -> bool:
    """Whether a second process trained the run: only the first line of a process has no speed of steps before it."""
    return made.folder.log.read_text().count("stopped by a signal") == 1


def test_the_grid_as_an_array(here, serial, monkeypatch, capsys):
    """One array; the stages wait for its jobs, publish, and have the bits of the serial run; then nothing is stale."""
    assert launch_command.main([str(profile())]) == 0
    made = {p.run.cell.name: p for p in grid.runs(read.load("params.yaml"), Path(".")).values()}
    ids = [jobs.find(p.folder).id for p in made.values()]
    assert [i.partition("_")[2] for i in ids] == ["0", "1", "2"]
    assert len({i.partition("_")[0] for i in ids}) == 1
    assert launch_command.main([str(profile())]) == 0
    assert "0 to send" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr(finish, "train", None)
    monkeypatch.setattr(score, "documents_of_all", None)
    for name in made:
        collect(name)
        assert outcome(here, name) == serial[name]
    assert launch_command.main([str(profile())]) == 0
    assert "3 runs: 3 finished" in capsys.readouterr().out


def test_the_code_of_a_job_is_that_of_its_submission(here):
    """It imports the copy, not the checkout."""
    made = at(cell("pretrained"))
    sent = slurm.Slurm(profiles.load(profile()), module="tests.where").submit(made, "params.yaml")
    assert jobs.wait(sent, lambda: None) == jobs.FAILED
    assert str((Path(".work") / "code").resolve()) in made.folder.log.read_text()


@pytest.mark.parametrize("how", ["requeue", "warning"])
def test_preempted_jobs_go_on(here, serial, how):
    """SLURM's requeue, and its warning signal before one: the same job id, the same folder, the same bits."""
    made = at(NAME)
    job = send(made)
    command_ = ["scontrol", "requeue", job.id] if how == "requeue" else ["scancel", "--signal=USR2", job.id]
    assert cluster.run(*command_).returncode == 0
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    assert ran_twice(made)
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_a_higher_partition_preempts(here, serial):
    """An urgent job takes the cores; ours is put back by SLURM and goes on."""
    made = at(NAME)
    job = send(made)
    cpus = cluster.run("sinfo", "-h", "-o", "%c").stdout.split()[0]
    done = cluster.run("srun", "--partition=urgent", f"--cpus-per-task={cpus}", "--ntasks=1", "--mem=100", "true")
    assert done.returncode == 0, done.stderr
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    assert ran_twice(made)
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_a_cancelled_job_says_so_and_goes_on_when_sent_again(here, serial):
    """The stage names the cause and leaves the cell stale; launched again, it goes on from its checkpoint."""
    made = at(NAME)
    job = send(made)
    assert cluster.run("scancel", job.id).returncode == 0
    with pytest.raises(
        UserError, match=f"{NAME}: job {job.id} failed: cancelled: stopped by a signal after step .*job.log"
    ):
        train_command.main(["--cell", NAME])
    assert not Path("runs").exists()
    again = slurm.Slurm(profiles.load(profile())).submit(made, "params.yaml")
    assert again.id != job.id
    collect(NAME)
    assert ran_twice(made)
    assert outcome(here, NAME) == serial[NAME]


def test_a_time_limit(here, serial, monkeypatch):
    """With no requeue left the line names the limit; sent again with more time, the run ends with the same bits."""
    monkeypatch.setenv("HELD_UNTIL", "signal")
    made = at(NAME)
    limited = profiles.load(profile(time_min=1, signal_s=10, requeues=0))
    job = slurm.Slurm(limited, module="tests.held_job").submit(made, "params.yaml")
    with pytest.raises(
        UserError, match=f"job {job.id} failed: time limit reached; raise time_min in the profile, or requeues"
    ):
        train_command.main(["--cell", NAME])
    collect(cell("pretrained"))
    slurm.Slurm(profiles.load(profile())).submit(made, "params.yaml")
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_the_node_s_daemon_is_killed(here, serial):
    """The job runs on without it and counts as live; with the daemon back it ends, with the same bits."""
    noted = re.search(r"SlurmdPidFile\s*=\s*(\S+)", cluster.run("scontrol", "show", "config").stdout)
    if os.geteuid() or not noted or not Path(noted[1]).is_file():
        pytest.skip("the node's daemon is not ours: not root, or no SlurmdPidFile on this machine")
    made = at(NAME)
    job = send(made)
    os.kill(int(Path(noted[1]).read_text()), signal.SIGKILL)
    try:
        cluster.queue.cache_clear()
        assert job.state() == jobs.RUNNING
    finally:
        wait_for(lambda: subprocess.run(["slurmd"]).returncode == 0, 30)
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_out_of_memory(here):
    """The line says so and what to raise; the other cells are not touched; with more memory it runs."""
    made = at(NAME)
    job = slurm.Slurm(profiles.load(profile(memory_gb=0.1))).submit(made, "params.yaml")
    with pytest.raises(UserError, match=f"{NAME}: job {job.id} failed: out of memory; raise memory_gb in the profile"):
        train_command.main(["--cell", NAME])
    collect(cell("pretrained"))
    slurm.Slurm(profiles.load(profile())).submit(made, "params.yaml")
    collect(NAME)


def test_a_job_that_raises_leaves_its_line(here):
    """The exception's line from the job's log."""
    made = at(NAME, *["train.lr=1e30", "train.grad_clip_norm=0", "train.warmup_steps=0"])
    job = slurm.Slurm(profiles.load(profile())).submit(made, "params.yaml")
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    assert "failed, exit code 1: error: train: the loss is nan at step" in job.reason()


def test_an_unknown_partition(here):
    """The cluster's own are listed."""
    with pytest.raises(UserError, match="partition='mian', the cluster has main, urgent"):
        launch_command.main([str(profile(partition="mian"))])
    assert not list(Path("store").glob("*/job.json"))
    assert not list(Path(".work/slurm").glob("compclip-*.json"))


def test_cancel(here, capsys):
    """All of the grid's jobs, waiting ones too; nothing is left in the queue."""
    assert launch_command.main([str(profile(array_limit=1))]) == 0
    ids = [json.loads(p.read_text())["id"] for p in Path("store").glob("*/job.json")]
    assert launch_command.main([str(profile()), "cancel"]) == 0
    assert "3 jobs stopped" in capsys.readouterr().out
    assert not set(cluster.run("squeue", "--me", "-h", "-r", "-o", "%i").stdout.split()) & set(ids)
    assert not list(Path("store").glob("*/job.json"))


def test_a_killed_command_is_found_again(here):
    """Killed after SLURM took the array and before it noted the ids: the next command finds the jobs by their name."""
    code = (
        "import os, signal, sys; from compclip.launch import __main__, slurm;"
        "slurm._record = lambda *a: os.kill(os.getpid(), signal.SIGKILL); __main__.main(sys.argv[1:])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(profile())], env=tiny_project.environment())
    assert done.returncode == -9
    assert not list(Path("store").glob("*/job.json"))
    assert slurm.Slurm(profiles.load(profile())).recover() == 3
    assert len(list(Path("store").glob("*/job.json"))) == 3


def test_two_tasks_a_run(here):
    """Two processes of a step, each with its rank and a log of its own."""
    made = at(NAME)
    sender = slurm.Slurm(profiles.load(profile(tasks_per_node=2)), module="tests.ranks")
    job = sender.submit(made, "params.yaml")
    assert jobs.wait(job, lambda: None) == jobs.FAILED  # it makes no results
    said = [made.folder.log_of(rank).read_text().strip() for rank in (0, 1)]
    assert said == [f"{made.key}: rank {rank} of 2, local {rank}" for rank in (0, 1)]


def test_a_run_on_two_processes(here):
    """Trained by both, published once; the key is that of one process, and a requeue goes on."""
    made = at(NAME)
    job = send(made, tasks_per_node=2)
    assert cluster.run("scancel", "--signal=USR2", job.id).returncode == 0
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    assert ran_twice(made)
    collect(NAME)
    assert json.loads((trained(Path("."), NAME) / "environment.json").read_text())["processes"] == 2
    assert [row["step"] for row in steps(trained(Path("."), NAME) / "metrics.jsonl")] == list(range(1, STEPS + 1))


def test_a_lost_node(here, serial):
    """SLURM takes the job off a node that goes down, and it goes on when the node is back."""
    made, node = at(NAME), cluster.run("sinfo", "-h", "-o", "%n").stdout.split()[0]
    job = send(made)
    assert cluster.run("scontrol", "update", f"node={node}", "state=down", "reason=test").returncode == 0
    back = cluster.run("scontrol", "update", f"node={node}", "state=resume")
    assert back.returncode == 0 or "Invalid node state" in back.stderr  # it may have registered again by itself
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_a_cluster_without_accounting(here, monkeypatch):
    """sacct fails as it does there: the job runs, and the controller says why another one ended."""
    Path("sacct").write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
    Path("sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    made = at(cell("pretrained"))
    job = slurm.Slurm(profiles.load(profile())).submit(made, "params.yaml")
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    made = at(NAME)
    job = send(made)
    assert cluster.run("scancel", job.id).returncode == 0
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    assert job.reason().startswith("cancelled: stopped by a signal")
