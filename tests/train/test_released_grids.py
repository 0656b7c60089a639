"""Each `<method>_released` grid takes two steps on the scenes: none of its options is refused or gives no number."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.interface.method import load_method
from compclip.model import backbone
from compclip.prepare import shard_stages
from compclip.runs.run_folder import Inputs
from compclip.scenes import generate
from compclip.train import fine_tuning, recorder
from tests import tiny_project
from tests.conftest import ROOT

GRIDS = ROOT / "experiments" / "grids"
METHODS = (
    "ahnpl",
    "ce_clip",
    "clip_in",
    "clove",
    "codebook_clip",
    "con_clip",
    "crepe.swap",
    "cs_clip",
    "dac",
    "degla",
    "fg_clip",
    "fineclip",
    "flair",
    "gnm_clip",
    "il_clip",
    "labclip",
    "llip",
    "mosaiclip",
    "read_clip",
    "superclip",
    "svlc",
    "triplet_clip",
)
VARIANTS = ("clip_in.rotary", "codebook_clip.fdt", "crepe.replace", "crepe.negate", "svlc.llm", "svlc.pos")
# What a grid asks of files that are not here: words of a masked model, a T5, four written negatives.
INSTEAD = {
    "ahnpl": {"words": "wordnet"},
    "ce_clip": {"words": "wordnet"},
    "read_clip": {"decoder": ""},
    "degla": {"negatives": "rules"},
    "dac": {"negatives": "lists"},
    "flair": {"heads": 4},  # vectors of 16 numbers
    "llip": {"heads": 4},  # vectors of 16 numbers
}
EDITS = "world/train_edits.jsonl"
DATA = f"""
data:
  scenes:
    source: karpathy
    path: world/train.json
    images: world/train
    captioner: scenes
    relatives: true
    texts:
      negative: {{file: {EDITS}, on: image, column: negative_caption}}
      paraphrase: {{file: world/train_paraphrases.jsonl, on: image, column: paraphrase}}
      dense: {{file: world/train_dense.jsonl, on: image, column: dense}}
      variation: {{file: variations.jsonl, on: image, column: variation}}
    regions: {{file: world/train_regions.jsonl, on: image, column: regions, unit: pixels, negatives: negatives}}
    negative_images: {{file: {EDITS}, on: image, column: negative_image, images: world/train_edits}}
"""


@pytest.fixture(scope="module")
def world(project, tmp_path_factory) -> Path:
    """The tiny project with edits, paraphrases and single facts beside its pictures."""
    root = tmp_path_factory.mktemp("released") / "p"
    params = "\n".join(line for line in tiny_project.PARAMS.splitlines() if not line.startswith("data:")) + DATA
    tiny_project.other(project, root, params=params)
    world = replace(tiny_project.WORLD, train=12, beside=True)
    generate.generate(world, root / "world")
    rows = [json.loads(line) for line in (root / EDITS).read_text().splitlines()]
    (root / "variations.jsonl").write_text("".join(json.dumps(write_variations(row)) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert shard_stages.main(["--data", "scenes"]) == 0
        assert shard_stages.main(["--data", "scenes", "--annotate"]) == 0
    return root


def write_variations(row: dict) -> dict:
    """The edits of a picture as GNM-CLIP's list has them, with the same score each."""
    edits = zip(row["negative_image"], row["negative_caption"], strict=True)
    records = [{"name": name, "itm_score": [0.5, 0.7], "captions": [caption]} for name, caption in edits]
    return {"image": row["image"], "variation": list(map(json.dumps, records))}


def grid_name(name: str) -> str:
    """The grid of what a method's authors ran; Llip's has a smaller batch, and says so by its name."""
    method = name.partition(".")[0]
    return f"{method}_reduced" if method == "llip" else f"{method}_released"


def resolve_here(name: str, root: Path) -> Run:
    """A grid's run of a method with the tiny project's data and backbone, two steps of four pictures."""
    params = read.load_params(GRIDS / f"{grid_name(name)}.yaml")
    run = grid.resolve(params, next(cell.name for cell in grid.list_cells(params) if cell.method == name))
    train = replace(run.train, max_steps=2, batch_size=4, warmup_steps=1, threads=1, workers=0, log_every_steps=1)
    here = grid.resolve(read.load_params(root / "params.yaml"), tiny_project.cell("finetune"))
    method = replace(run.method, **INSTEAD.get(name, {}))
    return replace(here, train=train, method=method, cell=here.cell._replace(method=run.cell.method))


def test_every_grid_is_tried():
    assert set(map(grid_name, METHODS)) == {
        p.stem for p in GRIDS.glob("*.yaml") if p.stem.endswith(("_released", "_reduced"))
    }


@pytest.mark.parametrize("name", [*METHODS, *(pytest.param(name, marks=pytest.mark.long) for name in VARIANTS)])
def test_two_steps(name, world, tmp_path, monkeypatch):
    monkeypatch.chdir(world)
    run = resolve_here(name, world)
    method, model = load_method(name), backbone.load(world / "models" / "tiny")
    sampler = fine_tuning.build_sampler(run, method, model, Inputs(world, run.cell))
    with recorder.recording(run, tmp_path, recorder.do_nothing) as record, fine_tuning.set_arithmetic(run.train):
        fine_tuning.train(run, method, model, sampler, record)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert all(math.isfinite(row["loss"]) for row in rows)
