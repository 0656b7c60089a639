"""What a cell costs on a card that need not be there: memory, arithmetic and launches of its own training step.

A step is run on tensors without contents (`train.simulated_step`). What follows from it are bounds: no run is faster,
and most are slower. How fast data is read, decoded and rewritten bounds a run too; nothing here says it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from compclip.base.errors import UserError, one_line, unknown
from compclip.config.grid import Run
from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.train.fitting_batch import (
    GIB,
    count_rows,
    count_turns,
    count_usable_bytes,
    find_micro_batch,
    gather_rows,
)

if TYPE_CHECKING:
    from compclip.train.simulated_step import StepCost

FILE = Path(__file__).with_name("cards.yaml")
DEFAULT = "h100-80gb"
LAUNCH_S = 5e-6  # the host's time for a kernel: a usual figure, not measured here
LARGEST_MODEL = 1 << 37  # weights
# Options of `train` that change neither memory nor operations of a step; the others make another step.
SAME_STEP = (
    "epochs", "max_steps", "lr", "lr_start", "lr_end", "warmup_steps", "warmup_fraction", "beta1", "beta2", "eps",
    "weight_decay", "decayed", "schedule", "grad_clip_norm", "max_logit_scale", "compile", "threads", "log_every_steps",
    "checkpoint_every_steps", "workers", "shuffle", "augment", "augment_scale", "average_alpha",
    "text_groups", "snapshots", "choose",
)  # fmt: skip


@dataclass(frozen=True)
class Card:
    """A row of cards.yaml: GiB, TFLOP/s of the matrix units by format (0: it has none), and GB/s of the memory."""

    name: str
    memory_gib: float
    bf16: float
    tf32: float
    float32: float
    bandwidth: float
    float16: float = 0.0  # 0: bfloat16's

    @property
    def usable_bytes(self) -> int:
        """Return the memory that a step's tensors may take."""
        return count_usable_bytes(int(self.memory_gib * GIB))

    def matrix_rate(self, train: Train) -> float:
        """Return floating point operations a second of a schedule's products; without units for its type float32's."""
        float32 = self.tf32 if train.matmul == "high" and self.tf32 else self.float32
        half = self.float16 or self.bf16 if train.precision in ("fp16", "fp16_weights") else self.bf16
        return 1e12 * (float32 if train.precision == "float32" or not half else half)


@functools.cache
def load_cards() -> dict[str, Card]:
    """Return the cards of cards.yaml by name."""
    table = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: Card(name, **numbers) for name, numbers in table.items()}


def find_card(name: str) -> Card:
    """Return a card. Raises UserError with close matches for an unknown one."""
    if name not in load_cards():
        raise unknown("card", name, load_cards(), "--card")
    return load_cards()[name]


def choose_card(constraint: str) -> Card:
    """Return the card that a profile's constraint names, the smallest of several; `DEFAULT` where it names none."""
    words = set(re.findall(r"[a-z0-9]+", constraint.lower()))
    named = [card for card in load_cards().values() if card.name.partition("-")[0] in words]
    sized = [card for card in named if card.name.partition("-")[2] in words]
    return min(sized or named or [find_card(DEFAULT)], key=lambda card: card.memory_gib)


@dataclass(frozen=True)
class CellCost:
    """A cell's step on each of `processes` cards, as configured and, if that does not fit, with a `micro_batch`."""

    run: Run
    processes: int
    weights: int
    configured: StepCost
    fits: bool
    micro_batch: int  # the largest that fits where the configured one does not; 0: none does, or none is needed
    step: StepCost  # with that `micro_batch`; else as configured

    def arithmetic_rate(self, card: Card) -> float:
        """Return samples a second of all cards, were the matrix units always busy."""
        return self.run.train.batch_size * card.matrix_rate(self.run.train) / self.step.flops

    def launch_rate(self) -> float:
        """Return samples a second of all cards, were the host always launching."""
        return self.run.train.batch_size / (self.step.launches * LAUNCH_S)

    def million_hours(self, card: Card) -> float:
        """Return the GPU-hours of a million samples at the lower of both rates."""
        return self.processes * 1e6 / min(self.arithmetic_rate(card), self.launch_rate()) / 3600


class CostPredictor:
    """Predicts cells' costs; steps that are equal are simulated once."""

    def __init__(self, card: Card, processes: int = 1) -> None:
        self.card = card
        self.processes = processes
        self._steps: dict[str, StepCost] = {}
        self._models: dict[str, tuple[dict[str, Any], int]] = {}

    def predict(self, run: Run) -> CellCost:
        """Return a cell's cost; about 2 to 20 CPU seconds where it is not known yet.

        Raises UserError where the backbone's config is not available, or the step cannot be simulated.
        """
        size = run.train.batch_size
        usable = self.card.usable_bytes
        if size % self.processes:
            raise UserError(f"train.batch_size={size}: not a multiple of the {self.processes} processes; change one")
        configured = self._simulate(run, run.train.micro_batch)
        fits = configured.peak_bytes <= usable
        micro_batch = 0
        if not fits:
            rows = count_rows(run, self.processes)
            below = run.train.micro_batch or rows
            micro_batch = find_micro_batch(lambda m: self._simulate(run, m).peak_bytes, rows, below, usable)
        step = self._simulate(run, micro_batch) if micro_batch else configured
        weights = self._load_model(run.backbone.model)[1]
        return CellCost(run, self.processes, weights, configured, fits, micro_batch, step)

    def _simulate(self, run: Run, micro_batch: int) -> StepCost:
        """Return the cost of one process's step."""
        from compclip.train.simulated_step import simulate_step

        share = run.train.batch_size // self.processes
        defaults: dict[str, Any] = {name: getattr(Train(), name) for name in SAME_STEP}
        train = replace(run.train, **defaults, batch_size=share, micro_batch=micro_batch)
        key = repr((run.method_name, run.method, train, run.backbone.model))
        if key not in self._steps:
            method = gather_rows(load_method(run.method_name), self.processes)
            model_cfg = self._load_model(run.backbone.model)[0]
            try:
                self._steps[key] = simulate_step(
                    replace(run, train=train), method, model_cfg, count_turns(method, run.method)
                )
            except Exception as error:  # a loss may do with its tensors what has no meaning without contents
                raise UserError(f"its step cannot be simulated: {one_line(str(error))[:160]}") from error
        return self._steps[key]

    def _load_model(self, model: str) -> tuple[dict[str, Any], int]:
        """Return a backbone's config and how many weights it has."""
        from compclip.model import backbone, model_config

        if model not in self._models:
            cfg = backbone.read_architecture(model)
            self._models[model] = cfg, model_config.count_weights(cfg, model, LARGEST_MODEL)
        return self._models[model]


def group_runs(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs of one method variant, backbone and schedule together, in the order of the first of each."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if load_method(run.method_name).TRAINS:
            groups.setdefault(repr((run.cell.method, run.cell.backbone, run.method, run.train)), []).append(run)
    return list(groups.values())
