"""Runs in processes of their own: attached, collected, killed and started again, failed with a reason."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import score
from compclip.runs import cluster, jobs, lock
from compclip.runs.store import StoredRun
from compclip.train import __main__ as train_command
from compclip.train import loop
from tests import tiny_project
from tests.tiny_project import at, cell, outcome, trained, wait_for


@pytest.fixture(scope="module")
def serial(project, tmp_path_factory):
    """The outcome of each cell, trained and evaluated in this process."""
    root = tmp_path_factory.mktemp("serial") / "p"
    shutil.copytree(project, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in map(cell, ("finetune", "fsc_clip")):
            assert train_command.main(["--cell", name]) == 0
            assert evaluate_command.main(["--cell", name]) == 0
    return {name: outcome(root, name) for name in map(cell, ("finetune", "fsc_clip"))}


def publisher(method: str, *overrides: str) -> StoredRun:
    """The folders of a cell of the project in the current folder."""
    return at(cell(method), *overrides)


def submit(made: StoredRun, module: str = jobs.SCORES) -> jobs.LocalJob:
    """Start a job for a cell."""
    return jobs.Local(module=module).submit(made, "params.yaml")


def collect(name: str) -> None:
    """What `dvc repro` does with a cell."""
    assert train_command.main(["--cell", name]) == 0
    assert evaluate_command.main(["--cell", name]) == 0


def test_a_job_makes_what_the_stages_make(here, serial, monkeypatch):
    """Trained and scored by a job; the stages publish its files without a step or a picture encoded, bit for bit."""
    job = submit(publisher("fsc_clip"))
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    monkeypatch.setattr(loop, "train", None)
    monkeypatch.setattr(score, "run", None)
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


def test_results_of_another_evaluation_are_not_taken_over(here):
    """A job's results stand for its benchmarks, batch size and code alone."""
    job = submit(publisher("finetune"))
    assert jobs.wait(job, lambda: None) == jobs.DONE, job.reason()
    final = publisher("finetune").work / "final"
    benchmarks, module_of = score.load_benchmarks(read.load("params.yaml"), ["sugarcrepe"])
    task = score.Job(str(final / "checkpoint"), benchmarks, module_of, threads=1)
    assert score.kept(task, final)["sugarcrepe"]["n"] == len(benchmarks["sugarcrepe"])
    assert score.kept(score.Job(str(final / "checkpoint"), benchmarks, module_of, 17, 1), final) is None
    assert score.kept(score.Job("models/tiny", benchmarks, module_of, threads=1), final) is None


def test_the_train_stage_attaches_to_a_live_job(here, serial, monkeypatch, capfd):
    """While a job trains, the stage waits for it, and publishes what it made; the driver that sent it is long gone."""
    made = publisher("fsc_clip")
    submit(made, "tests.held_job")
    wait_for(lambda: Path("held").exists())
    assert jobs.attach(made.folder).state() == jobs.RUNNING
    assert lock.holder(made.folder) == jobs.find(made.folder).record["pid"]
    stage = subprocess.Popen(
        [sys.executable, "-m", "compclip.train", "--cell", cell("fsc_clip")],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=tiny_project.environment(),
    )
    assert "trains this run (running); waiting for it" in stage.stdout.readline()
    assert not Path("runs").exists()
    Path("go").touch()
    out, err = stage.communicate(timeout=120)
    assert stage.returncode == 0, err
    assert lock.holder(made.folder) is None
    monkeypatch.setattr(loop, "train", None)
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_killed_and_sent_again_ends_with_the_same_bits(here, serial, how):
    """A job that was killed says how it ended, and a second one goes on from its last checkpoint."""
    made = publisher("fsc_clip")
    job = submit(made, "tests.held_job")
    wait_for(lambda: Path("held").exists())
    os.kill(job.record["pid"], how)
    Path("go").touch()
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    wanted = "killed by SIGKILL" if how == signal.SIGKILL else "stopped by a signal after step 4 of 10"
    assert wanted in job.reason()
    saved = sorted(p.name for p in made.folder.path.glob("step_*"))
    assert saved[-1] == ("step_00000002.safetensors" if how == signal.SIGKILL else "step_00000004.safetensors")
    assert jobs.attach(made.folder) is None
    again = submit(made)
    assert jobs.wait(again, lambda: None) == jobs.DONE, again.reason()
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


