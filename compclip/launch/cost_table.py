"""What a grid costs at least on a card, before it runs: `compclip config cost`.

    compclip config cost                            of params.yaml's cells, on an H100
    compclip config cost --card a100-40gb           on another card; a wrong name prints the known ones
    compclip config cost --profile slurm/a100.yaml  with a profile's card and its number of GPUs
    compclip config cost --cell CELL train.batch_size=512

A row for each method, backbone and schedule. All numbers are bounds by the step's own operators, and nothing is
measured: a run takes at least as long. What reading and preparing data takes is not in them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.launch import card_costs, profiles
from compclip.launch.card_costs import LAUNCH_S, Card, CellCost, CostPredictor
from compclip.launch.profiles import Profile
from compclip.train.fitting_batch import ALLOCATOR_SHARE, CONTEXT_GIB, GIB

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
    profile = profiles.load_profile(args.profile) if args.profile else Profile()
    params = read.load_params(args.params, args.overrides, together=not args.cell)
    runs = [grid.resolve(params, args.cell)] if args.cell else list(grid.resolve_all(params))
    failed = False
    for line in describe_costs(runs, profile, args.card, Path(".")):
        failed |= FAILED in line
        print(line, flush=True)
    return 1 if failed else 0


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip config cost", description=__doc__, example="--card h100-80gb")
    parser.add_argument("--card", help=f"a name of compclip/launch/cards.yaml; default: {card_costs.DEFAULT}")
    parser.add_argument("--cell", help="one cell alone")
    parser.add_argument("--profile", help="a file such as slurm/a100.yaml: its card, and its GPUs")
    parser.add_grid("parameters to override")
    return parser.parse_intermixed_args(argv)


def describe_costs(runs: Sequence[Run], profile: Profile, card_name: str | None, root: Path) -> Iterator[str]:
    """Yield the lines of the table, each as soon as its step was simulated; runs that train nothing have none.

    Raises UserError for an unknown card.
    """
    card = card_costs.find_card(card_name) if card_name else card_costs.choose_card(profile.constraint)
    groups = card_costs.group_runs(runs)
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


if __name__ == "__main__":
    sys.exit(entry(main))
