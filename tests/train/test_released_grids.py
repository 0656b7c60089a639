"""Each `<method>_released` grid takes two steps on the scenes: none of its options is refused or gives no number."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.interface.method import load_method
from compclip.methods import flair, llip
from compclip.model import backbone
from compclip.runs.run_folder import Inputs
from compclip.train import fine_tuning, recorder
from tests import tiny_project
from tests.conftest import ROOT
from tests.shipped_files import list_shipped

GRIDS = ROOT / "experiments" / "grids"
CELLS = {path: OmegaConf.load(path).grid.methods[1:] for path in list_shipped("experiments/grids/*_re[ld]*ed.yaml")}
METHODS = [names[0] for names in CELLS.values()]
VARIANTS = [name for names in CELLS.values() for name in names[1:]]
# What a grid asks of files that are not here: words of a masked model, a T5, four written negatives.
INSTEAD = {
    "ahnpl": {"words": "wordnet"},
    "ce_clip": {"words": "wordnet"},
    "read_clip": {"decoder": ""},
    "degla": {"negatives": "rules"},
    "dac": {"negatives": "lists"},
}


@pytest.fixture(scope="module")
def world(project, tmp_path_factory) -> Path:
    """The tiny project with edits, paraphrases and single facts beside its pictures."""
    return tiny_project.with_companions(project, tmp_path_factory.mktemp("released") / "p")


@pytest.fixture(scope="module")
def here(world) -> Run:
    """A run of the tiny project."""
    return grid.resolve(read.load_params(world / "params.yaml"), tiny_project.cell("finetune"))


def resolve_here(name: str, here: Run) -> Run:
    """A grid's run of a method with the tiny project's data and backbone, two steps of four pictures."""
    params = read.load_params(next(path for path, names in CELLS.items() if name in names))
    run = grid.resolve(params, next(cell.name for cell in grid.list_cells(params) if cell.method == name))
    train = replace(run.train, max_steps=2, batch_size=4, warmup_steps=1, threads=1, workers=0, log_every_steps=1)
    method = replace(run.method, **INSTEAD.get(name, {}))
    return replace(here, train=train, method=method, cell=here.cell._replace(method=run.cell.method))


@pytest.mark.parametrize("name", [*METHODS, *(pytest.param(name, marks=pytest.mark.long) for name in VARIANTS)])
def test_two_steps(name, world, here, tmp_path, monkeypatch):
    monkeypatch.chdir(world)
    run = resolve_here(name, here)
    for config in (flair.Config, llip.Config):
        monkeypatch.setattr(config, "heads", 4)  # vectors of 16 numbers
    method, model = load_method(name), backbone.load(world / "models" / "tiny")
    sampler = fine_tuning.build_sampler(run, method, model, Inputs(world, run.cell))
    with recorder.recording(run, tmp_path, recorder.do_nothing) as record, fine_tuning.set_arithmetic(run.train):
        fine_tuning.train(run, method, model, sampler, record)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert all(math.isfinite(row["loss"]) for row in rows)