def test_a_dead_process_of_this_machine_is_no_obstacle(here, serial):
    """A local job that died is forgotten: the stage trains here, from its checkpoint."""
    made = publisher("fsc_clip")
    job = submit(made, "tests.held_job")
    wait_for(lambda: Path("held").exists())
    os.kill(job.record["pid"], signal.SIGKILL)
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


def test_a_job_that_fails_says_why(here):
    """The line the job ended with, and where the rest is; the stage repeats it while it waits."""
    made = publisher("finetune", "train.lr=1e30", "train.grad_clip_norm=0", "train.warmup_steps=0")
    job = submit(made)
    assert jobs.wait(job, lambda: None) == jobs.FAILED
    assert "exit code 2: error: train: the loss is nan at step" in job.reason()
    assert str(made.folder.log) in job.reason()


def test_a_cluster_job_that_is_gone_leaves_the_cell_stale(here, monkeypatch, capsys):
    """Its end is told and nothing is trained here, until it is sent again or given up."""
    made = publisher("finetune")
    write_json(made.folder.job, {"kind": "slurm", "id": "7_1", "log": ""})
    (made.folder.log).write_text("step 3/10\nRuntimeError: CUDA error\n")
    monkeypatch.setattr(cluster, "_queued", dict)
    monkeypatch.setattr(cluster, "why", lambda job_id, log: "time limit reached")
    cluster.queue.cache_clear()
    with pytest.raises(UserError, match="job 7_1 failed: time limit reached: RuntimeError: CUDA error"):
        train_command.main(["--cell", cell("finetune")])
    assert capsys.readouterr().err == "    step 3/10\n    RuntimeError: CUDA error\n"
    assert not Path("runs").exists()
    jobs.forget(made.folder)
    assert train_command.main(["--cell", cell("finetune")]) == 0


def test_a_job_whose_inputs_changed_refuses(here):
    """The key is of the data and code at submission."""
    made = publisher("finetune")
    jobs.write_inputs("0123456789abcdef", "params.yaml", made.run)
    done = subprocess.run(
        [sys.executable, "-m", "compclip.launch.job", "0123456789abcdef"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert f"code or data changed since it was submitted (its key is now {made.key})" in done.stderr


def test_a_job_just_sent_is_not_taken_for_dead(monkeypatch):
    """What this process knows of the queue is older than the job that another one sent: it asks again."""
    asked, answers = cluster.Queue(max_age_s=1e9), [(0, "", ""), (0, "5|PENDING|None\n", "")]
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, *answers.pop(0)))
    monkeypatch.setattr(cluster, "queue", lambda: asked)
    assert asked.state("4") is None
    job = jobs.SlurmJob("k", {"kind": "slurm", "id": "5", "sent": time.time()})
    assert job.state() == jobs.PENDING
    assert not answers


def test_the_end_of_a_log(tmp_path):
    """Ten lines at most, none of them blank."""
    (tmp_path / ".work" / "k").mkdir(parents=True)
    assert jobs.last_lines("k", tmp_path) == []
    (tmp_path / ".work" / "k" / "job.log").write_text("".join(f"line {n}\n\n" for n in range(30)))
    assert jobs.last_lines("k", tmp_path) == [f"line {n}" for n in range(20, 30)]
    assert jobs.last_line("k", tmp_path).startswith("line 29 (")


def test_liveness_needs_more_than_a_process_id(tmp_path):
    """An id that another process has now, another boot, another machine: no live job."""
    pid, ours = os.getpid(), jobs.started(os.getpid())
    host = socket.gethostname()
    for record, live in (
        ({"pid": pid, "started": ours, "host": host}, True),
        ({"pid": pid, "started": "1@" + ours.partition("@")[2], "host": host}, False),
        ({"pid": pid, "started": ours.partition("@")[0] + "@other", "host": host}, False),
        ({"pid": pid, "started": ours, "host": "elsewhere"}, False),
    ):
        write_json(tmp_path / ".work" / "k" / "job.json", {"kind": "local", **record})
        assert (jobs.attach("k", tmp_path) is not None) == live


