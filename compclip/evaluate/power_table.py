"""Which difference of two methods each column of a grid decides, before anything is trained: `compclip config power`.

    compclip config power                           by assumptions
    compclip config power --assume discordance=0.3  by other ones

A difference as large as the printed one has a 95 % interval that excludes 0 in about 8 of 10 repeats. Items and their
pictures are those of the benchmarks' files; no model is needed. Assumed are `discordance`, the share of items on which
two models disagree; `correlation` of such disagreements on one picture; `seed_std` of a method's mean over seeds, in
points. The report prints the same by what finished runs vary by.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.messages import format_count
from compclip.config import grid, read
from compclip.config.sections import Params
from compclip.evaluate import benchmark_module
from compclip.report import decisions, statistics, tables
from compclip.report.statistics import LEVEL, ItemDifferences, Spread, Variance, limit_prior
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun, Result, make_items
from compclip.runs.run_folder import Trained

POINTS = 100.0


@dataclass(frozen=True)
class Assumptions:
    """What differences vary by: shares of 1, and a method's deviation over seeds."""

    discordance: float = 0.2
    correlation: float = 0.1
    seed_std: float = 0.005

    def describe(self) -> str:
        """Describe them in a line."""
        return (
            f"Assumed, not measured: two models disagree on {self.discordance:.0%} of items, disagreements on one "
            f"picture correlate by {self.correlation:g}, a method's seeds differ by {POINTS * self.seed_std:g} points"
        )


def parse_assumptions(texts: Sequence[str]) -> Assumptions:
    """Return the assumptions with other values, `name=value` each; deviations are in points."""
    values = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in Assumptions.__dataclass_fields__:
            raise unknown("assumption", name, Assumptions.__dataclass_fields__, "--assume")
        number = float(value) if value.replace(".", "", 1).isdigit() else math.nan
        values[name] = number / POINTS if name.endswith("_std") else number
        if not 0 <= values[name] <= 1:
            raise UserError(f"--assume {text}: must be from 0 to 1, or to 100 points, as {name}=0.5")
    return Assumptions(**values)


@dataclass(frozen=True)
class ColumnPower:
    """A column, its items and pictures, and the least difference by number of seeds, in the column's own unit."""

    column: Column
    items: int
    units: int
    least: dict[int, float]


def plan_run(params: Params) -> FinishedRun:
    """Make a run that has all items of the grid's benchmarks, by made-up vectors.

    Raises UserError for missing files.
    """
    cell = grid.list_cells(params)[0]
    results = {name: _plan_result(name, params) for name in params.evaluate.benchmarks}
    return FinishedRun(Trained(Path()), Path(), cell, {}, [], {}, results)


def _plan_result(name: str, params: Params) -> Result:
    benchmark = benchmark_module.load_benchmark(name, params.benchmarks[name]).counted(params.evaluate.ties)
    outcomes = benchmark_module.score_made_vectors(benchmark)
    pictures = benchmark.unit_pictures
    items = {}
    for metric, of_metric in outcomes.items.items():
        items[metric] = make_items(of_metric.ids, of_metric.values, benchmark.kind, of_metric.units, pictures)  # type: ignore[arg-type]
    declared: dict[str, Any] = benchmark.declared(outcomes.metrics)
    return Result(
        name, name, declared["kind"], outcomes.metrics, frozenset(declared["lower"]), frozenset(declared["scores"]),
        items=items, means=outcomes.means, headline=tuple(declared["headline"]),
    )  # fmt: skip


