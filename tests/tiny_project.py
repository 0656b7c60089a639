"""A project in a folder, ready to train: a tiny world, annotated, and a tiny random backbone; and what to compare in it."""

import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base.files import fingerprint, write_json
from compclip.config import __main__ as config_command
from compclip.config import grid, read
from compclip.config.sections import World
from compclip.evaluate import __main__ as evaluate_command
from compclip.model.__main__ import main as pretrain
from compclip.model.clip_model import WEIGHTS
from compclip.prepare import shard_stages
from compclip.runs import keys, run_store
from compclip.runs.progress import CLOCK
from compclip.runs.run_store import StoredRun
from compclip.scenes import generate
from compclip.train import __main__ as train_command

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 1, "layers": 1},
}
PARAMS = """
grid: {methods: [pretrained, finetune, fsc_clip], backbones: [tiny], data: [scenes], seeds: [0]}
train: {max_steps: STEPS, batch_size: 8, lr: 1.0e-3, warmup_steps: 2, threads: 1, log_every_steps: 1, checkpoint_every_steps: 2}
methods: {pretrained: {}, finetune: {}, fsc_clip: {}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: world/train.json, images: world/train, captioner: scenes}}
benchmarks: {sugarcrepe: {path: world/sugarcrepe, images: world/test}}
evaluate: {benchmarks: [sugarcrepe], threads: 1}
scenes: {train: 40, retrieval: 2, records: 2, per_class: 1, processes: 1}
"""
EDITS = "world/train_edits.jsonl"
COMPANIONS = f"""
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
      absent: {{file: world/train_negations.jsonl, on: image, column: absent_caption}}
      dense: {{file: world/train_dense.jsonl, on: image, column: dense}}
      variation: {{file: variations.jsonl, on: image, column: variation}}
    regions: {{file: world/train_regions.jsonl, on: image, column: regions, unit: pixels, negatives: negatives}}
    negative_images: {{file: {EDITS}, on: image, column: negative_image, images: world/train_edits}}
"""


METHODS = ("pretrained", "finetune", "fsc_clip")
# The stages that runs need before they are sent, and the methods'.
PIPELINE = """
stages:
  plan: {desc: plan, cmd: python -m compclip.config plan, deps: [params.yaml], outs: [plan]}
  keys: {desc: keys, cmd: python -m compclip.runs.keys, deps: [models, plan/train], outs: [keys]}
  benchmark: {foreach: "${evaluate.benchmarks}", do: {desc: read, cmd: "true"}}
  train:
    foreach: ${grid.methods}
    do:
      desc: train
      cmd: python -m compclip.train --method ${item}
      deps: ["keys/${item}.json"]
      outs: ["runs/${item}": {persist: true}, "trained/${item}.json"]
"""
WORLD = World(train=40, retrieval=2, records=2, per_class=1, processes=1)


def make(root: Path, steps: int = 10, params: str = PARAMS) -> Path:
    """Everything before the train stage."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(params.replace("STEPS", str(steps)))
    write_json(root / "tiny.json", TINY)
    generate.generate(WORLD, root / "world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert shard_stages.main(["--data", "scenes"]) == 0
        assert shard_stages.main(["--data", "scenes", "--annotate"]) == 0
        assert pretrain(["--backbone", "tiny"]) == 0
    return root


def other(project: Path, root: Path, steps: int = 10, params: str = PARAMS) -> Path:
    """A project with other parameters and the data and the backbone of one that was made."""
    shutil.copytree(project, root)
    (root / "params.yaml").write_text(params.replace("STEPS", str(steps)))
    return root


def with_companions(project: Path, root: Path, steps: int = 10, params: str = PARAMS, world: World = WORLD) -> Path:
    """The same with other pictures, beside which are all texts and pictures that a method asks for."""
    lines = [line for line in params.splitlines() if not line.startswith("data:")]
    other(project, root, steps, "\n".join(lines) + COMPANIONS)
    generate.generate(replace(world, train=12, beside=True), root / "world")
    rows = [json.loads(line) for line in (root / EDITS).read_text().splitlines()]
    (root / "variations.jsonl").write_text("".join(json.dumps(_list_variations(row)) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert shard_stages.main(["--data", "scenes"]) == 0
        assert shard_stages.main(["--data", "scenes", "--annotate"]) == 0
    return root


def _list_variations(row: dict) -> dict:
    """The edits of a picture as GNM-CLIP's list has them, with the same score each."""
    edits = zip(row["negative_image"], row["negative_caption"], strict=True)
    records = [{"name": name, "itm_score": [0.5, 0.7], "captions": [caption]} for name, caption in edits]
    return {"image": row["image"], "variation": list(map(json.dumps, records))}


def begin_dvc(root: Path) -> Path:
    """Make the project a DVC repository with PIPELINE."""
    (root / "dvc.yaml").write_text(PIPELINE)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], cwd=root, check=True)
    return root


def plan() -> None:
    """What the stages `plan` and `keys` do, in the current folder."""
    assert config_command.main(["plan"]) == 0
    assert keys.main([]) == 0


def finish(root: Path) -> Path:
    """Every cell trained and scored, one after the other in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in map(cell, METHODS):
            collect(name)
    return root


def collect(name: str) -> None:
    """What `dvc repro` does with a cell."""
    assert train_command.main(["--cell", name]) == 0
    assert evaluate_command.main(["--cell", name]) == 0


def cell(method: str) -> str:
    return f"{method}-tiny-scenes-0"


def at(name: str, *overrides: str) -> StoredRun:
    """A cell's run, in the project of the current folder."""
    return run_store.locate_run(grid.resolve(read.load_params("params.yaml", overrides), name))


def trained(root: Path, name: str) -> Path:
    return root / "runs" / Path(*name.split("-", 1))


def results(root: Path, name: str) -> Path:
    return root / "results" / Path(*name.split("-", 1))


def outcome(root: Path, name: str) -> dict:
    """What two runs of a cell must have in common: weights, logged steps, results; not what the clock says."""
    folder = trained(root, name)
    result = json.loads((results(root, name) / "sugarcrepe.json").read_text())
    return {
        "weights": fingerprint(folder / "checkpoint" / WEIGHTS), "config": (folder / "config.yaml").read_text(),
        "log": steps(folder / "metrics.jsonl"), "results": {k: v for k, v in result.items() if k != "seconds"},
    }  # fmt: skip


def steps(path: Path) -> list[dict]:
    """The logged steps without what the clock says; only complete lines."""
    text = path.read_text() if path.exists() else ""
    rows = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
    return [{k: v for k, v in row.items() if k not in CLOCK} for row in rows]


def wait_for(true: Callable[[], object], seconds: float = 300) -> None:
    """Until a condition holds; fails the test when it does not in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def forked(call: Callable[[], object]) -> int:
    """Do something in a copy of this process; what that ended with, as a child of `subprocess` would."""
    return ended(fork(call))


def fork(call: Callable[[], object]) -> int:
    """A copy of this process that does something: its number. It costs none of the imports of a new process."""
    if pid := os.fork():
        return pid
    try:
        call()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def ended(pid: int, seconds: float = 300) -> int:
    """What such a copy ended with, waited for."""
    pid_and_status: list[int] = []

    def over() -> bool:
        pid_and_status[:] = os.waitpid(pid, os.WNOHANG)
        return bool(pid_and_status[0])

    wait_for(over, seconds)
    return os.waitstatus_to_exitcode(pid_and_status[1])


def environment() -> dict[str, str]:
    """For processes that import this checkout's package from another folder."""
    from tests.conftest import ROOT

    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
