"""Runs with and without validation along them, compared; as a program, those of two processes: a line a method."""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compclip.config import grid, read
from compclip.evaluate import __main__ as evaluate_command
from compclip.interface.method import load_method
from compclip.model import backbone
from compclip.prepare import benchmark_overlap
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, fine_tuning, process_group, recorder, validation
from tests import small_training, tiny_project

STEPS = 3
# Methods with heads, teachers, memory, composites, negatives as texts and as pictures, and phases among them.
METHODS = {
    "finetune": "{}",
    "fsc_clip": "{train: {micro_batch: 4}}",
    "negclip": "{train: {lora: {rank: 2}}}",
    "clic": "{train: {trainable: text}}",
    "labclip": "{}",
    "degla": "{negatives: rules, decay: 0.5}",
    "flair": "{texts: 2}",
    "llip": "{tokens: 3}",
    "il_clip": "{codes: 8, code_width: 4, temperature: 0.5, agents: 2, first_agent_step: 1, cycle_steps: 1, still_steps: 1}",
    "triplet_clip": "{train: {precision: bf16}}",
}
PARAMS = f"""
grid: {{methods: [{", ".join(METHODS)}], backbones: [tiny], data: [scenes], seeds: [0]}}
train: {{max_steps: STEPS, batch_size: 8, lr: 1.0e-3, warmup_steps: 2, threads: 1, log_every_steps: 1, checkpoint_every_steps: 2}}
methods: {{{", ".join(f"{name}: {options}" for name, options in METHODS.items())}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{scenes: {{source: karpathy, path: world/train.json, images: world/train, captioner: scenes}}}}
benchmarks: {{retrieval: {{path: world/retrieval/dataset.json, images: world/test, split: test}}}}
evaluate: {{benchmarks: [retrieval], threads: 1, validation_share: 0.5}}
scenes: {{train: 40, retrieval: 24, records: 2, per_class: 1, processes: 1}}
"""


def make(project: Path, root: Path, params: str = PARAMS) -> Path:
    """A project with companions of its pictures, and 24 pictures of a retrieval, half of which are validation items."""
    tiny_project.with_companions(project, root, STEPS, params, replace(tiny_project.WORLD, retrieval=24))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert evaluate_command.main(["--census", "retrieval"]) == 0
    data = root / "data" / "scenes"
    benchmark_overlap.write_overlap(data, sorted((data / "samples").glob("*.arrow")))
    return root


def measure_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of few steps be validated, whatever it costs."""
    monkeypatch.setattr(validation, "TIME_SHARE", 1e9)


class WatchedValidator(validation.Validator):
    """One that notes whether a measurement changed a generator or a mode."""

    changes: list[bool]

    def start(self, model: Any, first_step: int, steps: int) -> None:
        """Begin with no change."""
        super().start(model, first_step, steps)
        self.changes = []

    def measure(self, step: int) -> dict[str, float]:
        """Measure, and compare what was before."""
        before = self._state()
        numbers = super().measure(step)
        if numbers:
            self.changes.append(self._state() != before)
        return numbers

    def _state(self) -> list:
        heads = [self.model.head] if self.model.head is not None else []
        modes = [part.training for module in (self.model.clip, *heads) for part in module.modules()]
        numpy_state = [repr(part) for part in np.random.get_state()]  # noqa: NPY002
        return [torch.get_rng_state().tolist(), numpy_state, random.getstate(), modes]


def train(root: Path, method: str, work: Path, validates: bool, *overrides: str) -> tuple[Any, Any]:
    """The trained model, and what validated it in the first process."""
    run = grid.resolve(read.load_params(root / "params.yaml", list(overrides)), f"{method}-tiny-scenes-0")
    model = backbone.load(root / "models" / "tiny")
    work.mkdir(parents=True, exist_ok=True)
    declared = load_method(method)
    here = distributed.current_process()
    rows = fine_tuning.build_sampler(run, declared, model, Inputs(root, run.cell), here)
    watched = None
    if validates and here.rank == 0:
        held_out = validation.find_held_out(tiny_project.at(run.cell.name, *overrides))
        watched = WatchedValidator(run.train, held_out, here.world)
    with recorder.recording(run, work, recorder.do_nothing, watched) as record:
        return fine_tuning.train(run, declared, model, rows, record), watched


def compare(root: Path, method: str, work: Path, *overrides: str) -> dict[str, Any]:
    """How a run with validation differs from one without: its bits, generators and modes; and how often it was made."""
    plain, _ = train(root, method, work / "plain", False, *overrides)
    validated, watched = train(root, method, work / "validated", True, *overrides)
    plain_bits = small_training.bits(plain)
    bits = small_training.bits(validated)
    different = [name for name in plain_bits if not torch.equal(plain_bits[name], bits[name])]
    return {"different": different, "changes": watched.changes if watched else []}


def main(argv: list[str]) -> int:
    """Compare the runs of every method, in one of two processes."""
    torch.set_num_threads(1)
    validation.TIME_SHARE = 1e9
    root = Path(argv[0])
    with process_group.session():
        for method in METHODS:
            print(json.dumps({"method": method, **compare(root, method, Path(argv[1]) / method)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
