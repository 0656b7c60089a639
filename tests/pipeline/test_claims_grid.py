"""A slice of the claims' grid through the stages' commands: three seeds of what one claim speaks of, and its verdict."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import mean, stdev

from omegaconf import OmegaConf

from compclip.base.files import write_json
from compclip.config import read
from compclip.config.cell import Cell
from compclip.evaluate import __main__ as evaluate_command
from compclip.model import __main__ as model_command
from compclip.prepare import shard_stages
from compclip.report import __main__ as report_command
from compclip.report.claims import ABSENT, HOLDS, REFUTED, UNDECIDED
from compclip.runs import run_folder
from compclip.runs.run_folder import Published
from compclip.scenes import __main__ as data_scenes_command
from compclip.train import __main__ as train_command
from tests.conftest import ROOT
from tests.tiny_project import TINY

METHODS = ("pretrained", "negclip.clic_swap")
SMALL = """
grid: {seeds: [0, 1, 2]}
train: {max_steps: 4, batch_size: 8, warmup_steps: 1}
backbones: {scenes: {model: tiny.json, weights: ''}}
evaluate: {benchmarks: [sugarcrepe, sugarcrepe_pp]}
report: {columns: [sugarcrepe/replace, sugarcrepe/swap, sugarcrepe_pp/replace_itt]}
scenes: {train: 40, retrieval: 4, records: 12, per_class: 1, processes: 1}
"""


def params() -> str:
    """experiments/grids/claims.yaml with two of its methods, three seeds, a tiny model, and little of everything."""
    grid = read.read_with_overrides(ROOT / "experiments" / "grids" / "claims.yaml", ())
    assert set(METHODS) < set(grid.grid.methods)
    grid.grid.methods = list(METHODS)
    return OmegaConf.to_yaml(OmegaConf.merge(grid, OmegaConf.create(SMALL)))


def metric(root: Path, method: str, seed: int, column: str) -> float:
    """A run's number from its own result file."""
    benchmark, _, name = column.partition("/")
    path = run_folder.result_path(Published(root, Cell(method, "scenes", "scenes", seed)).results, benchmark)
    return json.loads(path.read_text())["metrics"][name]


def run() -> None:
    """What `dvc repro report` runs, in one process; tests/pipeline/test_pipeline.py shows that it runs that."""
    commands = [
        (data_scenes_command.main, "--out data/scenes_world"),
        (shard_stages.main, "--data scenes"),
        (shard_stages.main, "--data scenes --annotate"),
        (model_command.main, "--backbone scenes"),
    ]
    cells = [f"{method}-scenes-scenes-{seed}" for method in METHODS for seed in (0, 1, 2)]
    commands += [(main, f"--cell {cell}") for cell in cells for main in (train_command.main, evaluate_command.main)]
    commands.append((report_command.main, ""))
    for main, words in commands:
        assert main(words.split()) == 0


def test_a_claim_is_judged_from_three_seeds(tmp_path, monkeypatch):
    """The differences in claims.csv are those of the result files; a claim about other methods is not judged."""
    root = tmp_path
    monkeypatch.chdir(root)
    (root / "params.yaml").write_text(params())
    write_json(root / "tiny.json", TINY)
    (root / "experiments").symlink_to(ROOT / "experiments")
    run()
    rows = list(csv.DictReader((root / "reports" / "claims.csv").read_text().splitlines()))
    judged = [r for r in rows if r["claim"] == "hard_negatives_fool_sugarcrepe"]
    assert [r["column"] for r in judged] == ["sugarcrepe/replace", "sugarcrepe/swap", "sugarcrepe_pp/replace_itt"]
    for row in judged:
        gains = [metric(root, METHODS[1], s, row["column"]) - metric(root, METHODS[0], s, row["column"])
                 for s in (0, 1, 2)]  # fmt: skip
        assert row["seeds"] == "3"
        assert row["verdict"] in (HOLDS, REFUTED, UNDECIDED)
        assert abs(float(row["difference"]) - mean(gains)) < 1e-6
        assert abs(float(row["std"]) - stdev(gains)) < 1e-6
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
        assert row["over"] == "seeds and items"
    absent_rows = [r for r in rows if r["claim"] == "clic_raises_both_benchmarks"]
    assert {r["claim_verdict"] for r in absent_rows} == {ABSENT}
