"""docs/scenes.md's new loss: its file as printed is found, checked, trained and compared, and is what it says it is."""

import csv
import importlib.util
import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from perf import checkout
from tests import tiny_project
from tests.conftest import ROOT
from tests.methods.conftest import detached, make

DOC = ROOT / "docs" / "scenes.md"
SEEDS = (0, 1)
METHODS = ("pretrained", "finetune", "hinge")
CELLS = [f"{method}-tiny-scenes-{seed}" for method in METHODS for seed in SEEDS]


def block(language: str) -> str:
    """The document's only block of a language."""
    (code_block,) = re.findall(rf"^```{language}\n(.*?)^```", DOC.read_text(encoding="utf-8"), re.M | re.S)
    return code_block


@pytest.fixture
def hinge(tmp_path, monkeypatch):
    file = tmp_path / "hinge.py"
    file.write_text(block("python"))
    spec = importlib.util.spec_from_file_location("hinge_of_the_docs", file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def params() -> str:
    """The grid of the page with the page's lines, a tiny model and world, two seeds and little of everything."""
    text = (ROOT / "experiments" / "grids" / "try.yaml").read_text().replace("data/scenes_world", "world")
    grid = OmegaConf.merge(OmegaConf.create(text), OmegaConf.create(block("yaml")))
    assert list(grid.grid.methods) == ["pretrained", "finetune", "negclip", "hinge"]
    little = {
        "grid": {"methods": list(METHODS), "backbones": ["tiny"], "seeds": list(SEEDS)},
        "train": {"max_steps": 3, "batch_size": 8, "warmup_steps": 1, "log_every_steps": 1},
        "scenes": {"train": 40, "retrieval": 2, "records": 2, "per_class": 1, "processes": 1},
    }
    tiny_grid = OmegaConf.merge(grid, little)
    tiny_grid.backbones = {"tiny": {"model": "tiny.json"}}
    return OmegaConf.to_yaml(tiny_grid)


def test_the_hinge_against_loops(hinge):
    """Of each image the false caption that is nearest counts, if it is nearer than the margin; masked ones never do."""
    cfg = hinge.Config(margin=0.3, weight=2.0)
    f = detached(make(K=len(hinge.views(cfg, 0).negatives)))
    terms = hinge.loss(f, cfg, 0)
    total = 0.0
    for i in range(len(f.image_BD)):
        caption_cosine = sum(float(a * b) for a, b in zip(f.image_BD[i], f.text_BD[i], strict=True))
        worst = 0.0
        for k in range(f.negative_BKD.shape[1]):
            cosine = sum(float(a * b) for a, b in zip(f.image_BD[i], f.negative_BKD[i, k], strict=True))
            if f.mask_BK[i, k]:
                worst = max(worst, cfg.margin - caption_cosine + cosine)
        total += worst
    assert total > 0
    assert terms["hinge"].item() == pytest.approx(2.0 * float(f.scale) * total / len(f.image_BD), rel=1e-9)
    masked = replace(f, mask_BK=torch.zeros_like(f.mask_BK))
    assert hinge.loss(masked, cfg, 0)["hinge"].item() == 0
    with pytest.raises(UserError, match="^margin=-1: must be >= 0"):
        hinge.Config(margin=-1)


@pytest.fixture(scope="module")
def done(project, tmp_path_factory):
    """A checkout with the printed file in its place, and the page's commands run there."""
    root = checkout.copy(tmp_path_factory.mktemp("try") / "checkout", params())
    (root / "compclip" / "methods" / "hinge.py").write_text(block("python"))
    for name in ("world", "data", "models"):
        shutil.copytree(project / name, root / name)
    shutil.copy(project / "tiny.json", root)
    commands = [["config.__main__", "check"], ["config.__main__", "plan"], ["runs.keys"]]
    commands += [[f"{stage}.__main__", "--cell", cell] for cell in CELLS for stage in ("train", "evaluate")]
    assert tiny_project.forked(lambda: run_commands(root, [*commands, ["report.__main__"]])) == 0
    return root


def run_commands(root: Path, commands: list[list[str]]) -> None:
    """What a `dvc repro` runs (test_pipeline.py), by the code of a checkout; for good, in a copy of this process."""
    for name in [name for name in sys.modules if name.startswith("compclip")]:
        del sys.modules[name]
    environment = checkout.environment(root)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(root))
    os.chdir(root)
    for module, *argv in commands:
        assert importlib.import_module(f"compclip.{module}").main(argv) == 0, (module, argv)


def test_its_terms_are_logged(done):
    for seed in SEEDS:
        log = done / "runs" / "hinge" / f"tiny-scenes-{seed}" / "metrics.jsonl"
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(steps) == 3
        assert all({"clip", "hinge"} <= step.keys() for step in steps)


def test_the_report_compares_it_with_fine_tuning(done):
    """Its row in the table of differences, with its interval, in every column of the grid."""
    rows = list(csv.DictReader((done / "reports" / "reference.csv").read_text().splitlines()))
    mine = {f"{row['benchmark']}/{row['metric']}": row for row in rows if row["method"] == "hinge"}
    assert set(mine) >= set(OmegaConf.load(done / "params.yaml").report.columns)
    for column in ("sugarcrepe/swap", "retrieval/t2i_recall_at_5"):
        row = mine[column]
        assert row["reference"] == "finetune" and row["seeds"] == "2"
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
        assert row["over"] == "seeds and items"
    page = (done / "reports" / "index.html").read_text()
    assert "Differences to finetune<" in page and '<th scope="row">hinge' in page