def assume_spread(differences: Sequence[ItemDifferences], seeds: int, assumed: Assumptions, rows: int = 2) -> Spread:
    """Return the spread of the difference of two of `rows` trained methods, whose seeds vary alike, by assumption.

    Of one seed it is that of two models.

    With w an item's weight, the variance over pictures is discordance x ((1 - correlation) sum w^2 + correlation x sum
    over pictures (sum w)^2).
    """
    by_unit = []
    for group in statistics.group_by_source(differences):
        weight_I = np.concatenate([np.full(len(d.ids), d.weight / len(d.ids)) for d in group])
        units = chain.from_iterable(d.units for d in group)
        unit_I = np.unique(list(map(str, units)), return_inverse=True)[1].reshape(-1)
        weight_U = np.bincount(unit_I, weight_I)
        independent = float(weight_I @ weight_I)
        together = float(weight_U @ weight_U)
        share = (1 - assumed.correlation) * independent + assumed.correlation * together
        by_unit.append(Variance(assumed.discordance * share, max(len(weight_U) - 1, 1)))
    if seeds == 1:
        return Spread(seeds, None, tuple(by_unit))
    freedom = seeds - 1 + limit_prior(rows, seeds - 1)
    return Spread(seeds, Variance(2 * assumed.seed_std**2 / seeds, freedom), tuple(by_unit))


def compute_power(params: Params, seeds: Sequence[int], assumed: Assumptions) -> list[ColumnPower]:
    """Compute each column's least differences; cosines, of which neither more nor less is better, have none."""
    run = plan_run(params)
    selected = tables.select_columns([run], params.report.columns, list(params.evaluate.benchmarks))
    columns = [c for c in (*tables.summary_columns(selected, [run]), *selected) if not c.score]
    rows = max(len(params.grid.methods) - 1, 1)
    level = LEVEL / (rows * len(columns) if params.report.correction in decisions.NAMES else 1)
    powers = []
    for column in columns:
        differences = tables.collect_item_differences(column, [(run, run)])
        if differences:
            units: set[tuple[str, str | int]] = set()
            items = 0
            for d in differences:
                units.update((d.benchmark if isinstance(unit, str) else "", unit) for unit in d.units)
                items += len(d.ids)
            least = {}
            for n in seeds:
                least[n] = float(decisions.least_difference(assume_spread(differences, n, assumed, rows), level))
            powers.append(ColumnPower(column, items, len(units), least))
    return powers


def format_table(powers: Sequence[ColumnPower], seeds: Sequence[int]) -> list[str]:
    """Format a line for each column; differences in points."""
    width = max(len("column"), *(len(power.column.name) for power in powers))
    heads = " ".join(f"{format_count(n, 'seed'):>8}" for n in seeds)
    lines = [f"{'column':<{width}} {'items':>8} {'pictures':>8} {heads}"]
    for power in powers:
        values = " ".join(f"{power.column.scale * power.least[n]:>8.1f}" for n in seeds)
        lines.append(f"{power.column.name:<{width}} {power.items:>8,} {power.units:>8,} {values}")
    return lines


def main(argv: list[str]) -> int:
    """Print each column's least differences."""
    args = _parse_arguments(argv)
    params = read.load_params(args.params, args.overrides, together=True)
    assumed = parse_assumptions(args.assume)
    seeds = args.seeds or sorted({len(params.grid.seeds), 3, 5, 10})
    powers = compute_power(params, seeds, assumed)
    if not powers:
        raise UserError(f"{args.params}: report.columns: no column keeps items; name one that is a share of items")
    if args.json:
        print(json.dumps({p.column.name: {"items": p.items, "pictures": p.units, "least": p.least} for p in powers}))
        return 0
    print(*format_table(powers, seeds), sep="\n")
    print("The least difference of two methods, in points, that is decided in about 8 of 10 repeats.")
    print(f"{assumed.describe()}.")
    if 1 in seeds:
        messages.note("of one seed the difference is that of two models, and nothing of other trainings")
    return 0


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip config power", description=__doc__, example="--seeds 3 5 10")
    parser.add_grid("parameters to override")
    parser.add_argument("--seeds", type=int, nargs="+", help="numbers of seeds; default: the grid's, and 3, 5, 10")
    parser.add_argument(
        "--assume", action="append", default=[], metavar="NAME=VALUE", help="another value of an assumption"
    )
    parser.add_json("print JSON, in the metrics' own unit")
    args = parser.parse_intermixed_args(argv)
    if any(number < 1 for number in args.seeds or ()):
        parser.error("--seeds: must not be less than 1")
    return args


if __name__ == "__main__":
    sys.exit(entry(main))
