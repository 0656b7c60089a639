"""Dispatch to a real SLURM (`slurm/local-cluster.sh up`): arrays, preemption, requeue, cancelled and starved jobs."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.config import read
from compclip.evaluate import score
from compclip.launch import __main__ as launch_command
from compclip.launch import profiles, repro, run_jobs, slurm
from compclip.runs import cluster, jobs, run_table, status
from compclip.runs.run_store import StoredRun
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from tests import tiny_project
from tests.tiny_project import at, cell, collect, outcome, steps, trained, wait_for

NAME = cell("fsc_clip")
STEPS = 150


@pytest.fixture(scope="module")
def project(slurm_there, project, tmp_path_factory):
    return tiny_project.other(project, tmp_path_factory.mktemp("slurm") / "project", STEPS)


@pytest.fixture(scope="module")
def serial(project, tmp_path_factory):
    """The outcome of each cell, trained and evaluated in this process."""
    root = tiny_project.finish(shutil.copytree(project, tmp_path_factory.mktemp("serial") / "p"))
    return {name: outcome(root, name) for name in map(cell, tiny_project.METHODS)}


@pytest.fixture
def here(here, monkeypatch):
    """The copy's jobs are cancelled at the end."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cluster.queue.cache_clear()
    yield here
    for path in Path("store").glob("*/job.json"):
        cluster.run_command("scancel", json.loads(path.read_text())["id"])


def profile(**changes) -> Path:
    """A profile of the local cluster with other values."""
    values = {"partition": "main", "memory_gb": 2, "time_min": 30, "signal_s": 30, "array_limit": 2, **changes}
    path = Path("profile.yaml")
    path.write_text("\n".join(f"{k}: {json.dumps(v)}" for k, v in values.items()))
    return path


def send_all(path: Path) -> None:
    """Send what is stale, as `compclip repro --on` does once the keys are written."""
    run_jobs.send(profiles.load_profile(path), read.load_params("params.yaml"), 1)


def send(stored_run: StoredRun, **changes) -> jobs.SlurmJob:
    """Send one run, and wait until it has made a few steps."""
    job = slurm.Slurm(profiles.load_profile(profile(**changes))).submit(stored_run, "params.yaml")
    wait_for(lambda: len(steps(stored_run.folder.metrics)) >= 5)
    return job


def ran_twice(stored_run: StoredRun) -> bool:
    """Whether a second process trained the run: only the first line of a process has no speed of steps before it."""
    return stored_run.folder.log.read_text().count("stopped by a signal") == 1


def test_the_grid_as_an_array(here, serial, monkeypatch, capsys):
    """One array; the stages wait for its jobs, publish, and have the bits of the serial run; then nothing is stale."""
    send_all(profile())
    run_of_cell = {p.run.cell.name: p for p in run_jobs.locate_runs(read.load_params("params.yaml"), Path("."))}
    ids = [jobs.find_job(p.folder).id for p in run_of_cell.values()]
    assert [i.partition("_")[2] for i in ids] == ["0", "1", "2"]
    assert len({i.partition("_")[0] for i in ids}) == 1
    send_all(profile())
    assert "0 to send" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr(fine_tuning, "fine_tune", None)
    monkeypatch.setattr(score, "score_checkpoints", None)
    for name in run_of_cell:
        collect(name)
        assert outcome(here, name) == serial[name]
    send_all(profile())
    assert "3 runs: 3 finished" in capsys.readouterr().out


