"""What a lab's machines do to runs: full and read-only disks, several drivers. SLURM's part is in test_slurm.py, a
vanished MLflow server in tests/track/test_server.py.

Each time: a clear line, the other runs unaffected, and everything goes on when the cause is gone.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base import errors
from compclip.base.errors import UserError
from compclip.config import read
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import score
from compclip.launch import profiles, repro, run_jobs
from compclip.runs import jobs, lock
from compclip.runs.local_runs import LocalRunDriver
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from tests import tiny_project
from tests.conftest import ROOT
from tests.tiny_project import at, cell, collect, outcome, steps, wait_for

NAME = cell("finetune")
OTHER = cell("pretrained")
PROFILE = str(ROOT / "slurm" / "local.yaml")
NO_SPACE = "No space left on device; free space"


@pytest.fixture(scope="module")
def undisturbed(finished):
    """The outcome of the cell on a disk that takes everything."""
    return outcome(finished, NAME)


@pytest.fixture
def here(here):
    """All that train needs; two cells."""
    params = here / "params.yaml"
    params.write_text(params.read_text().replace("[pretrained, finetune, fsc_clip]", "[pretrained, finetune]"))
    return here


@pytest.fixture(autouse=True)
def commands(forked_commands, monkeypatch):
    """The copy's commands are those of this environment."""
    for name, value in tiny_project.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@pytest.fixture
def disk():
    """Makes a folder a small disk of its own, `options` as mount(8) has them; unmounted at the end."""
    mount_points: list[Path] = []

    def mounted(folder: Path, options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        process = mount("-t", "tmpfs", "-o", options, "tmpfs", str(folder))
        if process.returncode:
            pytest.skip(f"no file system can be mounted here: {process.stderr.strip()}; run this as root")
        mount_points.append(folder.resolve())

    yield mounted
    for folder in mount_points:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(*options: str) -> subprocess.CompletedProcess[str]:
    """The command, or its absence as a failure."""
    try:
        return subprocess.run(["mount", *options], capture_output=True, text=True)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(options, 127, "", str(error))


def remount(folder: Path, options: str) -> None:
    """Give a disk other options: the cause is gone, or begins."""
    process = mount("-o", f"remount,{options}", str(folder.resolve()))
    assert process.returncode == 0, process.stderr


def send() -> None:
    """All stale runs as processes of this machine."""
    run_jobs.send(profiles.load_profile(PROFILE), read.load_params("params.yaml"), 2)


def bring_up_to_date() -> int:
    return repro.main(["--on", PROFILE, "-j", "2"])


def dvc(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dvc", *args], capture_output=True, text=True)


def other_is_done() -> bool:
    return at(OTHER).folder.scored.is_file()


def test_a_full_disk(here, disk, undisturbed, capsys):
    """One run has no room for its checkpoint: its line names the file; with room it goes on to the same bits."""
    work = at(NAME).folder.path
    disk(work, "size=1m")
    send()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "failed" in line)
    assert f"failed: {NAME}: exit code 2: error: {work}/step_00000002.safetensors: cannot write: {NO_SPACE}" in line
    assert other_is_done()
    remount(work, "size=64m")
    send()
    assert "2 runs: 1 finished, 0 on their way, 1 to send" in capsys.readouterr().out
    collect(NAME)
    assert outcome(here, NAME) == undisturbed


def test_a_disk_without_room_for_a_line(here, disk, undisturbed):
    """Not even the log takes the error: the reason tells of the disk; with room again no step is missing or twice."""
    stored_run = at(NAME)
    disk(stored_run.folder.path, "size=64m")
    job = jobs.Local(module="tests.held_job").submit(stored_run, "params.yaml")
    wait_for(lambda: Path("held").exists())
    free = shutil.disk_usage(stored_run.folder.path).free
    with open(stored_run.folder.path / "filler", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free)
    Path("go").touch()
    assert jobs.wait_for_job(job, lambda: None) == jobs.FAILED
    assert "no space left there" in job.reason()
    (stored_run.folder.path / "filler").unlink()
    again = jobs.Local().submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(again, lambda: None) == jobs.DONE, again.reason()
    collect(NAME)
    assert outcome(here, NAME) == undisturbed


def test_a_read_only_run_directory(here, disk, undisturbed, monkeypatch):
    """Neither stage leaves anything behind; what was made is published, not made again, when it can be written."""
    runs, results = Path("runs/finetune"), Path("results/finetune")
    disk(runs, "ro")
    disk(results, "ro")
    with pytest.raises(UserError, match=f"{runs}/.*: cannot write: Read-only file system; free space or"):
        train_command.main(["--cell", NAME])
    collect(OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(fine_tuning, "fine_tune", None)
        remount(runs, "rw,size=64m")
        assert train_command.main(["--cell", NAME]) == 0
        with pytest.raises(UserError, match=f"{NAME}: {results}/.*: cannot write: Read-only file system; free space"):
            evaluate_command.main(["--cell", NAME])
        patch.setattr(score, "score_checkpoints", None)
        remount(results, "rw,size=64m")
        collect(NAME)
    assert outcome(here, NAME) == undisturbed


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(30, "Read-only file system", "a/b")])
def test_any_write_that_fails_for_the_disk_is_one_line(monkeypatch, capsys, error):
    """Also where the code did not foresee it; another error keeps its traceback."""

    def main(_argv) -> int:
        raise error

    assert errors.entry(main) == 2
    error_output = capsys.readouterr().err
    assert error_output.count("\n") == 1
    place, fix = ("a/b: ", "make it writable") if error.filename else ("", "free space")
    assert error_output.startswith(f"error: {place}{error.strerror}; {fix}, then run this again")
    error = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        errors.entry(main)


