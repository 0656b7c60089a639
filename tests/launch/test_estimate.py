"""What runs will cost, from finished runs' own files: numbers that a person can check."""

from pathlib import Path

import pytest

from compclip.config import read
from compclip.launch import estimate, run_jobs
from compclip.launch.estimate import FinishedCost
from compclip.launch.profiles import Profile
from tests import fake_store

# 100 steps of 32 pictures at 64 a second on two GPUs: a step costs a device-second; 20 more went elsewhere.
LAST = {"step": 100, "epoch": 2.0, "samples_per_second": 64.0}
GPU = {"processes": 2, "peak_device_memory_mib": 900}


def run(method="clic", backbone="vit", data="coco", **train) -> dict:
    schedule = {
        "batch_size": 32, "precision": "bf16", "micro_batch": 0, "trainable": "all", "max_steps": 0, "epochs": 2.0,
    }  # fmt: skip
    return {"cell": {"method": method, "backbone": backbone, "data": data, "seed": 0}, "train": schedule | train}


def finished_cost(spent: float = 120.0, **kind) -> FinishedCost:
    return estimate.measure_cost(run(**kind), GPU, LAST, spent)


def cost(config: dict, *finished: FinishedCost, steps: int = 0, on_gpu: bool = True) -> float | None:
    return estimate.estimate_cost(config, steps, finished, on_gpu)


def test_what_a_run_cost():
    """Steps by their speed, on all devices; the rest is what every run costs."""
    run_cost = finished_cost()
    assert (run_cost.step_s, run_cost.fixed_s, run_cost.steps, run_cost.steps_an_epoch) == (1.0, 20.0, 100, 50.0)
    assert finished_cost(spent=90.0).fixed_s == 0  # a run that paused costs no less than nothing
    assert not estimate.measure_cost(run(), {"processes": 2}, LAST, 140.0).on_gpu


@pytest.mark.parametrize(
    ("train", "steps", "seconds"),
    [({}, 0, 120), ({"epochs": 1.0}, 0, 70), ({"epochs": 0.001}, 0, 21), ({"max_steps": 10}, 0, 30),
     ({"max_steps": 400}, 0, 420), ({}, 60, 60), ({}, 1000, 20)],
)  # fmt: skip
def test_a_longer_run_costs_more(train, steps, seconds):
    """The steps that it lacks at the finished run's speed, and the fixed part, as scoring, once."""
    assert cost(run(**train), finished_cost(), steps=steps) == seconds


@pytest.mark.parametrize(
    "difference",
    [{"method": "negclip"}, {"backbone": "big"}, {"data": "photos"}, {"batch_size": 64}, {"precision": "float32"},
     {"trainable": "text"}, {"micro_batch": 8}],
)  # fmt: skip
def test_runs_that_say_nothing(difference):
    """Another method, backbone, data set, batch size, precision or other trained parts."""
    assert cost(run(), finished_cost(**difference)) is None
    assert cost(run(), finished_cost(), on_gpu=False) is None  # nor does a GPU of a CPU


def test_the_median():
    """Of the method's variants."""
    costs = [finished_cost(spent=spent, method="clic.big") for spent in (110.0, 130.0, 900.0)]
    assert cost(run("clic.small"), *costs) == 130


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A project with a grid of two seeds, in the current folder."""
    monkeypatch.chdir(fake_store.project(tmp_path))
    return tmp_path


def test_from_the_files_of_the_store(project):
    """The newest finished runs of the store; a damaged one is passed over."""
    first, second = fake_store.runs(Path("."))
    assert estimate.read_finished([second], Path(".")) == []
    fake_store.finish(first, 36.0, publish=True)
    [run_cost] = estimate.read_finished([second], Path("."))
    # 10 steps of 8 pictures at 80 a second: 0.1 s each, and 35 s besides
    assert (run_cost.steps, run_cost.step_s, run_cost.fixed_s) == (10, 0.1, 35.0)
    assert estimate.estimate_cost(second.resolved, 0, [run_cost], False) == pytest.approx(36)
    first.folder.final.metrics.unlink()
    first.folder.final.metrics.write_text("{}\n")
    assert estimate.read_finished([second], Path(".")) == []


def test_a_dry_run_says_it(project, monkeypatch):
    """Each run, the sum, or that there is no estimate; steps that are done are not paid again."""
    monkeypatch.setattr(run_jobs.gpus, "list_gpus", list)
    first, second = fake_store.runs(Path("."))
    profile, params = Profile(executor="local"), read.load_params("params.yaml")
    lines = list(run_jobs.describe_sending(profile, params))
    assert f"{second.key}  {second.cell.name}: unknown" in lines
    assert lines[-1].startswith("no estimate for 2 runs: no finished run of fsc_clip.v0 on tiny (on CPUs, ")
    fake_store.finish(fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")[0], 3600.0)
    assert "about 2.00 process-hours for 2 of 2 runs" in list(run_jobs.describe_sending(profile, params))
