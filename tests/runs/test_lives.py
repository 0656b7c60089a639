"""Device-seconds of a run: all its lives, killed ones up to their last beat, as many devices as took part."""

import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from compclip.base.files import read_json
from compclip.runs import lock, progress
from compclip.runs.run_folder import RunFolder
from compclip.train import __main__ as train_command
from compclip.train import job, process_group
from tests.runs.machines import Clock
from tests.tiny_project import at, cell


def lived(run: RunFolder, seconds: float, devices: int = 1) -> Path:
    """A life that was touched last so long after its beginning, by a process of another machine."""
    path = progress.begin_life(run, devices)
    os.utime(path, (0, progress._own_lives.pop(path)[0] + seconds))
    return path


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The seconds of this machine; nothing but these counts."""
    monkeypatch.setattr(progress.time, "monotonic", Clock())
    return progress.time.monotonic


def test_all_lives_count(run):
    """Seconds x devices; a requeued run has as many lives as it was started."""
    assert progress.sum_device_seconds(run) == 0
    lived(run, 100)
    lived(run, 50.5, devices=4)
    assert progress.sum_device_seconds(run) == pytest.approx(100 + 4 * 50.5, abs=0.01)


def test_the_clock_of_the_files_does_not_count(run, clock):
    """A beat says how long the life has lasted, also to others; our own counts up to now, long after its last beat."""
    path = progress.begin_life(run, 2)
    clock.now += 20
    assert progress.sum_device_seconds(run) == pytest.approx(40, abs=0.01)
    clock.now += 15
    progress.touch_life(path)
    del progress._own_lives[path]  # as another process sees it
    assert progress.sum_device_seconds(run) == pytest.approx(70, abs=0.01)


def test_an_end_is_written_down(run, tmp_path, clock):
    """A copy, whose files are young, says the same; nothing is touched that came to its end."""
    path = progress.begin_life(run, 1)
    clock.now += 30
    progress.end_life(path)
    assert read_json(path)["seconds"] == pytest.approx(30, abs=0.01)
    shutil.copytree(run.path, tmp_path / "copy")
    assert progress.sum_device_seconds(RunFolder(tmp_path / "copy")) == progress.sum_device_seconds(run)
    assert [p.name for p in run.lives.iterdir()] == [path.name]


def test_who_holds_a_run_lives(run):
    """One life a holder, on the devices that it says; its folder is there when it ends badly as well."""
    with lock.hold(run, devices=3):
        pass
    with pytest.raises(KeyError), lock.hold(run):
        raise KeyError
    lives = [read_json(path) for path in run.lives.glob("*.json")]
    assert sorted(life["devices"] for life in lives) == [1, 3]
    assert all(life["seconds"] >= 0 and life["pid"] == os.getpid() for life in lives)


def test_a_finished_run_says_what_it_cost(here):
    """device_seconds of environment.json: the training's own seconds and those of a life that was killed before."""
    stored_run = at(cell("fsc_clip"))
    lived(stored_run.folder, 100, devices=2)
    assert train_command.main(["--cell", cell("fsc_clip")]) == 0
    facts = json.loads(stored_run.folder.final.environment.read_text())
    assert facts["device_seconds"] >= 200 + facts["seconds"] - 0.1
    assert progress.sum_device_seconds(stored_run.folder) >= facts["device_seconds"]


def test_processes_of_one_run_are_devices(here, monkeypatch):
    """The first process's life counts for all that torchrun or srun started."""
    stored_run, completed = at(cell("finetune")), []
    first_of_four = nullcontext(SimpleNamespace(world=4, rank=0))
    monkeypatch.setattr(process_group, "session", lambda: first_of_four)
    monkeypatch.setattr(job, "complete_run", completed.append)
    job.hold_and_complete(stored_run)
    life = read_json(next(stored_run.folder.lives.glob("*.json")))
    assert (len(completed), life["devices"]) == (1, 4)
    assert progress.sum_device_seconds(stored_run.folder) == pytest.approx(4 * life["seconds"], abs=0.001)