def test_the_command_loses_its_terminal_and_is_typed_again(here, serial, monkeypatch):
    """`repro --on` is gone while it follows the jobs: they go on, and the same command attaches and collects."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    tiny_project.begin_dvc(here)
    words = ["--on", str(profile())]
    driver, terminal = pty.fork()
    if not driver:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
        os._exit(repro.main(words))
    wait_for(at(NAME).folder.log.exists)  # its job is at its imports: the driver has long to follow it
    os.close(terminal)
    assert tiny_project.ended(driver) == -signal.SIGHUP
    job = jobs.find_job(at(NAME).folder)
    assert job.state() in (*jobs.LIVE, jobs.DONE)
    wait_for(lambda: not subprocess.run(["pgrep", "--session", str(driver)], capture_output=True).stdout)
    assert repro.main(words) == 0
    assert jobs.find_job(at(NAME).folder).id == job.id and not ran_twice(at(NAME))
    for name in map(cell, tiny_project.METHODS):
        collect(name)
        assert outcome(here, name) == serial[name]


@pytest.mark.long
def test_two_tasks_make_the_snapshots_of_a_run(here):
    """On the way, and once more beside the files of a run that is finished."""
    stored_run = at(NAME, "train.snapshots=[0.1]", "train.max_steps=20")
    sender = slurm.Slurm(profiles.load_profile(profile(tasks_per_node=2)))
    fingerprints = []
    for _ in range(2):
        links.remove(stored_run.folder.path / "snapshots")
        assert not stored_run.adopt_if_complete()
        job = sender.submit(stored_run, "params.yaml")
        assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
        snapshot = stored_run.folder.snapshot(0.1)
        assert stored_run.adopt_if_complete() and list(snapshot.path.glob("scores/*/sugarcrepe.json"))
        assert stored_run.folder.final.facts()["processes"] == 2
        fingerprints.append(fingerprint(snapshot.final.checkpoint))
    assert fingerprints[0] == fingerprints[1] != stored_run.folder.final.facts()["weights_fingerprint"]


def test_the_shell_s_allocation_does_not_reach_a_job(here, monkeypatch):
    """Sent from inside salloc and srun, and from a shell and a site that export nothing."""
    shell = {"SLURM_MEM_PER_CPU": "1500", "SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURM_JOB_ID": "1", "SRUN_DEBUG": "4",
             "PMI_RANK": "1", "MASTER_ADDR": "far", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "HOOK": "secret",
             "SBATCH_EXPORT": "NONE", "SLURM_EXPORT_ENV": "NONE", "SBATCH_JOB_NAME": "mine", "SBATCH_MEM_PER_CPU": "100",
             "COMPCLIP_PROJECT": "a name", "NOBODY": "needs this"}  # fmt: skip
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    stored_run = at(cell("pretrained"))
    sender = slurm.Slurm(profiles.load_profile(profile(notify="HOOK")), module="tests.environment")
    job = sender.submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED  # it makes no results
    environment = json.loads(stored_run.folder.log.read_text())
    assert shell.items() & environment.items() == {("COMPCLIP_PROJECT", "a name"), ("HOOK", "secret")}
    assert environment["PYTHONPATH"].startswith(str(here / ".work" / "code"))
    assert "secret" not in "".join(path.read_text() for path in Path(".work/slurm").glob("*.sh"))


# JOB is ours; the urgent job takes all CPUS, and ours is put back by SLURM
WAYS = ("scontrol requeue JOB", "scancel --signal=USR2 JOB",
        "srun --partition=urgent --cpus-per-task=CPUS --ntasks=1 --mem=100 true")  # fmt: skip


@pytest.mark.parametrize("how", [WAYS[0], *(pytest.param(way, marks=pytest.mark.long) for way in WAYS[1:])])
def test_preempted_jobs_go_on(here, serial, how):
    """SLURM's requeue, its warning signal before one, a higher partition: the same job id and folder, the same bits."""
    stored_run = at(NAME)
    job = send(stored_run)
    cpus = cluster.run_command("sinfo", "-h", "-o", "%c").stdout.split()[0]
    process = cluster.run_command(*how.replace("JOB", job.id).replace("CPUS", cpus).split())
    assert process.returncode == 0, process.stderr
    assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
    assert ran_twice(stored_run)
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_a_cancelled_job_says_so_and_goes_on_when_sent_again(here, serial):
    """The stage names the cause and leaves the cell stale; launched again, it goes on from its checkpoint."""
    stored_run = at(NAME)
    job = send(stored_run)
    assert cluster.run_command("scancel", job.id).returncode == 0
    message = f"{NAME}: job {job.id} failed: cancelled: stopped by a signal after step .*job.log"
    with pytest.raises(UserError, match=message):
        train_command.main(["--cell", NAME])
    assert not Path("runs").exists()
    again = slurm.Slurm(profiles.load_profile(profile())).submit(stored_run, "params.yaml")
    assert again.id != job.id
    collect(NAME)
    assert ran_twice(stored_run)
    assert outcome(here, NAME) == serial[NAME]


