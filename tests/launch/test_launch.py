"""Runs as jobs: profiles, what is stale, processes of this machine, `cancel`; a real cluster is in test_slurm.py."""

import functools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import score
from compclip.launch import __main__ as launch_command
from compclip.launch import profiles, run_jobs, slurm
from compclip.launch import results_job as launch_job
from compclip.runs import cluster, run_table
from compclip.runs import jobs as runs_jobs
from compclip.runs.local_runs import LocalRunDriver
from compclip.runs.progress import Follower
from compclip.runs.run_store import StoredRun
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from tests import fake_slurm, tiny_project
from tests.conftest import ROOT
from tests.runs.machines import claim
from tests.tiny_project import at, cell, outcome, steps, wait_for

pytestmark = pytest.mark.usefixtures("forked_commands")
CELLS = [cell(m) for m in tiny_project.METHODS]
LOCAL = str(ROOT / "slurm" / "local.yaml")


def stale(name: str) -> bool:
    params = read.load_params("params.yaml")
    return name in [stored_run.cell.name for stored_run in run_jobs.list_stale(runs(), params)]


def runs() -> list[StoredRun]:
    """The runs of the current folder's grid."""
    return run_jobs.locate_runs(read.load_params("params.yaml"), Path("."))


def send(workers: int = 1, profile: str = LOCAL) -> None:
    """Send what is stale, as `compclip repro --on` does once the keys are written."""
    run_jobs.send(profiles.load_profile(profile), read.load_params("params.yaml"), workers)


def describe() -> str:
    return "\n".join(run_jobs.describe_sending(profiles.load_profile(LOCAL), read.load_params("params.yaml")))


def edit(old: str, new: str) -> None:
    original = Path("params.yaml").read_text()
    assert old in original
    Path("params.yaml").write_text(original.replace(old, new))


@pytest.fixture
def one_run(here) -> StoredRun:
    """The only run of a grid of one cell."""
    edit("methods: [pretrained, finetune, fsc_clip]", "methods: [finetune]")
    [stored_run] = runs()
    return stored_run


def test_the_grid_through_two_processes(here, finished, monkeypatch, capsys):
    """All cells are made; the stages only publish, bit for bit what they would have made; nothing is sent twice."""
    send(2)
    assert "3 runs: 0 finished, 0 on their way, 3 to send" in capsys.readouterr().out
    monkeypatch.setattr(fine_tuning, "train", None)
    monkeypatch.setattr(score, "load_benchmarks", None)
    for name in CELLS:
        assert train_command.main(["--cell", name]) == 0
        assert evaluate_command.main(["--cell", name]) == 0
        assert outcome(here, name) == outcome(finished, name)
    send(2)
    assert "3 runs: 3 finished, 0 on their way, 0 to send" in capsys.readouterr().out


def test_the_driver_dies_and_the_next_attaches(one_run, monkeypatch, capsys):
    """SIGKILL to the driver leaves its job; a second driver waits for that one, and starts no other for its key."""
    with monkeypatch.context() as patch:
        held_driver = functools.partial(LocalRunDriver, module="tests.held_job")
        patch.setattr(run_jobs, "LocalRunDriver", held_driver)
        first = tiny_project.fork(send)
    wait_for(lambda: Path("held").exists())
    with pytest.raises(UserError, match=f"process {first} is sending runs already"):
        send()
    os.kill(first, signal.SIGKILL)
    assert tiny_project.ended(first) == -signal.SIGKILL
    pid = runs_jobs.find_worker(one_run.folder).record["pid"]
    monkeypatch.setattr(Follower, "__call__", lambda _: Path("go").touch())
    send()
    output = capsys.readouterr().out
    assert "1 run: 0 finished, 1 on their way, 0 to send" in output
    assert f"{CELLS[1]}: attached to process {pid}\n" in output
    assert [r["step"] for r in steps(one_run.folder.final.metrics)] == list(range(1, 11))
    assert len(list(one_run.folder.lives.glob("*.json"))) == 1


