"""The whole grid through DVC, small: every stage, nothing the second time, and only one method's cells after a change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perf.checkout import copy
from tests.tiny_project import TINY

SMALL = """
grid: {methods: [pretrained, finetune, negclip.words], backbones: [tiny], data: [scenes], seeds: [0]}
train: {max_steps: 2, batch_size: 8, lr: 1.0e-3, warmup_steps: 1, threads: 1, log_every_steps: 1}
methods: {pretrained: {}, finetune: {caption: first}, negclip: {caption: first, variants: {words: {swap: clic}}}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: scenes}}
benchmarks:
  sugarcrepe: {path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}
  retrieval: {path: data/scenes_world/retrieval/dataset.json, images: data/scenes_world/test, split: test}
evaluate: {benchmarks: [sugarcrepe, retrieval], threads: 1}
wise_ft: {methods: [finetune], seeds: [0], benchmarks: [], alphas: [0, 0.5, 1]}
report: {bootstrap_samples: 200}
scenes: {seed: 0, train: 24, retrieval: 8, records: 2, per_class: 1, processes: 1}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A repository with the project's files and a small grid on a tiny model."""
    root = tmp_path_factory.mktemp("checkout")
    copy(root, SMALL)
    (root / "tiny.json").write_text(json.dumps(TINY))
    return root


def dvc(root: Path, *args: str) -> str:
    """The output of a dvc command; fails the test with it when the command fails."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    env.pop("MLFLOW_TRACKING_URI", None)
    done = subprocess.run([sys.executable, "-m", "dvc", *args], cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def stages_run(output: str) -> set[str]:
    """The stages that a repro ran."""
    return set(re.findall(r"Running stage '([^']+)'", output))


def test_repro_twice_then_one_parameter(checkout):
    """All stages run once; then none; then the touched method's cell, its evaluation, the report and MLflow alone."""
    cells = [f"{m}-tiny-scenes-0" for m in ("pretrained", "finetune", "negclip.words")]
    first = stages_run(dvc(checkout, "repro"))
    assert first == {
        "scenes",
        "recaption@scenes",
        "rewrite@scenes",
        "annotate@scenes",
        "backbone@tiny",
        "methods",
        "benchmark@sugarcrepe",
        "benchmark@retrieval",
        f"wise_ft@{cells[1]}",
        "report",
        "track",
        *(f"train@{c}" for c in cells),
        *(f"evaluate@{c}" for c in cells),
    }
    page = (checkout / "reports" / "index.html").read_text()
    assert all(method in page for method in ("pretrained", "finetune", "negclip.words"))
    assert (checkout / "reports" / "plots" / "wise_ft.csv").read_text().count(cells[1]) == 3
    assert json.loads((checkout / "mlflow" / "synced.json").read_text())
    assert "sugarcrepe" in dvc(checkout, "metrics", "show")

    assert stages_run(dvc(checkout, "repro")) == set()

    (checkout / "params.yaml").write_text(SMALL.replace("negclip: {caption: first,", "negclip: {caption: full,"))
    assert stages_run(dvc(checkout, "repro")) == {
        "methods",
        f"train@{cells[2]}",
        f"evaluate@{cells[2]}",
        "report",
        "track",
    }

    shared = checkout / "compclip" / "losses.py"
    shared.write_text(shared.read_text() + "\n# edited\n")
    would = set(re.findall(r"Running stage '([^']+)'", dvc(checkout, "repro", "--dry", "train")))
    assert {s for s in would if s.startswith("train@")} == {f"train@{c}" for c in cells}
