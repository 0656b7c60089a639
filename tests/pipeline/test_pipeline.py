"""The whole grid through DVC, small: every stage, nothing the second time, and only one method's cells after a change.

DVC and its stages are copies of the test's process; `.ci/wheel` has processes.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perf.checkout import copy
from tests.forked_commands import ForkedPopen
from tests.tiny_project import TINY

SMALL = """
grid: {methods: [pretrained, finetune, negclip.words], backbones: [tiny], data: [scenes], seeds: [0]}
train: {max_steps: 2, batch_size: 8, lr: 1.0e-3, warmup_steps: 1, threads: 1, log_every_steps: 1}
methods: {pretrained: {}, finetune: {caption: first}, negclip: {caption: first, variants: {words: {swap: clic, hard_images: 1}}}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: data/scenes_world/train.json, images: data/scenes_world/train, captioner: scenes}}
benchmarks:
  sugarcrepe: {path: data/scenes_world/sugarcrepe, images: data/scenes_world/test}
  retrieval: {path: data/scenes_world/retrieval/dataset.json, images: data/scenes_world/test, split: test}
evaluate: {benchmarks: [sugarcrepe, retrieval], threads: 1}
wise_ft: {methods: [finetune], seeds: [0], benchmarks: [], alphas: [0, 0.5, 1]}
scenes: {seed: 0, train: 24, retrieval: 8, records: 2, per_class: 1, processes: 1}
"""


# Imported once here instead of in each process.
IMPORTS = ("dvc.cli.parser", "compclip.evaluate.__main__", "compclip.report.__main__", "compclip.track.__main__")


def dvc(root: Path, *args: str) -> str:
    """The output of a dvc command; fails the test with it when the command fails."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    env.pop("MLFLOW_TRACKING_URI", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedPopen)
        command = [sys.executable, "-m", "dvc", *args]
        process = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def stages_run(output: str) -> set[str]:
    return set(re.findall(r"Running stage '([^']+)'", output))


REMOTE = "[core]\n    remote = store\n['remote \"store\"']\n    url = {}\n"
METHODS = ("pretrained", "finetune", "negclip.words")
ALWAYS = {"plan", "look"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A repository with the project's files, a small grid on a tiny model brought up to date, and the stages that ran."""
    for name in IMPORTS:
        importlib.import_module(name)
    root = tmp_path_factory.mktemp("checkout")
    copy(root, SMALL)
    (root / "tiny.json").write_text(json.dumps(TINY))
    return root, stages_run(dvc(root, "repro"))


def test_all_stages_run_once_then_the_plan_alone(checkout):
    """The first time everything; the second time what looks at every edit."""
    root, first = checkout
    assert first == {
        *ALWAYS,
        *("experiments/scenes/dvc.yaml:scenes", "backbone@tiny", "neighbours", "tune", "keys"),
        *(f"{stage}@scenes" for stage in ("recaption", "rewrite", "annotate")),
        *("benchmark@sugarcrepe", "benchmark@retrieval", "wise_ft@finetune", "blind@scenes", "report", "track"),
        *(f"{stage}@{method}" for stage in ("train", "evaluate") for method in METHODS),
    }
    page = (root / "reports" / "index.html").read_text()
    assert all(method in page for method in METHODS)
    assert (root / "reports" / "plots" / "wise_ft.csv").read_text().count("finetune-tiny-scenes-0") == 3
    assert json.loads((root / "mlflow" / "synced.json").read_text())
    assert "sugarcrepe" in dvc(root, "metrics", "show")
    assert stages_run(dvc(root, "repro")) == ALWAYS


def inodes(root: Path, pattern: str) -> set[int]:
    """The files of a pattern, links to one file counted once."""
    return {p.stat().st_ino for p in root.glob(pattern)}


def test_one_copy_of_each_checkpoint(checkout):
    """The backbone, the store, runs/, DVC's cache and MLflow hold the same files."""
    root, _ = checkout
    checkpoint_inodes = inodes(root, "store/*/final/checkpoint/*.safetensors")
    assert len(checkpoint_inodes) == len(METHODS)
    assert inodes(root, "runs/*/*/checkpoint/*.safetensors") == checkpoint_inodes
    assert inodes(root, "models/*/*.safetensors") < checkpoint_inodes
    least = min(p.stat().st_size for p in root.glob("store/*/final/checkpoint/*.safetensors"))
    large = [p for p in root.rglob("*") if p.is_file() and p.stat().st_size >= least]
    experiment_inodes = {p.stat().st_ino for p in large if p.is_relative_to(root / "experiments") or ".git" in p.parts}
    assert {p.stat().st_ino for p in large} - experiment_inodes == checkpoint_inodes


def test_a_clone_that_pulls_trains_nothing(checkout, tmp_path):
    """Through a remote: what was pulled is up to date, and it is taken over where another seed is asked for."""
    root, _ = checkout
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, "add", "--all"], cwd=root, check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "grid"], cwd=root, check=True)
    (root / ".dvc" / "config.local").write_text(REMOTE.format(tmp_path / "remote"))
    dvc(root, "push")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
    shutil.copy(root / ".dvc" / "config.local", clone / ".dvc")
    dvc(clone, "pull")
    assert stages_run(dvc(clone, "repro")) == {*ALWAYS, "track"}  # MLflow's store is nobody's to share
    assert not (clone / "store").exists()
    published = clone / "runs" / "finetune" / "tiny-scenes-0" / "environment.json"
    original = published.read_bytes()
    (clone / "params.yaml").write_text(SMALL.replace("seeds: [0]}\ntrain", "seeds: [0, 1]}\ntrain"))
    assert "finetune: 2 cells, 2 runs: 1 trained now, 1 finished before" in dvc(clone, "repro", "train@finetune")
    assert published.read_bytes() == original


def test_an_edit_makes_stale_what_it_can_change(checkout):
    """A method's parameter: its own stages, report and MLflow. What an edit of code changes is in tests/config."""
    root, _ = checkout
    (root / "params.yaml").write_text(SMALL.replace("negclip: {caption: first,", "negclip: {caption: full,"))
    touched = {*ALWAYS, "keys", "train@negclip.words", "evaluate@negclip.words", "report", "track"}
    assert stages_run(dvc(root, "repro")) == touched
