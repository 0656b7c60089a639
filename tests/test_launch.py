"""`python -m compclip.launch`: profiles, what is stale, processes of this machine; a real cluster is in test_slurm.py."""

from __future__ import annotations

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
from compclip.runs import cluster
from compclip.runs import jobs as runs_jobs
from compclip.train import __main__ as train_command
from compclip.train import loop
from tests import tiny_project
from tests.conftest import ROOT
from tests.tiny_project import at, cell, outcome, steps, wait_for

CELLS = [cell(m) for m in ("pretrained", "finetune", "fsc_clip")]
LAUNCH = [sys.executable, "-m", "compclip.launch", str(ROOT / "slurm" / "local.yaml")]


def launch(*args: str) -> subprocess.CompletedProcess[str]:
    """The command with the local profile."""
    return subprocess.run([*LAUNCH, *args], capture_output=True, text=True, env=tiny_project.environment())


def stale(name: str) -> bool:
    """Whether launch would send a cell."""
    params = read.load("params.yaml")
    return name in [p.run.cell.name for p in grid.stale(list(grid.runs(params, Path(".")).values()), params)]


def profile(text: str, tmp_path: Path) -> Path:
    """A profile's file."""
    path = tmp_path / "profile.yaml"
    path.write_text(text)
    return path


def test_the_grid_through_two_processes(here, tmp_path, project, monkeypatch):
    """All cells are made; the stages only publish, bit for bit what they would have made; nothing is sent twice."""
    done = launch("-j", "2")
    assert done.returncode == 0, done.stderr
    assert "3 runs: 0 finished, 0 on their way, 3 to send" in done.stdout
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", None)
        patch.setattr(score, "run", None)
        for name in CELLS:
            assert train_command.main(["--cell", name]) == 0
            assert evaluate_command.main(["--cell", name]) == 0
    assert "3 runs: 3 finished, 0 on their way, 0 to send" in launch("-j", "2").stdout
    other = tmp_path / "serial"
    shutil.copytree(project, other)
    monkeypatch.chdir(other)
    for name in CELLS[1:]:
        train_command.main(["--cell", name])
        evaluate_command.main(["--cell", name])
        assert outcome(here, name) == outcome(other, name)


def test_one_failure_leaves_the_others(here):
    """A run whose loss explodes is named with its reason, the exit code is 1, the others are there."""
    text = Path("params.yaml").read_text()
    broken = "finetune: {train: {lr: 1.0e+30, grad_clip_norm: 0, warmup_steps: 0}}"
    Path("params.yaml").write_text(text.replace("finetune: {}", broken))
    done = launch("-j", "1")
    assert done.returncode == 1
    assert re.search(r"failed: finetune-tiny-scenes-0: exit code 2: error: train: the loss is nan at step", done.stdout)
    assert "1 of 3 runs failed" in done.stderr
    Path("params.yaml").write_text(text)
    assert "3 runs: 2 finished, 0 on their way, 1 to send" in launch("--dry-run").stdout


def test_the_driver_dies_and_the_next_attaches(here):
    """SIGKILL to the driver leaves its job; a second driver waits for that one, and starts no other for its key."""
    code = (
        "import sys; from compclip import jobs; jobs.Local.__init__.__defaults__ = (jobs.Path('.'), 'tests.held_job'); "
        "from compclip.launch.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", code, LAUNCH[-1]], env=tiny_project.environment(), stdout=subprocess.DEVNULL
    )
    wait_for(lambda: Path("held").exists())
    second = launch()
    assert second.returncode == 2
    assert f"process {first.pid} is sending runs already" in second.stderr
    first.send_signal(signal.SIGKILL)
    first.wait()
    made = {p.run.cell.name: p for p in grid.runs(read.load("params.yaml"), Path(".")).values()}
    pid = runs_jobs.attach(made[CELLS[1]].key).record["pid"]
    third = subprocess.Popen(LAUNCH, env=tiny_project.environment(), stdout=subprocess.PIPE, text=True)
    assert "3 runs: 1 finished, 1 on their way, 1 to send" in third.stdout.readline()
    assert third.stdout.readline() == f"{CELLS[1]}: attached to process {pid}\n"
    Path("go").touch()
    assert third.wait(timeout=120) == 0
    assert [r["step"] for r in steps(made[CELLS[1]].work / "final" / "metrics.jsonl")] == list(range(1, 11))


