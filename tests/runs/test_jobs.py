"""Runs in processes of their own: attached, collected, killed and started again, failed with a reason."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from compclip.base import worker_processes
from compclip.base.errors import UserError
from compclip.base.files import read_json, write_json
from compclip.config import read
from compclip.evaluate import result_store
from compclip.launch import results_job as launch_job
from compclip.runs import cluster, jobs, lock, progress, run_store
from compclip.runs import run_folder as results
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from compclip.train import job as train_job
from tests import fake_slurm
from tests.tiny_project import METHODS, at, cell, collect, outcome, wait_for

pytestmark = pytest.mark.usefixtures("forked_commands")


@pytest.fixture(scope="session")
def serial(finished):
    """The outcome of each cell, trained and evaluated in this process."""
    return {name: outcome(finished, name) for name in map(cell, METHODS)}


def submit(stored_run: StoredRun, module: str = jobs.SCORES) -> jobs.LocalJob:
    return jobs.Local(module).submit(stored_run, "params.yaml")


def test_results_of_another_evaluation_are_not_taken_over(here_finished):
    """What was scored stands for its benchmarks, the way, code and weights alone; threads are no part."""
    stored_run, task = at(cell("finetune")), result_store.task_from_params(read.load_params("params.yaml"))
    results_path = result_store.find_results(task, stored_run.folder)
    assert read_json(results.result_path(results_path, "sugarcrepe"))["n"] == 14
    more_threads = replace(task, how=replace(task.how, threads=7))
    assert result_store.find_results(more_threads, stored_run.folder) == results_path
    again = {"again": replace(task.sections["sugarcrepe"], benchmark="sugarcrepe")}
    otherwise = replace(task.how, batch_size=17), replace(task.how, ties="first")
    for changes in (*({"how": how} for how in otherwise), {"code": "other"}, {"sections": {**task.sections, **again}}):
        assert result_store.find_results(replace(task, **changes), stored_run.folder) is None
    assert result_store.find_results(task, at(cell("fsc_clip")).folder) not in (None, results_path)
    assert result_store.find_results(task, at(cell("finetune"), "train.lr=2e-3").folder) is None


def test_the_train_stage_attaches_to_a_live_job(here, serial, monkeypatch, capsys):
    """While a job trains, the stage waits for it, and publishes what it made; the driver that sent it is long gone."""
    stored_run = at(cell("fsc_clip"))
    submit(stored_run, "tests.held_job")
    wait_for(lambda: Path("held").exists())
    assert jobs.find_worker(stored_run.folder).state() == jobs.RUNNING
    assert lock.find_holder(stored_run.folder) == jobs.find_job(stored_run.folder).record["pid"]
    monkeypatch.setattr(fine_tuning, "train", None)
    published = []
    monkeypatch.setattr(progress.Follower, "__call__", lambda _: published.append(Path("runs").exists()) or go())
    assert train_command.main(["--cell", cell("fsc_clip")]) == 0
    assert "trains this run (running); waiting for it" in capsys.readouterr().out
    assert published and not any(published)
    assert lock.find_holder(stored_run.folder) is None
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


def go() -> None:
    Path("go").touch()


@pytest.mark.parametrize(
    ("how", "reason", "step"),
    [(signal.SIGUSR1, "stopped by a signal after step 4 of 10", 4), (signal.SIGKILL, "killed by SIGKILL", 2)],
)
def test_killed_and_begun_again_ends_with_the_same_bits(here, serial, how, reason, step):
    """A cluster's signal leaves time to save a step more. A dead job is forgotten: a second one, or the stage, goes on."""
    stored_run = at(cell("fsc_clip"))
    job = submit(stored_run, "tests.held_job")
    wait_for(lambda: Path("held").exists())
    os.kill(job.record["pid"], how)
    go()
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED and reason in job.reason()
    assert stored_run.folder.checkpoints()[-1].name == f"step_{step:08}.safetensors"
    assert jobs.find_worker(stored_run.folder) is None
    later_reason = jobs.find_job(stored_run.folder).reason()  # of a process that did not start it
    assert reason in later_reason and ("SIG" in later_reason) == (how == signal.SIGKILL)
    if how == signal.SIGUSR1:
        again = submit(stored_run)
        assert jobs.wait_for_job(again, lambda: None) == jobs.DONE, again.reason()
    collect(cell("fsc_clip"))
    assert outcome(here, cell("fsc_clip")) == serial[cell("fsc_clip")]