def test_a_run_that_another_machine_holds(one_run, capsys):
    """What is to be sent says of it what `status` says: it is under way, and only who works there can stop it."""
    one_run.folder.path.mkdir(parents=True)
    foreign_lease = claim(one_run.folder, "elsewhere")
    assert foreign_lease.take()
    assert describe().splitlines() == ["1 run: 0 finished, 1 on their way, 0 to send"]
    assert [run_table.make_row(run).state for run in run_table.list_runs("params.yaml")[0]] == ["running"]
    assert launch_command.main([LOCAL, "cancel"]) == 1
    output, errors = capsys.readouterr()
    assert "0 jobs stopped, 0 that were over" in output and "is no job; stop it where it runs" in errors
    assert foreign_lease.beat()


def test_a_number_that_another_job_has_now(one_run, monkeypatch, capsys):
    """The run is to be sent; `cancel` forgets the record and ends nobody's job."""
    commands = []
    fake_slurm.install(monkeypatch, fake_slurm.row("5", name="interactive"), commands)
    write_json(one_run.folder.job, fake_slurm.record("5", module=runs_jobs.SCORES))
    assert describe().splitlines()[0] == "1 run: 0 finished, 0 on their way, 1 to send"
    assert launch_command.main([LOCAL, "cancel"]) == 0
    assert "0 jobs stopped, 1 that were over forgotten" in capsys.readouterr().out
    assert not one_run.folder.job.exists() and {words[0] for words in commands} == {"squeue"}


def test_cancel_stops_and_forgets(here, capsys, monkeypatch):
    """A live job saves and leaves; afterwards the run counts as never sent."""
    cancel = runs_jobs.LocalJob.cancel

    def told_then_free(job):
        cancel(job)
        Path("go").touch()  # not before: what is left of the training may take less time than the command

    monkeypatch.setattr(runs_jobs.LocalJob, "cancel", told_then_free)
    stored_run = next(candidate for candidate in runs() if candidate.cell.name == CELLS[2])
    job = runs_jobs.Local("tests.held_job").submit(stored_run, "params.yaml")
    wait_for(lambda: Path("held").exists())
    assert launch_command.main([LOCAL, "cancel"]) == 0
    assert "1 job stopped, 0 that were over forgotten" in capsys.readouterr().out
    wait_for(lambda: job.state() != runs_jobs.RUNNING)  # its parent may hear of the end a moment later
    assert job.state() == runs_jobs.FAILED
    assert runs_jobs.find_job(stored_run.folder) is None
    assert stored_run.folder.checkpoints()


def test_what_is_stale(here_finished):
    """Trained and scored in the store, or published with its results, is not; what lacks one of them is."""
    assert not stale(CELLS[1])
    shutil.rmtree("results")
    assert not stale(CELLS[1])
    shutil.rmtree(at(CELLS[1]).folder.path / "scores")
    assert stale(CELLS[1]) and not stale(CELLS[2])
    evaluate_command.main(["--cell", CELLS[1]])
    shutil.rmtree("store")
    assert not stale(CELLS[1]) and stale(CELLS[2])
    edit("finetune: {}", "finetune: {caption: first}")
    assert stale(CELLS[1])


def test_a_further_benchmark_makes_jobs_stale(here_finished, monkeypatch):
    """A job's results on fewer benchmarks are sent again, for their evaluation alone."""
    stored_run = at(CELLS[1])
    shutil.rmtree("results")
    edit("benchmarks: [sugarcrepe]", "benchmarks: [sugarcrepe, again]")
    section = "sugarcrepe: {path: world/sugarcrepe, images: world/test}"
    edit(section, f"{section}, again: {{benchmark: sugarcrepe, path: world/sugarcrepe, images: world/test}}")
    assert stale(CELLS[1])
    monkeypatch.setattr(fine_tuning, "train", None)
    runs_jobs.write_inputs(stored_run, "params.yaml")
    assert not stored_run.folder.scored.exists()
    assert launch_job.main([stored_run.key]) == 0
    assert not stale(CELLS[1])
    assert {p.stem for p in stored_run.folder.results.glob("[!.]*")} == {"sugarcrepe", "again", "summary"}
    assert len(list(stored_run.folder.scores("x").parent.iterdir())) == 2