def test_a_zombie_is_not_alive():
    """A process that ended but was not waited for."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    wait_for(lambda: jobs.started(child.pid) == "")
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()


ACCOUNTS = [
    ("FAILED|1:0|vm\nOUT_OF_MEMORY|0:125|vm\n", "out of memory; raise memory_gb"),
    ("TIMEOUT|0:0|vm\nCANCELLED|0:15|vm\n", "time limit reached; raise time_min"),
    ("NODE_FAIL|0:0|n7\n", "its node failed (on n7)"),
    ("CANCELLED by 0|0:0|vm\n", "cancelled"),
    ("FAILED|3:0|vm\nCOMPLETED|0:0|vm\n", "failed, exit code 3"),
]


@pytest.mark.parametrize(("said", "wanted"), ACCOUNTS)
def test_what_the_accounts_say(monkeypatch, said, wanted):
    """SLURM's states in plain words."""
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, 0, said, ""))
    assert cluster.why("5").startswith(wanted)


def test_memory_that_only_the_log_tells_of(monkeypatch):
    """Enforced without control groups it is accounted as a kill; a job that only speaks of memory is not meant."""
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, 0, "FAILED|0:9|vm\n", ""))
    for line in (
        "slurmstepd-vm: error: StepId=3.0 exceeded memory limit (839446528 > 52428800), being killed",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0",
        "srun: error: n1: task 0: Out Of Memory",
    ):
        assert cluster.why("3", line).startswith("out of memory")
    assert cluster.why("3", "memory in use: 5 GiB").startswith("failed")


def test_without_accounts_the_controller_is_asked(monkeypatch):
    """As long as it remembers; then the line says that nothing is known, and why."""
    answers = {
        "sacct": (1, "", "Slurm accounting storage is disabled\n"),
        "scontrol": (0, "JobId=5 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:0 NodeList=vm\n", ""),
    }
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, *answers[c[0]]))
    assert cluster.why("5").startswith("time limit reached")
    answers["scontrol"] = (1, "", "slurm_load_jobs error: Invalid job id specified\n")
    assert cluster.why("5") == "SLURM no longer knows why: Slurm accounting storage is disabled"


def test_slurm_that_does_not_answer_leaves_the_state_as_it_was(monkeypatch, capsys):
    """A controller that restarts is no dead job."""
    away = (1, "", "Unable to contact slurm controller")
    answers = [(0, "5|RUNNING|None\n", ""), away, away, (0, "", "")]
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, *answers.pop(0)))
    asked = cluster.Queue(max_age_s=-1)
    monkeypatch.setattr(cluster, "queue", lambda: asked)
    job = jobs.SlurmJob("k", {"kind": "slurm", "id": "5"})
    assert [job.state() for _ in range(4)] == [jobs.RUNNING] * 3 + [jobs.FAILED]
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "warning: SLURM does not answer (Unable to contact slurm controller); waiting",
        "SLURM answers again",
    ]


def test_a_job_that_left_its_results_needs_no_slurm(tmp_path, monkeypatch):
    """A cluster that is gone for good keeps nobody from publishing what it made."""
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, 1, "", "away"))
    monkeypatch.setattr(cluster, "queue", cluster.Queue)
    job = jobs.SlurmJob("k", {"kind": "slurm", "id": "5"}, tmp_path)
    assert job.state() == jobs.PENDING
    write_json(tmp_path / ".work" / "k" / "final" / "evaluated.json", {})
    assert job.state() == jobs.DONE


def test_a_slurm_that_is_away_is_asked_once_for_all_jobs(monkeypatch):
    """Each question may take a minute then: an answer that failed counts as one."""
    asked = []
    monkeypatch.setattr(cluster, "run", lambda *c: asked.append(c) or subprocess.CompletedProcess(c, 1, "", "away"))
    queue = cluster.Queue(max_age_s=1e9)
    monkeypatch.setattr(cluster, "queue", lambda: queue)
    every = [jobs.SlurmJob("k", {"kind": "slurm", "id": str(i)}) for i in range(3)]
    assert [job.state() for job in every] == [jobs.PENDING] * 3
    assert len(asked) == 1


def test_a_read_only_run_directory_is_one_line(here, monkeypatch):
    """Named with the fix; other runs are unaffected, and with the cause gone it goes on."""
    Path("runs").write_text("a file where the folder should be")
    with pytest.raises(UserError, match="runs/finetune-tiny-scenes-0: cannot write: Not a directory; free space"):
        train_command.main(["--cell", cell("finetune")])
    Path("runs").unlink()
    monkeypatch.setattr(loop, "train", None)
    assert train_command.main(["--cell", cell("finetune")]) == 0
    facts = json.loads((trained(Path("."), cell("finetune")) / "environment.json").read_text())
    assert facts["run_key"] == publisher("finetune").key