@pytest.mark.parametrize(("record", "now", "words"), [
    ({"exit_code": -9, "memory_kills": 1}, 2, "killed by SIGKILL for want of memory (oom_kill of its control group rose from 1 to 2)"),
    ({"exit_code": -9, "memory_kills": 2}, 2, "killed by SIGKILL (its control group counts no oom_kill since the job began)"),
    ({"exit_code": -9, "memory_kills": None}, None, "killed by SIGKILL, perhaps for want of memory"),
    ({"exit_code": -11, "memory_kills": 0}, 1, "killed by SIGSEGV"),
    ({"memory_kills": 0}, 1, "gone without an error: killed for want of memory (oom_kill of its control group rose from 0 to 1), or its machine was restarted"),
    ({}, 1, "gone without an error: killed, perhaps for want of memory, or its machine was restarted"),
])  # fmt: skip
def test_status_names_the_signal_and_memory(run, monkeypatch, record, now, words):
    """And no line of progress as if that were the error; its parent noted the signal, or nobody did."""
    monkeypatch.setattr(worker_processes, "count_memory_kills", lambda: now)
    run.log.write_text("step 3/10  loss 2.0\n")
    job = jobs.LocalJob(run, {"module": jobs.TRAINS, "pid": 2} | record)
    assert job.reason() == f"{words}; before it: step 3/10  loss 2.0 ({run.log})"


def test_a_shell_s_place_does_not_reach_a_job_of_this_machine(here, monkeypatch):
    """Inside an allocation, or started by torchrun, a run is a process of its own, with the allocation's cores."""
    shell = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_CPUS_PER_TASK": "3", "RANK": "1", "WORLD_SIZE": "2",
             "MASTER_PORT": "1", "PMIX_RANK": "1", "SLURM_GPUS_ON_NODE": "2"}  # fmt: skip
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stored_run = at(cell("finetune"))
    jobs.wait_for_job(submit(stored_run, "tests.environment"), lambda: None)
    environment = json.loads(stored_run.folder.log.read_text())
    assert not shell.keys() & environment.keys()
    assert (environment["COMPCLIP_CORES"], environment["COMPCLIP_GPUS"]) == ("3", "2")


def test_a_cluster_job_that_is_gone_leaves_the_cell_stale(here, monkeypatch, capsys):
    """Its end is told and nothing is trained here, until it is sent again or given up."""
    stored_run = at(cell("finetune"))
    write_json(stored_run.folder.job, fake_slurm.record("7_1"))
    stored_run.folder.log.write_text("step 3/10\nRuntimeError: CUDA error\n")
    fake_slurm.install(monkeypatch)
    monkeypatch.setattr(cluster, "explain_end", lambda job, log: "time limit reached")
    with pytest.raises(UserError, match="job 7_1 failed: time limit reached: RuntimeError: CUDA error"):
        train_command.main(["--cell", cell("finetune")])
    assert capsys.readouterr().err == "    step 3/10\n    RuntimeError: CUDA error\n"
    assert not Path("runs").exists()
    jobs.forget_job(stored_run.folder)
    assert train_command.main(["--cell", cell("finetune")]) == 0


def test_a_job_whose_inputs_changed_refuses(here):
    """The key is of the data and code at submission."""
    stored_run = at(cell("finetune"))
    jobs.write_inputs(replace(stored_run, folder=run_store.find_folder("0123456789abcdef")), "params.yaml")
    for module in (launch_job, train_job):
        with pytest.raises(UserError, match=rf"code or data changed .* \(its key is now {stored_run.key}\)"):
            module.main(["0123456789abcdef"])
        with pytest.raises(UserError, match="store/gone/run.yaml: no such run"):
            module.main(["gone"])


def make_job(job_id: str, path: Path = Path("k"), **changes: str) -> jobs.SlurmJob:
    return jobs.SlurmJob(RunFolder(path), fake_slurm.record(job_id, **changes))


