"""A GPU that is asked for and that torch does not see is an error; a machine without one trains on its CPU."""

import os

import pytest
import torch

from compclip.base.errors import UserError
from compclip.runs import gpus, jobs, local_runs
from compclip.train import distributed, process_group
from tests.tiny_project import at, cell

VARIABLES = ("COMPCLIP_GPUS", "CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")


@pytest.fixture
def blind(monkeypatch, tmp_path):
    """torch sees no GPU, nothing asks for one, and the machine has no devices but those of a folder."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpus, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "version")
    (tmp_path / "dev").mkdir()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "dev"


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_asks_for_a_gpu(blind, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    error = rf"{name}=1 .*asks for a GPU, and torch sees none: driver .*; repair that, or set .* to use the CPU"
    with pytest.raises(UserError, match=error), process_group.session():
        pass


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_a_cpu_that_is_asked_for(blind, monkeypatch, value):
    """Also where the job has GPUs and the machine devices."""
    (blind / "nvidia0").touch()
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with process_group.session() as here:
        assert here.world == 1 and distributed.process_device() == "cpu"
    if not value:  # a cluster that gave a job no GPU says so; a profile that asks for some overrules it
        monkeypatch.setenv("COMPCLIP_GPUS", "2")
        with pytest.raises(UserError, match="COMPCLIP_GPUS=2 .gpus of the profile.*set gpus: 0 in the profile"):
            gpus.choose_device()


def test_slots_are_numbered_as_cuda_does(blind, monkeypatch):
    """A container with the file of the fourth card alone calls it 0."""
    (blind / "nvidia3").touch()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
    assert local_runs.list_slots(1) == [{"CUDA_VISIBLE_DEVICES": "0", "COMPCLIP_CORES": "16"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f")
    assert [slot["COMPCLIP_CORES"] for slot in local_runs.list_slots(1)] == ["8", "8"]
    assert local_runs.divide_gpus(3) == [{"CUDA_VISIBLE_DEVICES": name} for name in ("3", "GPU-1f", "3")]


def test_trials_have_a_gpu_each(here, monkeypatch):
    """Of more trials than GPUs several share one; a GPU whose trial has ended comes first, an attached one counts."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,GPU-1f")
    started, ended = [], set()

    class Process:
        pid, returncode = os.getpid(), 1

        def __init__(self, *_args, env, **_kwargs):
            started.append(env["CUDA_VISIBLE_DEVICES"])
            self.number = len(started)

        def poll(self):
            return 1 if self.number in ended else None

    monkeypatch.setattr(jobs.subprocess, "Popen", Process)
    run, sender = at(cell("finetune")), local_runs.MachineSender()
    sent = [sender.submit(run, "params.yaml") for _ in range(3)]
    assert started == ["0", "GPU-1f", "0"] and [job.record["gpu"] for job in sent] == started
    ended |= {1, 3}
    sender.submit(run, "params.yaml")
    assert started[3:] == ["0"]
    later = local_runs.MachineSender()  # of a driver that goes on where another was killed
    assert later.attach(run).record["gpu"] == "0"
    later.submit(run, "params.yaml")
    assert started[4:] == ["GPU-1f"]