def test_a_time_limit(here, monkeypatch):
    """With no requeue left the line names the limit; the step before it is saved, as where a job is cancelled."""
    monkeypatch.setenv("HELD_UNTIL", "signal")
    stored_run = at(NAME)
    limited = profiles.load_profile(profile(time_min=1, signal_s=10, requeues=0))
    job = slurm.Slurm(limited, module="tests.held_job").submit(stored_run, "params.yaml")
    message = f"job {job.id} failed: time limit reached; raise time_min in the profile, or requeues"
    with pytest.raises(UserError, match=message):
        train_command.main(["--cell", NAME])
    assert stored_run.folder.checkpoints()


@pytest.mark.long
def test_the_node_s_daemon_is_killed(here, serial):
    """The job runs on without it and counts as live; with the daemon back it ends, with the same bits."""
    noted = re.search(r"SlurmdPidFile\s*=\s*(\S+)", cluster.run_command("scontrol", "show", "config").stdout)
    if os.geteuid() or not noted or not Path(noted[1]).is_file():
        pytest.skip("the node's daemon is not ours: not root, or no SlurmdPidFile on this machine")
    stored_run = at(NAME)
    job = send(stored_run)
    os.kill(int(Path(noted[1]).read_text()), signal.SIGKILL)
    try:
        cluster.queue.cache_clear()
        assert job.state() == jobs.RUNNING
    finally:
        wait_for(lambda: subprocess.run(["slurmd"]).returncode == 0, 30)
    assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_out_of_memory(here):
    """The line says so and what to raise; the other cells are not touched."""
    stored_run = at(NAME)
    job = slurm.Slurm(profiles.load_profile(profile(memory_gb=0.1))).submit(stored_run, "params.yaml")
    with pytest.raises(UserError, match=f"{NAME}: job {job.id} failed: out of memory; raise memory_gb in the profile"):
        train_command.main(["--cell", NAME])
    collect(cell("pretrained"))


def test_a_job_that_dies_before_python(here):
    """The reason is what SLURM logged, not an earlier job's last line; the stage prints the same lines."""
    stored_run = at(cell("pretrained"))
    stored_run.folder.path.mkdir(parents=True)
    stored_run.folder.log.write_text("error: train: the loss is not finite; lower train.lr\n")
    broken = profiles.load_profile(profile(setup=["module load cuda/12.1 || exit 3"]))
    job = slurm.Slurm(broken).submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED
    assert "failed, exit code 3: " in job.reason() and "module: command not found" in job.reason()
    assert f".work/slurm/{job.id}_0_log.out" in job.reason()
    assert "train.lr" not in job.reason()


@pytest.fixture
def partition(slurm_there):
    creation = cluster.run_command("scontrol", "create", "partition=compclip_test", "nodes=ALL", "state=up")
    if creation.returncode:
        pytest.skip(f"no partition can be made here: {creation.stderr.strip()}")
    yield "compclip_test"
    cluster.run_command("scontrol", "delete", "partition=compclip_test")


def test_a_drained_partition(here, partition):
    """It is there: its state is named, and the others."""
    assert cluster.run_command("scontrol", "update", f"partition={partition}", "state=drain").returncode == 0
    with pytest.raises(UserError, match=f"partition {partition} is drain, its nodes: .*; the cluster has .*main"):
        send_all(profile(partition=partition))


def test_why_a_job_waits(here, partition, capsys):
    """SLURM's reason in its row; where it never starts by itself, once for all of its array, the command that helps."""
    assert cluster.run_command("scontrol", "update", f"partition={partition}", "state=down").returncode == 0
    send_all(profile(partition=partition))
    rows = [run_table.make_row(run) for run in run_table.list_runs("params.yaml")[0]]
    assert {(row.state, row.waits_by) for row in rows} == {(jobs.PENDING, "PartitionDown")}
    assert f"{rows[0].job} (PartitionDown)" in status.list_cells(rows[0])
    job_id = jobs.find_job(at(cell("pretrained")).folder).id
    assert cluster.run_command("scontrol", "uhold", job_id.partition("_")[0]).returncode == 0
    cluster.queue.cache_clear()
    page = status.format_page(*run_table.list_runs("params.yaml"), 500)
    assert page.count(f"`scontrol release {job_id.partition('_')[0]}`") == 1
    assert launch_command.main([str(profile(partition=partition)), "cancel"]) == 0