def test_a_job_just_sent_is_not_taken_for_dead(monkeypatch):
    """What this process knows of the queue is older than the job that another one sent: it asks again."""
    answers = [(0, "", ""), (0, fake_slurm.row("5", "PENDING"), ""), (0, "", "")]
    fake_slurm.install(monkeypatch, lambda *_: answers.pop(0), max_age_s=1e9)
    assert make_job("4").state() == jobs.FAILED
    assert make_job("5").state() == jobs.PENDING
    assert [make_job("6").state(), make_job("6").state()] == [jobs.FAILED] * 2  # is over, whoever asks again
    assert not answers


def test_the_line_of_the_process_that_failed_first(tmp_path):
    """Others that are stopped for it speak later; what was said before many lines is of an earlier life."""
    folder = RunFolder(tmp_path)
    folder.log.write_text("error: process 3: old\n" + "step\n" * 9)
    assert jobs.last_line(folder).startswith("step (")
    with folder.log.open("a") as log:
        log.write("error: process 1: no room\nerror: process 2: lost process 1\nstopped by a signal\n")
    assert jobs.last_line(folder).startswith("error: process 1: no room (")


def test_what_an_earlier_job_logged_is_no_cause(tmp_path):
    """Of a run, or of one of its processes, sent again: of the last job alone, and nothing where it logged nothing."""
    folder = RunFolder(tmp_path)
    jobs.mark_sent(folder)
    assert not folder.log.exists()
    folder.log.write_text("error: the loss is not finite\n")
    folder.log_of(1).write_text("old\n")
    jobs.mark_sent(folder)
    assert jobs.last_line(folder) == f"nothing logged ({folder.log})"
    assert jobs.last_lines(folder, rank=1) == []
    with folder.log.open("a") as log:
        log.write("step 1\n")
    assert jobs.last_lines(folder) == ["step 1"]


def test_where_a_job_logged_nothing_the_scheduler_s_log_tells(tmp_path):
    """Its last lines and its path, but of that file alone; one that is not there is said to be so."""
    folder, log = RunFolder(tmp_path / "k"), tmp_path / "5_1_0_log.out"
    write_json(folder.job, {"kind": "slurm", "id": "5_1", "log": str(log)})
    assert jobs.last_line(folder) == f"nothing logged ({log}, not there)"
    log.write_text("\nline 20: module: command not found\n" + "srun: error\n" * 2)
    assert jobs.last_line(folder).startswith("line 20: module: command not found / srun: error")
    assert jobs.last_line(folder).endswith(f"({log})")
    for name in ("id_rsa", "6_0_log.out"):
        (tmp_path / name).write_text("secret")
        write_json(folder.job, {"kind": "slurm", "id": "5_1", "log": str(tmp_path / name)})
        assert "secret" not in jobs.last_line(folder)
    folder.log.write_text("step 1\n")
    assert jobs.last_line(folder) == f"step 1 ({folder.log})"


def test_liveness_needs_more_than_a_process_id(tmp_path):
    """An id that another process has now, another boot, another machine: no live job."""
    pid, ours = os.getpid(), jobs.read_start_time(os.getpid())
    host = socket.gethostname()
    for record, live in (
        ({"pid": pid, "started": ours, "host": host}, True),
        ({"pid": pid, "started": "1@" + ours.partition("@")[2], "host": host}, False),
        ({"pid": pid, "started": ours.partition("@")[0] + "@other", "host": host}, False),
        ({"pid": pid, "started": ours, "host": "elsewhere"}, False),
    ):
        write_json(RunFolder(tmp_path).job, {"kind": "local", **record})
        assert (jobs.find_worker(RunFolder(tmp_path)) is not None) == live


@pytest.mark.parametrize(
    ("module", "code", "states"),
    [
        (jobs.SCORES, 0, (jobs.FAILED, jobs.FAILED, jobs.DONE)),
        (jobs.SCORES, -signal.SIGABRT, (jobs.FAILED, jobs.FAILED, jobs.DONE)),
        (jobs.TRAINS, 0, (jobs.FAILED, jobs.DONE, jobs.DONE)),
        (jobs.TRAINS, -signal.SIGABRT, (jobs.FAILED,) * 3),  # the checkpoint may have been there before
    ],
)
def test_results_count_more_than_how_python_ended(tmp_path, module, code, states):
    """Without files, with a checkpoint, with results: a process that aborts at its end has done its work."""
    folder = RunFolder(tmp_path)
    job = jobs.LocalJob(folder, {"module": module}, SimpleNamespace(poll=lambda: code, returncode=code))
    observed_states = [job.state()]
    for path in (folder.final.environment, folder.scored):
        write_json(path, {})
        observed_states.append(job.state())
    assert tuple(observed_states) == states


