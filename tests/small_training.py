"""Training a cell of a small project in this process, without store or stages."""

import shutil
from pathlib import Path

import torch

from compclip.config import grid, read
from compclip.interface.method import load_method
from compclip.model import backbone
from compclip.runs.run_folder import Inputs
from compclip.train import fine_tuning, recorder


def train(root: Path, method: str, work: Path, on_step: recorder.OnStep = recorder.do_nothing, *overrides: str):
    """The trained model of a method's cell, with the head that it keeps."""
    run = grid.resolve(read.load_params(root / "params.yaml", list(overrides)), f"{method}-tiny-scenes-0")
    model = backbone.load(root / "models" / "tiny")
    work.mkdir(parents=True, exist_ok=True)
    declared = load_method(method)
    rows = fine_tuning.build_sampler(run, declared, model, Inputs(root, run.cell))
    with recorder.recording(run, work, on_step) as record:
        return fine_tuning.train(run, declared, model, rows, record)


class Killed(Exception):
    """Where a run is killed."""


def kill_at(number: int) -> recorder.OnStep:
    """Kill a run in the step behind `number` steps."""

    def kill(step: int, *_: object) -> None:
        if step == number:
            raise Killed

    return kill


def bits(model) -> dict[str, torch.Tensor]:
    """The tensors of a model, and of the head that stays with it."""
    head_state = model.head.state_dict() if model.head else {}
    return model.clip.state_dict() | {f"head.{name}": tensor for name, tensor in head_state.items()}


def assert_same_bits(model, expected_model) -> None:
    """Two models have the same tensors, to the bit."""
    expected = bits(expected_model)
    assert expected.keys() == bits(model).keys()
    assert not [name for name, tensor in bits(model).items() if not torch.equal(tensor, expected[name])]


def check_killed_run(root: Path, method: str, folder: Path, *overrides: str):
    """Train in `folder`/a, and in `folder`/b from the older checkpoint, as if killed behind it: both end alike.

    Return the first model.
    """
    uninterrupted = train(root, method, folder / "a", recorder.do_nothing, *overrides)
    shutil.copytree(folder / "a", folder / "b")
    (_, newest) = sorted((folder / "b").glob("step_*"))
    newest.unlink()
    resumed = train(root, method, folder / "b", recorder.do_nothing, *overrides)
    assert newest.exists()
    assert_same_bits(resumed, uninterrupted)
    return uninterrupted