# sbatch of a cluster that has so many jobs of a user as the file `room` says
FULL = """#!/bin/sh
count=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
count=$((${count:-0} + 1))
room=$(cat room)
if [ $count -gt $room ]; then
  echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2
  echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)' >&2
  exit 1
fi
echo $((room - count)) > room
exec SBATCH "$@"
"""


def test_a_queue_without_room_for_the_grid(here, monkeypatch, capsys):
    """What fits is sent; Ctrl-C while the others wait leaves it, and the same command sends them."""

    def stop(self) -> None:
        """Ctrl-C."""
        raise KeyboardInterrupt

    Path("sbatch").write_text(FULL.replace("exec SBATCH", f"exec {shutil.which('sbatch')}"))
    Path("sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm.Slurm, "_wait", stop)
    Path("room").write_text("1")
    with pytest.raises(KeyboardInterrupt):
        send_all(profile())
    assert "2 not sent yet" in capsys.readouterr().out
    Path("room").write_text("2")
    send_all(profile())
    assert "2 to send" in capsys.readouterr().out
    assert isinstance(jobs.find_job(at(NAME).folder), jobs.SlurmJob)


def test_cancel(here, capsys):
    """All of the grid's jobs, waiting ones too; nothing is left in the queue."""
    send_all(profile(array_limit=1))
    ids = [json.loads(p.read_text())["id"] for p in Path("store").glob("*/job.json")]
    assert launch_command.main([str(profile()), "cancel"]) == 0
    assert "3 jobs stopped" in capsys.readouterr().out
    assert not set(cluster.run_command("squeue", "--me", "-h", "-r", "-o", "%i").stdout.split()) & set(ids)
    assert not list(Path("store").glob("*/job.json"))


def test_a_run_on_two_processes(here):
    """Trained by both, published once; the key is that of one process, and a requeue goes on."""
    stored_run = at(NAME)
    job = send(stored_run, tasks_per_node=2)
    assert cluster.run_command("scancel", "--signal=USR2", job.id).returncode == 0
    assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
    assert ran_twice(stored_run)
    collect(NAME)
    assert json.loads((trained(Path("."), NAME) / "environment.json").read_text())["processes"] == 2
    assert [row["step"] for row in steps(trained(Path("."), NAME) / "metrics.jsonl")] == list(range(1, STEPS + 1))


def test_a_process_that_dies_ends_the_others(here, monkeypatch):
    """Of two that would wait for ten minutes one fails: the job has ended, and its reason is that one's line."""
    stored_run = at(NAME)
    sender = slurm.Slurm(profiles.load_profile(profile(tasks_per_node=2)), module="tests.lost_rank")
    job = sender.submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED
    assert re.match(r"failed, exit code \d+: error: process 1: error: no room for process 1 \(", job.reason())


def test_a_lost_node(here, serial):
    """SLURM takes the job off a node that goes down, and it goes on when the node is back."""
    stored_run, node = at(NAME), cluster.run_command("sinfo", "-h", "-o", "%n").stdout.split()[0]
    job = send(stored_run)
    assert cluster.run_command("scontrol", "update", f"node={node}", "state=down", "reason=test").returncode == 0
    back = cluster.run_command("scontrol", "update", f"node={node}", "state=resume")
    assert back.returncode == 0 or "Invalid node state" in back.stderr  # it may have registered again by itself

    def release() -> None:
        """SLURM holds a job that it starts again before the node is done with the first start, and drains the node."""
        cluster.run_command("scontrol", "release", job.id)
        cluster.run_command("scontrol", "update", f"node={node}", "state=resume")

    assert jobs.wait_for_job(job, release) == jobs.DONE, job.reason()
    collect(NAME)
    assert outcome(here, NAME) == serial[NAME]


def test_a_cluster_without_accounting(here, monkeypatch):
    """sacct fails as it does there: the job runs, and the controller says why another one ended."""
    Path("sacct").write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
    Path("sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    stored_run = at(cell("pretrained"))
    job = slurm.Slurm(profiles.load_profile(profile())).submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(job, lambda: None) == jobs.DONE, job.reason()
    stored_run = at(NAME)
    job = send(stored_run)
    assert cluster.run_command("scancel", job.id).returncode == 0
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED
    assert job.reason().startswith("cancelled: stopped by a signal")