def test_a_zombie_is_not_alive():
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    wait_for(lambda: jobs.read_start_time(child.pid) == "")
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()


ACCOUNTS = [
    ("FAILED|1:0|vm\nOUT_OF_MEMORY|0:125|vm\n", "out of memory; raise memory_gb"),
    ("TIMEOUT|0:0|vm\nCANCELLED|0:15|vm\n", "time limit reached; raise time_min"),
    ("NODE_FAIL|0:0|n7\n", "its node failed (on n7)"),
    ("CANCELLED by 0|0:0|vm\n", "cancelled"),
    ("FAILED|3:0|vm\nCOMPLETED|0:0|vm\n", "failed, exit code 3"),
    ("FAILED|137:0|vm\nFAILED|137:0|vm\nCANCELLED|0:9|vm\n", "failed, exit code 137"),  # by srun, after a process
]


def answer(monkeypatch, **answers: tuple[int, str, str]) -> None:
    monkeypatch.setattr(cluster, "read_config", lambda: {"ClusterName": fake_slurm.CLUSTER})
    monkeypatch.setattr(cluster, "run_command", lambda *c: subprocess.CompletedProcess(c, *answers[c[0]]))


LOGS = ["slurmstepd-vm: error: StepId=3.0 exceeded memory limit (839446528 > 52428800), being killed",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0", "srun: error: n1: task 0: Out Of Memory"]  # fmt: skip


@pytest.mark.parametrize(
    ("sacct_output", "log", "reason"),
    [*((output, "memory in use: 5 GiB", reason) for output, reason in ACCOUNTS),
     *(("FAILED|0:9|vm\n", log, "out of memory") for log in LOGS)],
)  # fmt: skip
def test_what_accounts_and_log_say(monkeypatch, sacct_output, log, reason):
    """SLURM's states in plain words; memory that is enforced without control groups is accounted as a kill."""
    answer(monkeypatch, sacct=(0, sacct_output, ""))
    assert cluster.explain_end(make_job("5").identity, log).startswith(reason)


def test_without_accounts_the_controller_is_asked(monkeypatch):
    """As long as it remembers; then the line says that nothing is known, and why."""
    job, description = make_job("5").identity, "JobId=5 JobName={} JobState=TIMEOUT ExitCode=0:0 NodeList=vm\n"
    disabled = 1, "", "Slurm accounting storage is disabled\n"
    answer(monkeypatch, sacct=disabled, scontrol=(0, description.format(fake_slurm.NAME), ""))
    assert cluster.explain_end(job).startswith("time limit reached")
    for scontrol in ((0, description.format("another"), ""), (1, "", "error: Invalid job id specified\n")):
        answer(monkeypatch, sacct=disabled, scontrol=scontrol)
        assert cluster.explain_end(job) == "SLURM no longer knows why: Slurm accounting storage is disabled"


def test_slurm_that_does_not_answer_leaves_the_state_as_it_was(monkeypatch, capsys):
    """A controller that restarts is no dead job."""
    away = (1, "", "Unable to contact slurm controller")
    answers = [(0, fake_slurm.row("5"), ""), away, away, (0, "", "")]
    fake_slurm.install(monkeypatch, lambda *_: answers.pop(0), max_age_s=-1)
    job = make_job("5")
    assert [job.state() for _ in range(4)] == [jobs.RUNNING] * 3 + [jobs.FAILED]
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: SLURM does not answer (Unable") and last == "note: SLURM answers again"


def test_a_job_that_left_its_results_needs_no_slurm(tmp_path, monkeypatch):
    """A cluster that is gone for good keeps nobody from publishing what it made."""
    fake_slurm.install(monkeypatch, lambda *_: (1, "", "away"))
    folder = RunFolder(tmp_path)
    scores, trains = (make_job("5", tmp_path, module=module) for module in (jobs.SCORES, jobs.TRAINS))
    assert (scores.state(), trains.state()) == (jobs.PENDING, jobs.PENDING)
    write_json(folder.final.environment, {})
    assert (scores.state(), trains.state()) == (jobs.PENDING, jobs.DONE)
    write_json(folder.scored, {})
    assert scores.state() == jobs.DONE
