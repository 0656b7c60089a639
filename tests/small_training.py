"""Training a cell of a small project in this process, without store or stages."""

from __future__ import annotations

from pathlib import Path

from compclip.config import grid, read
from compclip.model import backbone
from compclip.runs.folder import Inputs
from compclip.train import finish, loop


def train(root: Path, method: str, work: Path, on_step: loop.OnStep = loop.nothing, *overrides: str):
    """The trained model of a method's cell."""
    run = grid.resolve(read.load(root / "params.yaml", list(overrides)), f"{method}-tiny-scenes-0")
    model = backbone.load(root / "models" / "tiny")
    work.mkdir(exist_ok=True)
    loop.train(run, model, finish.rows(run, model, Inputs(root, run.cell)), work, on_step)
    return model
