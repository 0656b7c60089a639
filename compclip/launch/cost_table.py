"""What a grid costs at least on a card, before it runs: `compclip config cost`.

    compclip config cost                            of params.yaml's cells, on an H100
    compclip config cost --card a100-40gb           on another card; a wrong name prints the known ones
    compclip config cost --on slurm/a100.yaml       with a profile's card and its number of GPUs
    compclip config cost --cell CELL train.batch_size=512

A row for each method, backbone and schedule. All numbers are bounds by the step's own operators, and nothing is
measured: a run takes at least as long. What reading and preparing data takes is not in them.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, unknown
from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.launch import profiles
from compclip.launch.profiles import Profile
from compclip.train.throughput import (
    ALLOCATOR_SHARE,
    CONTEXT_GIB,
    GIB,
    count_rows,
    count_turns,
    count_usable_bytes,
    find_micro_batch,
    gather_rows,
)

if TYPE_CHECKING:
    from compclip.train.simulated_step import StepCost


FAILED = "not predicted: "
NAMES = ("method", "backbone", "data")
# Heads of the columns of numbers, each as wide as its longest value; `with micro`: the largest one that fits, its GiB.
HEADS = (
    "weights", "batch", "micro", "memory GiB", "fits", "with micro", "TFLOP/step", "arithmetic/s", "launches/s",
    "GPU-h/1M", "cells", "  GPU-h",
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Run the command `config cost`."""
    args = _parse_arguments(argv)
    profile = profiles.load_profile(args.on) if args.on else Profile()
    params = read.load_params(args.params, args.overrides, together=not args.cell)
    runs = [grid.resolve(params, args.cell)] if args.cell else list(grid.resolve_all(params))
    failed = False
    for line in describe_costs(runs, profile, args.card, Path(".")):
        failed |= FAILED in line
        print(line, flush=True)
    return 1 if failed else 0


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip config cost", description=__doc__, example="--card h100-80gb")
    parser.add_argument("--card", help=f"a name of compclip/launch/cards.yaml; default: {DEFAULT}")
    parser.add_argument("--cell", help="one cell alone")
    help_text = "a file such as slurm/a100.yaml: its card, and its GPUs"
    parser.add_argument("--on", metavar="PROFILE", help=help_text)
    parser.add_grid("parameters to override")
    return parser.parse_intermixed_args(argv)


def describe_costs(runs: Sequence[Run], profile: Profile, card_name: str | None, root: Path) -> Iterator[str]:
    """Yield the lines of the table, each as soon as its step was simulated; runs that train nothing have none.

    Raises UserError for an unknown card.
    """
    card = find_card(card_name) if card_name else choose_card(profile.constraint)
    groups = group_runs(runs)
    predictor = CostPredictor(card, profile.nodes * max(1, profile.gpus))
    yield from _describe_card(card, predictor.processes)
    names = []
    for group in groups:
        data_names = dict.fromkeys(run.cell.data for run in group)
        names.append((group[0].cell.method, group[0].cell.backbone, ",".join(data_names)))
    widths = [max(map(len, column)) for column in zip(NAMES, *names, strict=True)]
    yield _join(NAMES, widths, HEADS)
    for group, name in zip(groups, names, strict=True):
        try:
            yield _join(name, widths, _format_cost(predictor.predict(group[0]), card, group, root))
        except UserError as error:
            yield _join(name, widths, (f"{FAILED}{error}",))


def _describe_card(card: Card, processes: int) -> list[str]:
    usable = card.usable_bytes / GIB
    bf16 = f"{card.bf16:g} TFLOP/s in bfloat16" if card.bf16 else "no units for bfloat16, so float32's rate"
    return [
        f"predicted for {processes} x {card.name}, nothing measured: bounds, no forecasts; runs take longer",
        f"memory: {card.memory_gib:g} GiB, {usable:.1f} usable ({ALLOCATOR_SHARE:.0%} is the allocator's, "
        f"{CONTEXT_GIB:g} GiB CUDA's context); {bf16}, {card.float32:g} in float32",
        f"samples/s at most: by arithmetic, and by launches of {LAUNCH_S * 1e6:g} us (a usual figure); GPU-hours at "
        "least: by the lower rate",
        "in none of them: reading and preparing data, what GPUs tell each other, checkpoints, scoring",
    ]