def test_cancel_stops_and_forgets(here, capsys):
    """A live job saves and leaves; afterwards the run counts as never sent."""
    made = next(p for p in grid.runs(read.load("params.yaml"), Path(".")).values() if p.run.cell.name == CELLS[2])
    job = runs_jobs.Local(module="tests.held_job").submit(made, "params.yaml")
    wait_for(lambda: Path("held").exists())
    Path("go").touch()
    assert launch_command.main([LAUNCH[-1], "cancel"]) == 0
    assert "1 jobs stopped, 0 that were over forgotten" in capsys.readouterr().out
    wait_for(lambda: job.state() != runs_jobs.RUNNING)  # its parent may hear of the end a moment later
    assert job.state() == runs_jobs.FAILED
    assert runs_jobs.find(made.folder) is None
    assert list(made.folder.path.glob("step_*.safetensors"))


def test_what_is_stale(here, monkeypatch):
    """Finished in .work, or published with its results, is not; trained without results is."""
    assert stale(CELLS[1])
    train_command.main(["--cell", CELLS[1]])
    assert stale(CELLS[1])
    evaluate_command.main(["--cell", CELLS[1]])
    assert not stale(CELLS[1])
    shutil.rmtree(".work")
    assert not stale(CELLS[1])
    Path("params.yaml").write_text(
        Path("params.yaml").read_text().replace("finetune: {}", "finetune: {caption: first}")
    )
    assert stale(CELLS[1])


def test_a_further_benchmark_makes_jobs_stale(here):
    """A job's results on fewer benchmarks are sent again, for their evaluation alone."""
    made = at(CELLS[1])
    assert runs_jobs.wait(runs_jobs.Local().submit(made, "params.yaml"), lambda: None) == runs_jobs.DONE
    assert not stale(CELLS[1])
    text = Path("params.yaml").read_text().replace("benchmarks: [sugarcrepe]", "benchmarks: [sugarcrepe, again]")
    one = "sugarcrepe: {path: world/sugarcrepe, images: world/test}"
    Path("params.yaml").write_text(
        text.replace(one, f"{one}, again: {{benchmark: sugarcrepe, path: world/sugarcrepe, images: world/test}}")
    )
    assert stale(CELLS[1])
    trained = (made.folder.final.environment).read_bytes()
    assert runs_jobs.wait(runs_jobs.Local().submit(made, "params.yaml"), lambda: None) == runs_jobs.DONE
    assert not stale(CELLS[1])
    assert (made.folder.final.environment).read_bytes() == trained


@pytest.mark.parametrize(
    "said",
    ["Unable to acquire lock. Most likely another DVC process is running", "'data/x' is busy, it is being blocked by:"],
)
def test_another_dvc_at_work_is_one_line(here, monkeypatch, capsys, said):
    """What DVC says of its locks becomes one line, and nothing is sent."""
    Path("dvc.yaml").touch()
    for folder in (".dvc", "other/dvc"):
        Path(folder).mkdir(parents=True)
    Path("other/dvc/__init__.py").touch()
    Path("other/dvc/__main__.py").write_text(f"import sys; sys.exit({'ERROR: ' + said!r})")
    monkeypatch.setenv("PYTHONPATH", "other")
    with pytest.raises(UserError, match="another dvc is at work in this project; wait for it or stop it"):
        grid.prepare(read.load("params.yaml"), Path("."))
    assert said in capsys.readouterr().err


def test_inputs_that_are_missing(here):
    """The stage to run is named, nothing is sent."""
    shutil.rmtree("models")
    done = launch()
    assert (done.returncode, "dvc repro backbone" in done.stderr) == (2, True)


@pytest.mark.parametrize(("text", "message"), [
    ("partitoin: gpu", "unknown key 'partitoin'; did you mean 'partition'"),
    ("executor: slrum", "unknown executor 'slrum'; did you mean 'slurm'"),
    ("time_min: 0", "time_min=0: must be >= 1"),
    ("time_min: soon", "time_min"),
    ("memory_gb: -1", "memory_gb=-1.0: must be >= 0"),
    ("{time_min: 2, signal_s: 120}", "signal_s=120: must be shorter than time_min=2"),
    ("{gpus: 2, tasks_per_node: 3}", "tasks_per_node=3: one process a GPU, gpus=2"),
    ("[1]", "must be a mapping"),
    ("a: b: c", "not a profile"),
])  # fmt: skip
def test_profiles_that_are_wrong(tmp_path, text, message):
    """Key, value, fix."""
    with pytest.raises(UserError, match=re.escape(message)):
        profiles.load(profile(text, tmp_path))


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_a_number_of_processes_is_one_or_more(monkeypatch, jobs):
    """Nothing is sent with another; without the option the profile says it."""
    sent = []
    monkeypatch.setattr(launch_command, "send", lambda *args: sent.append(args) or 0)
    local = str(ROOT / "slurm" / "local.yaml")
    with pytest.raises(UserError, match=f"-j {jobs}: must be >= 1"):
        launch_command.main([local, "-j", jobs, "--dry-run"])
    assert sent == []
    for options in ([], ["-j", "3"]):
        assert launch_command.main([local, "--dry-run", *options]) == 0
    assert [args[-1] for args in sent] == [profiles.load(local).jobs, 3]


