"""Whether the scenes predict the papers: `compclip validity [--params GRID] [--held-out]`.

Reads experiments/validity.yaml, the papers' tables and the results of a scenes grid; writes validity.html,
validity.json and pairs.csv. Held-out rows and columns enter no number. --held-out shows them: do it once, when
the world is chosen. validity.json records each such look, and with which results.

`compclip validity profile` prints instead how the scenes' pretrained model stands beside CLIP.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import check_output_folder, read_json, write_atomic, write_json
from compclip.base.number_text import format_count
from compclip.config import grid, read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.report import published_coverage, published_numbers, run_collection, tables
from compclip.report.run_collection import MissingResult, collect_runs
from compclip.report.tables import Column
from compclip.runs.result_files import FinishedRun
from compclip.validity import (
    counterparts,
    difference_pairs,
    pair_summary,
    trivial_predictors,
    validity_page,
    world_profile,
)
from compclip.validity.counterparts import CHOOSING, HELD_OUT, Counterparts
from compclip.validity.difference_pairs import DifferencePair
from compclip.validity.validity_page import ValidityResults

FILE = Path("experiments/validity.yaml")
WARNING = (
    "the held-out half is looked at now. Do so once, when the world is chosen: what is changed afterwards is "
    "no longer judged by it"
)


def main(argv: Sequence[str]) -> int:
    """Write page, JSON and CSV. Raises UserError for names that do not fit, and for what is missing."""
    if argv[:1] == ["profile"]:
        return world_profile.main(argv[1:])
    args = _parser().parse_args(argv)
    params, declared = read.load_params(args.params), counterparts.read_counterparts(args.pairs)
    numbers = declared.select_numbers(published_numbers.read_numbers(args.published))
    methods = published_coverage.read_grid_methods(params=args.params) | set(params.grid.methods)
    counterparts.check_counterparts(declared, methods, numbers, str(args.pairs))
    _check_grid(params, declared, args.params)
    if args.held_out:
        messages.warn(WARNING)
    runs, missing = _read_runs(params, declared, args)
    columns = _collect_columns(params, runs, declared)
    pairs = difference_pairs.make_pairs(declared, numbers, runs, columns, args.held_out)
    _check_units(pairs, numbers, args.pairs)
    if not pairs:
        raise UserError(f"{args.params}: no row and column of the grid has a published counterpart that may be shown")
    not_paired = difference_pairs.find_unpaired(declared, pairs, params.grid.methods, columns, numbers, args.held_out)
    our_numbers = sorted((p.row, p.column.name, p.seeds, p.ours) for p in pairs)
    results_hash = hashlib.sha256(json.dumps(our_numbers).encode()).hexdigest()[:16]
    looks = _list_looks(args.out, results_hash, args.held_out)
    sets = _split_sets(pairs, declared, args.held_out)
    results = ValidityResults(
        str(args.params), declared, tuple(pairs),
        tuple(pair_summary.summarize_pairs(name, pairs_of_set) for name, pairs_of_set in sets.items()),
        {name: trivial_predictors.summarize_predictors(sets[name]) for name in (CHOOSING, HELD_OUT) if name in sets},
        not_paired, tuple(missing), args.held_out, tuple(looks), tuple(n for n in numbers if n.activation),
    )  # fmt: skip
    write_json(args.out / "validity.json", validity_page.make_json(results, results_hash))
    write_atomic(args.out / "pairs.csv", validity_page.format_pairs_csv(results.pairs).encode("utf-8", "replace"))
    write_atomic(args.out / "validity.html", validity_page.render_validity(results).encode("utf-8", "replace"))
    first = results.headline(results.summaries[0])
    headline = f"{validity_page.format_estimate(first)} {validity_page.format_ends(first)}".strip()
    if results.wrong_activations:
        messages.note(f"left out: {validity_page.describe_wrong_activations(results.wrong_activations)}")
    print(f"{args.out / 'validity.html'}: {format_count(len(results.pairs), 'pair')}; {CHOOSING}: {headline}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="compclip validity", description=__doc__.splitlines()[0])
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the file that holds the grid")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/ and results/")
    parser.add_argument("--out", type=check_output_folder, default=Path("validity"), help="folder to write")
    parser.add_argument("--published", type=Path, default=Path("experiments/published"), help="papers' tables")
    parser.add_argument("--pairs", type=Path, default=FILE, help="what stands for what; default: %(default)s")
    parser.add_argument("--partial", action="store_true", help="use the cells there are and name the missing ones")
    parser.add_argument("--held-out", action="store_true", help="show what was kept aside too: once, at the end")
    return parser


def _check_grid(params: Params, declared: Counterparts, path: Path) -> None:
    """Raise UserError unless the grid has one world, `pretrained`, and no two rows for the same published rows."""
    worlds = [(b, d) for b in params.grid.backbones for d in params.grid.data]
    if len(worlds) != 1:
        raise UserError(
            f"{path}: grid: has {format_count(len(worlds), 'pair')} of backbone and data; give a grid of one world"
        )
    if PRETRAINED not in params.grid.methods:
        raise UserError(f"{path}: grid.methods: has no {PRETRAINED}, from which differences are; add it")
    for row, like in declared.aliases.items():
        if {row, like} <= set(params.grid.methods):
            raise UserError(f"{path}: grid.methods: {row} and {like} stand for the same published rows; keep one")


def _read_runs(
    params: Params, declared: Counterparts, args: argparse.Namespace
) -> tuple[list[FinishedRun], list[MissingResult]]:  # fmt: skip
    """Read the runs that may be shown; files of held-out runs are not opened."""
    methods = {row for row, half in declared.row_halves.items() if args.held_out or half == CHOOSING} | {PRETRAINED}
    cells = [cell for cell in grid.list_cells(params) if cell.method in methods]
    runs, missing = collect_runs(cells, params.evaluate.benchmarks, args.root, args.partial)
    missing += run_collection.find_stale_runs(params, runs, args.partial)
    tables.check_same_files(runs)
    return runs, missing


def _collect_columns(params: Params, runs: Sequence[FinishedRun], declared: Counterparts) -> dict[str, Column]:
    """Return our columns by name: all metrics, the report's summary columns, and means that the file names."""
    benchmarks = list(params.evaluate.benchmarks)
    listed_columns = {c.name: c for c in tables.list_columns(runs, benchmarks)}
    report_columns = tables.select_columns(runs, params.report.columns, benchmarks)
    columns = listed_columns | {c.name: c for c in tables.summary_columns(report_columns, runs)}
    means = {c.name: tables.resolve_column(c.name, listed_columns) for c in declared.columns if c.name not in columns}
    return columns | {name: column for name, column in means.items() if column}


