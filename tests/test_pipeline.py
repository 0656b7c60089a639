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
    """All stages run once; then the plan alone; then the touched method's, the report and MLflow."""
    methods = ("pretrained", "finetune", "negclip.words")
    first = stages_run(dvc(checkout, "repro"))
    assert first == {
        *("plan", "scenes", "recaption@scenes", "rewrite@scenes", "annotate@scenes", "backbone@tiny", "keys"),
        *("benchmark@sugarcrepe", "benchmark@retrieval", "wise_ft@finetune", "report", "track"),
        *(f"{stage}@{method}" for stage in ("train", "evaluate") for method in methods),
    }
    page = (checkout / "reports" / "index.html").read_text()
    assert all(method in page for method in methods)
    assert (checkout / "reports" / "plots" / "wise_ft.csv").read_text().count("finetune-tiny-scenes-0") == 3
    assert json.loads((checkout / "mlflow" / "synced.json").read_text())
    assert "sugarcrepe" in dvc(checkout, "metrics", "show")

    assert stages_run(dvc(checkout, "repro")) == {"plan"}

    (checkout / "params.yaml").write_text(SMALL.replace("negclip: {caption: first,", "negclip: {caption: full,"))
    touched = {"plan", "keys", "train@negclip.words", "evaluate@negclip.words", "report", "track"}
    assert stages_run(dvc(checkout, "repro")) == touched

    shared = checkout / "compclip" / "train" / "losses.py"
    shared.write_text(shared.read_text() + "\n# edited\n")
    dvc(checkout, "repro", "keys")
    would = stages_run(dvc(checkout, "repro", "--dry", "train"))
    assert {s for s in would if s.startswith("train@")} == {f"train@{m}" for m in methods[1:]}


def test_one_copy_of_each_checkpoint(checkout):
    """Store, runs/ and DVC's cache hold the same file; seeds of the untrained model share one."""
    weights = [p for p in checkout.rglob("*") if p.is_file() and p.stat().st_size > 2**20 and ".git/" not in str(p)]
    of_store = {p.stat().st_ino for p in checkout.glob("store/*/final/checkpoint/*.safetensors")}
    shown = {p.stat().st_ino for p in checkout.glob("runs/*/*/checkpoint/*.safetensors")}
    assert shown <= of_store and len(weights) > len(of_store)
    cached = {p.stat().st_ino for p in weights if ".dvc/cache" in str(p)}
    assert shown <= cached