def test_a_profile_that_is_not_there():
    """The nearest one is named."""
    with pytest.raises(UserError, match="did you mean .*slurm/local.yaml"):
        profiles.load(ROOT / "slurm" / "locl.yaml")


@pytest.mark.parametrize("path", sorted((ROOT / "slurm").glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_profiles(path):
    """All load."""
    assert profiles.load(path).executor in profiles.EXECUTORS


def test_options_of_a_profile(here, tmp_path):
    """Empty choices are left to the cluster; the copy of the code comes first on the path of jobs."""
    made = grid.runs(read.load("params.yaml"), Path("."))
    runs = [(key, p.run) for key, p in made.items()]
    chosen = profiles.load(
        profile("{partition: gpu, gpus: 1, memory_gb: 1.5, setup: [module load cuda], options: {nice: '5'}}", tmp_path)
    )
    options = slurm.parameters(chosen, runs, Path("code"), Path("."))
    assert {"account", "qos", "constraint"}.isdisjoint(options)
    assert (options["partition"], options["gpus_per_node"], options["cpus_per_task"], options["mem"]) == (
        "gpu",
        1,
        1,
        "1536M",
    )
    assert options["setup"] == [
        "module load cuda",
        f"export PYTHONSAFEPATH=1 PYTHONPATH={here / 'code'}${{PYTHONPATH:+:$PYTHONPATH}}",
    ]
    assert options["additional_parameters"] == {"requeue": True, "chdir": str(here), "nice": "5"}


def test_the_code_is_copied_once_for_each_state(tmp_path):
    """The same files, the same copy; run keys computed in it are those of the original."""
    first = slurm.snapshot(tmp_path)
    assert slurm.snapshot(tmp_path) == first
    assert len(list((tmp_path / ".work" / "code").iterdir())) == 1
    done = subprocess.run(
        [sys.executable, "-c", "import compclip; print(compclip.__file__)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(first)},
        cwd=ROOT,
    )
    assert Path(done.stdout.strip()).parent == first / "compclip"


def test_no_slurm_on_this_machine(monkeypatch):
    """The line says where to run it or what to use."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="scontrol: not installed on this machine; .*slurm/local.yaml"):
        slurm.max_array_size()


def test_arrays_are_cut_to_the_cluster_s_size(here, monkeypatch):
    """Three runs where two fit into an array: two arrays."""
    sizes = []
    monkeypatch.setattr(slurm, "max_array_size", lambda: 2)
    monkeypatch.setattr(slurm.Slurm, "_submit_array", lambda self, runs, code: sizes.append(len(runs)) or [])
    made = grid.runs(read.load("params.yaml"), Path("."))
    slurm.Slurm(profiles.Profile()).submit_all([(key, p.run) for key, p in made.items()], "params.yaml")
    assert sizes == [2, 1]


def test_jobs_of_a_command_that_was_killed_are_found(tmp_path, monkeypatch):
    """Its note has the keys, the queue has the array by its name; then each key has its job."""
    from compclip.base.files import write_json

    write_json(tmp_path / ".work" / "slurm" / "compclip-1a2b3c4d.json", ["k0", "k1", "k2"])
    monkeypatch.setattr(cluster, "run", lambda *c: subprocess.CompletedProcess(c, 0, "9_0\n9_2\n", ""))
    sender = slurm.Slurm(profiles.Profile(), tmp_path)
    assert sender.recover() == 2
    assert (runs_jobs.find("k0", tmp_path).id, runs_jobs.find("k1", tmp_path), runs_jobs.find("k2", tmp_path).id) == (
        "9_0",
        None,
        "9_2",
    )
    assert sender.recover() == 0
