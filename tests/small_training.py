"""Training a cell of a small project in this process, without store or stages."""

from __future__ import annotations

from pathlib import Path

from compclip.base import plugins
from compclip.config import grid, read
from compclip.data.prepared import Prepared
from compclip.model import backbone
from compclip.train import loop
from compclip.train.views import Maker, Rows


def train(root: Path, method: str, work: Path, on_step: loop.OnStep = loop.nothing, *overrides: str):
    """The trained model of a method's cell."""
    run = grid.resolve(read.load(root / "params.yaml", list(overrides)), f"{method}-tiny-scenes-0")
    model = backbone.load(root / "models" / "tiny")
    if needs := getattr(plugins.find(plugins.METHODS, run.method_name), "needs_bias", None):
        model.add_bias(run.method.init_bias) if needs(run.method) else None
    work.mkdir(exist_ok=True)
    maker = Maker(Prepared(root / "data" / "scenes"), run.cell.seed, model.image_size)
    loop.train(run, model, Rows(maker, run.train.batch_size), work, on_step)
    return model