def _check_units(
    pairs: Sequence[DifferencePair], numbers: Sequence[published_numbers.PublishedNumber], path: Path
) -> None:
    score = {n.column: n.unit == "score" for n in numbers}
    for pair in pairs:
        for name in pair.column.published:
            if score[name] != pair.unit.score:
                raise UserError(f"{path}: {pair.column.name}: {name}: one is a score, the other a share; part them")


def _split_sets(
    pairs: Sequence[DifferencePair], declared: Counterparts, held_out: bool
) -> dict[str, list[DifferencePair]]:
    """Return the choosing half; with `held_out` also the other one, whole and by what is new in it."""
    sets = {CHOOSING: [p for p in pairs if p.is_choosing]}
    if held_out:
        aside = [p for p in pairs if not p.is_choosing]
        row = {id(p): declared.row_halves[p.row] == CHOOSING for p in aside}
        column = {id(p): declared.family_halves[p.column.family] == CHOOSING for p in aside}
        sets |= {
            HELD_OUT: aside,
            "held out: new columns, known methods": [p for p in aside if row[id(p)]],
            "held out: new methods, known columns": [p for p in aside if column[id(p)]],
            "held out: new methods and columns": [p for p in aside if not row[id(p)] and not column[id(p)]],
        }
    return {name: pairs_of_set for name, pairs_of_set in sets.items() if pairs_of_set or name == CHOOSING}


def _list_looks(out: Path, results_hash: str, held_out: bool) -> list[str]:
    """Return the hashes of the results with which the held-out half was shown, this time included."""
    file = out / "validity.json"
    looks = read_json(file)["held_out"]["looks"] if file.is_file() else []
    if held_out and (earlier := [look for look in looks if look != results_hash]):
        messages.warn(f"{file}: it was looked at before with other results ({', '.join(earlier)})")
    return list(dict.fromkeys([*looks, results_hash])) if held_out else looks


if __name__ == "__main__":
    sys.exit(entry(main))