def _join(names: Sequence[str], widths: Sequence[int], values: Sequence[str]) -> str:
    padded = [name.ljust(width) for name, width in zip(names, widths, strict=True)]
    return "  ".join([*padded, *values]).rstrip()


def _format_cost(cost: CellCost, card: Card, group: Sequence[Run], root: Path) -> list[str]:
    """Return the columns of HEADS; what is bound by the step is of that with the `micro_batch` that fits."""
    train = cost.run.train
    million = cost.million_hours(card)
    samples = [count_samples(run, root) for run in group]
    fitting = f"{cost.micro_batch}: {cost.step.peak_bytes / GIB:.2f}" if cost.micro_batch else "none fits"
    values = (
        f"{cost.weights / 1e6:.1f}M",
        str(train.batch_size),
        str(train.micro_batch or "-"),
        f"{cost.configured.peak_bytes / GIB:.2f}",
        "yes" if cost.fits else "no",
        "" if cost.fits else fitting,
        f"{cost.step.flops / 1e12:.4g}",
        f"{cost.arithmetic_rate(card):.0f}",
        f"{cost.launch_rate():.0f}",
        f"{million:.3g}",
        str(len(group)),
        f"{million * sum(filter(None, samples)) / 1e6:.3g}" if all(samples) else "?",
    )
    return [value.rjust(len(head)) for value, head in zip(values, HEADS, strict=True)]


def count_samples(run: Run, root: Path) -> int | None:
    """Return how many samples a run trains on in all its steps; None where its data is not there yet."""
    from compclip.data.prepared_dataset import STAGE
    from compclip.data.shard_files import read_manifest
    from compclip.runs.run_folder import Inputs
    from compclip.train.fine_tuning import total_steps

    size = run.train.batch_size
    if run.train.max_steps:
        return run.train.max_steps * size
    try:
        return total_steps(run.train, read_manifest(Inputs(root, run.cell).manifest, STAGE).samples // size) * size
    except UserError:
        return None


# --- what a cell costs on a card ------------------------------------------------------------------------------------
# What a cell costs on a card that need not be there: memory, arithmetic and launches of its own training step.
#
# A step is run on tensors without contents (`train.simulated_step`). What follows from it are bounds: no run is
# faster, and most are slower. How fast data is read, decoded and rewritten bounds a run too; nothing here says it.


FILE = Path(__file__).with_name("cards.yaml")
DEFAULT = "h100-80gb"
LAUNCH_S = 5e-6  # the host's time for a kernel: a usual figure, not measured here
LARGEST_MODEL = 1 << 37  # weights
# Options of `train` that change neither memory nor operations of a step; the others make another step.
SAME_STEP = (
    "epochs", "max_steps", "lr", "lr_start", "lr_end", "warmup_steps", "warmup_fraction", "beta1", "beta2", "eps",
    "weight_decay", "decayed", "schedule", "grad_clip_norm", "max_logit_scale", "compile", "threads", "log_every_steps",
    "checkpoint_every_steps", "workers", "shuffle", "augment", "augment_scale", "average_alpha",
    "text_groups", "snapshots", "choose", "validate",
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
    same_chip = [card for card in load_cards().values() if card.name.partition("-")[0] in words]
    same_size = [card for card in same_chip if card.name.partition("-")[2] in words]
    return min(same_size or same_chip or [find_card(DEFAULT)], key=lambda card: card.memory_gib)


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


if __name__ == "__main__":
    sys.exit(entry(main))
