"""A GPU that is asked for and that torch does not see is an error; a machine without one trains on its CPU."""

from __future__ import annotations

import pytest
import torch

from compclip.base.errors import UserError
from compclip.runs import local_runs
from compclip.train import __main__ as train_command
from compclip.train import distributed, process_group

VARIABLES = ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")


@pytest.fixture
def blind(monkeypatch, tmp_path):
    """torch sees no GPU, nothing asks for one, and the machine has no devices but those of a folder."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(local_runs, "DEVICES", tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "dev"


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_asks_for_a_gpu(blind, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    said = rf"{name}=1 asks for a GPU, and torch sees none: .*; .*CUDA_VISIBLE_DEVICES= "
    with pytest.raises(UserError, match=said), process_group.session():
        pass


def test_a_device_that_torch_does_not_see(blind):
    (blind / "nvidia0").touch()
    with pytest.raises(UserError, match="nvidia0 is there, and torch sees none"), process_group.session():
        pass


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_a_cpu_that_is_asked_for(blind, monkeypatch, value):
    """Also where the job has GPUs and the machine devices."""
    (blind / "nvidia0").touch()
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with process_group.session() as here:
        assert here.world == 1 and distributed.process_device() == "cpu"


def test_a_machine_without_a_gpu(blind, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "0")
    with process_group.session() as here:
        assert here.world == 1


def test_training_stops_before_its_first_step(here, blind, monkeypatch):
    """The command itself: one line, and no run is begun."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(UserError, match="asks for a GPU"):
        train_command.main(["--cell", "finetune-tiny-scenes-0"])
    assert not list(here.glob("store/*/step_*")) and not (here / "runs").exists()