@pytest.mark.usefixtures("here_finished")
def test_an_evaluation_that_fails_where_older_results_are():
    """The results of an evaluation with other benchmarks do not make the job of this one look done."""
    stored_run = at(NAME)
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("path: world/sugarcrepe", "path: world/retrieval"))
    failed = jobs.Local().submit(stored_run, "params.yaml")
    assert jobs.wait_for_job(failed, lambda: None) == jobs.FAILED
    orphan = jobs.find_job(stored_run.folder)
    assert orphan.state() == jobs.FAILED  # nobody's child: told from its files alone, as SLURM's are
    assert orphan.reason() == failed.reason() and orphan.reason().startswith("exit code 2: error: ")


def test_what_is_sent_beside_a_training_scores_what_that_made(here):
    """A job that ends with the checkpoint is none that scores, which waits behind it and trains nothing again."""
    stored_run = at(NAME)
    first = jobs.Local(jobs.TRAINS).submit(stored_run, "params.yaml")
    wait_for(lambda: lock.find_holder(stored_run.folder) is not None)
    send()
    assert first.child.wait() == 0 and other_is_done()
    assert stored_run.folder.scored.is_file()
    assert [row["step"] for row in steps(stored_run.folder.final.metrics)] == list(range(1, 11))
    assert len(re.findall("^step 1/", stored_run.folder.log.read_text(), re.MULTILINE)) == 1


def test_what_was_sent_meanwhile_is_attached_to(here, capsys):
    """A run whose turn comes late may have a job by then; it is not started beside that.

    The job waits in its third step until the driver has attached: one that is over before the driver looks is none to
    attach to.
    """
    waiting, sent_jobs = at(NAME), list[jobs.LocalJob]()
    first = jobs.Local(jobs.TRAINS).submit(at(OTHER), "params.yaml")

    def send() -> bool:
        """Somebody else's command, between two looks of the driver; it tells nobody to go."""
        if not sent_jobs:
            sent_jobs.append(jobs.Local("tests.held_job").submit(waiting, "params.yaml"))
        if NAME in driver.live:
            Path("go").touch()
        return False

    driver = LocalRunDriver([at(OTHER), waiting], "params.yaml", [{}], jobs.TRAINS, should_stop=send)
    assert driver.drive() == {}
    assert f"{NAME}: attached to {sent_jobs[0].label()}" in capsys.readouterr().out
    assert first.child.wait() == sent_jobs[0].child.wait() == 0
    assert waiting.folder.finished


@pytest.fixture
def dvc_here(here):
    """The project as a DVC repository with the stages that runs need, and the cells; DVC is imported once for all."""
    importlib.import_module("dvc.cli.parser")
    return tiny_project.begin_dvc(here)


def hold_dvc() -> None:
    """Hold DVC's lock until the file `go` is there."""
    from dvc.repo import Repo

    with Repo().lock:
        Path("held").touch()
        wait_for(Path("go").exists)


@pytest.mark.usefixtures("dvc_here")
def test_a_live_dvc_holds_its_lock():
    """A line, and nothing is sent."""
    holder = tiny_project.fork(hold_dvc)
    wait_for(Path("held").exists)
    try:
        with pytest.raises(UserError, match="another dvc is at work in this project; wait for it or stop it"):
            bring_up_to_date()
    finally:
        Path("go").touch()
        assert tiny_project.ended(holder) == 0
    assert not list(Path("store").glob("*/run.yaml"))


def test_repro_on_and_dvc_started_at_once(dvc_here, undisturbed):
    """Whoever comes second waits or says so; started again, both end well, and no step was made twice."""
    commands = (
        [sys.executable, "-m", "dvc", "repro", "-k"],
        [sys.executable, "-m", "compclip.launch.repro", "--on", PROFILE],
    )
    both = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for c in commands]
    for process in both:
        output = process.communicate(timeout=300)[0]
        was_locked = any(
            words in output
            for words in ("another dvc is at work", "brings this project up to date already", *repro.LOCKED)
        )
        assert process.returncode == 0 or was_locked, output
    assert bring_up_to_date() == 0
    again = dvc("repro")
    assert again.returncode == 0, again.stderr
    collect(NAME)
    assert outcome(dvc_here, NAME) == undisturbed