def test_options_of_a_profile(here, tmp_path):
    """Empty choices are left to the cluster; the copy of the code comes first on the path of jobs."""
    path = tmp_path / "profile.yaml"
    path.write_text("{partition: gpu, gpus: 1, memory_gb: 1.5, setup: [module load cuda], options: {nice: '5'}}")
    options = slurm.submitit_options(profiles.load_profile(path), runs(), Path("code"), Path("."))
    assert {"account", "qos", "constraint"}.isdisjoint(options)
    settings = {"partition": "gpu", "gpus_per_node": 1, "cpus_per_task": 1, "mem": "1536M"}
    assert settings.items() <= options.items()
    assert options["setup"][-3:] == [  # after what a job needs of the shell
        "module load cuda",
        f"export PYTHONSAFEPATH=1 PYTHONPATH={here / 'code'}${{PYTHONPATH:+:$PYTHONPATH}}",
        "export COMPCLIP_GPUS=1",
    ]
    assert options["additional_parameters"] == {"requeue": True, "chdir": str(here), "nice": "5"}


def test_the_code_is_copied_once_for_each_state(tmp_path):
    """The same files, the same copy; run keys computed in it are those of the original."""
    first = slurm.copy_package(tmp_path)
    assert slurm.copy_package(tmp_path) == first
    assert len(list((tmp_path / ".work" / "code").iterdir())) == 1
    words = [sys.executable, "-c", "import compclip; print(compclip.__file__)"]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(first)}
    answer = subprocess.check_output(words, text=True, env=environment, cwd=ROOT)
    assert Path(answer.strip()).parent == first / "compclip"


@pytest.fixture
def full_cluster(here, monkeypatch):
    """A cluster whose queue takes one job more: the sizes of the arrays that were tried."""
    sizes = []

    def submit(self, work, code) -> list:
        sizes.append(len(work))
        if len(work) > 1 or sizes.count(1) > 1:
            raise slurm.QueueFull("sbatch: no", "AssocMaxSubmitJobLimit")
        write_json(work[0].folder.job, fake_slurm.record("5", module=runs_jobs.SCORES))
        return [runs_jobs.find_job(work[0].folder)]

    monkeypatch.setattr(slurm, "read_max_array_size", lambda: 100)
    monkeypatch.setattr(slurm.Slurm, "_submit_array", submit)
    fake_slurm.install(monkeypatch, fake_slurm.row("5", "PENDING"))
    return sizes


def test_what_the_queue_has_no_room_for_is_sent_later(full_cluster, capsys, monkeypatch):
    """One of three is sent; of the others the one that somebody works on by then is left to them."""

    def make_room(self) -> None:
        """The limit is gone, and a process of another machine has the second run."""
        assert "2 not sent yet" in capsys.readouterr().out
        assert claim(runs()[1].folder, "another").take(locked=False)
        full_cluster.clear()

    monkeypatch.setattr(slurm.Slurm, "_wait", make_room)
    Path("cluster.yaml").write_text("{}")
    send(profile="cluster.yaml")
    assert full_cluster == [1]
    workers = [runs_jobs.find_worker(run.folder) for run in runs()]
    assert list(map(type, workers)) == [runs_jobs.SlurmJob, runs_jobs.Holder, runs_jobs.SlurmJob]


def test_a_profile_s_limit_of_jobs_in_the_queue(here, monkeypatch):
    """Jobs of others sent by the same user count; nothing is tried beyond it, nor beyond the cluster's array."""
    queued = []
    sizes = []

    def submit(self, work, code) -> list:
        sizes.append(len(work))
        queued.extend(item.key for item in work)
        return [None]

    def squeue(*command) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess(command, 0, "\n".join(queued), "")

    monkeypatch.setattr(slurm.Slurm, "_submit_array", submit)
    monkeypatch.setattr(slurm.Slurm, "_wait", lambda self: queued.clear())
    monkeypatch.setattr(cluster, "run_command", squeue)
    for run in runs():
        runs_jobs.write_inputs(run, "params.yaml")
    monkeypatch.setattr(runs_jobs, "find_worker", lambda folder: None)
    for limit, largest, expected in ((1, 9, [1, 1, 1]), (3, 9, [1, 2]), (0, 9, [3]), (0, 2, [2, 1])):
        monkeypatch.setattr(slurm, "read_max_array_size", lambda largest=largest: largest)
        sizes.clear()
        queued[:] = ["1_0", "1_1"]
        assert list(slurm.Slurm(profiles.Profile(queue_limit=limit)).send(runs()))
        assert sizes == expected
