"""Whether the scenes predict the papers: `compclip validity [--params GRID] [--held-out] [--new-rows]`.

Reads experiments/validity.yaml, the papers' tables and the results of a scenes grid; writes validity.html, its table as
validity.md, validity.json and pairs.csv. What is kept aside enters no number: held-out rows and columns, which
--held-out shows, and rows that came after the split, which --new-rows shows. Do each once, when the world is chosen.
validity.json records each such look, and with which results.

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
from compclip.validity import counterparts, difference_pairs, goal_verdict, validity_page, world_profile
from compclip.validity.counterparts import CHOOSING, HELD_OUT, NEW_ROWS, Counterparts
from compclip.validity.difference_pairs import DifferencePair
from compclip.validity.trivial_predictors import measure_ceiling
from compclip.validity.validity_page import Looks, ValidityResults

FILE = Path("experiments/validity.yaml")
WARNING = (
    "the {} are looked at now. Do so once, when the world is chosen: what is changed afterwards is no longer judged by "
    "them"
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
    halves = [CHOOSING, *([HELD_OUT] * args.held_out), *([NEW_ROWS] * args.new_rows)]
    for half in halves[1:]:
        messages.warn(WARNING.format(validity_page.PLURALS[half]))
    runs, missing = _read_runs(params, declared, halves, args)
    columns = _collect_columns(params, runs, declared)
    pairs = difference_pairs.make_pairs(declared, numbers, runs, columns, halves)
    _check_units(pairs, numbers, args.pairs)
    if not pairs:
        raise UserError(f"{args.params}: no row and column of the grid has a published counterpart that may be shown")
    published = difference_pairs.make_published_pairs(declared, numbers, params.grid.methods, columns)
    ceiling = measure_ceiling(published)
    results = ValidityResults(
        str(args.params), declared, tuple(pairs), ceiling,
        tuple(goal_verdict.make_rows(_split_sets(pairs, declared, halves), declared.headline, declared.goal, ceiling)),
        difference_pairs.find_unpaired(declared, pairs, params.grid.methods, columns, numbers, halves),
        tuple(missing), _list_looks(args.out, pairs, halves), tuple(n for n in numbers if n.activation),
    )  # fmt: skip
    _write(args.out, results)
    return 0


def _write(out: Path, results: ValidityResults) -> None:
    """Write the four files, and print a line for each half."""
    write_json(out / "validity.json", validity_page.make_json(results))
    write_atomic(out / "pairs.csv", validity_page.format_pairs_csv(results.pairs).encode("utf-8", "replace"))
    write_atomic(out / "validity.md", validity_page.format_markdown(results).encode("utf-8", "replace"))
    write_atomic(out / "validity.html", validity_page.render_validity(results).encode("utf-8", "replace"))
    if results.wrong_activations:
        messages.note(f"left out: {validity_page.describe_wrong_activations(results.wrong_activations)}")
    print(f"{out / 'validity.html'}: {format_count(len(results.pairs), 'pair')}")
    print("\n".join(validity_page.describe_half(row) for row in results.rows if not row.is_part))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="compclip validity", description=__doc__.splitlines()[0])
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the file that holds the grid")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/ and results/")
    parser.add_argument("--out", type=check_output_folder, default=Path("validity"), help="folder to write")
    parser.add_argument("--published", type=Path, default=Path("experiments/published"), help="papers' tables")
    parser.add_argument("--pairs", type=Path, default=FILE, help="what stands for what; default: %(default)s")
    parser.add_argument("--partial", action="store_true", help="use the cells there are and name the missing ones")
    parser.add_argument("--held-out", action="store_true", help="show the held-out half too: once, at the end")
    parser.add_argument("--new-rows", action="store_true", help="show rows of after the split too: once, at the end")
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
    params: Params, declared: Counterparts, halves: Sequence[str], args: argparse.Namespace
) -> tuple[list[FinishedRun], list[MissingResult]]:  # fmt: skip
    """Read the runs of the halves that are shown; files of others are not opened."""
    methods = {row for row, half in declared.row_halves.items() if half in halves} | {PRETRAINED}
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
    pairs: Sequence[DifferencePair], declared: Counterparts, halves: Sequence[str]
) -> dict[str, list[DifferencePair]]:
    """Return the pairs of each half; of the held-out one also by what is new in it, of new rows by family."""
    of_half = {half: [p for p in pairs if p.half == half] for half in halves}
    sets = {CHOOSING: of_half[CHOOSING]}
    if aside := of_half.get(HELD_OUT):
        row = {id(p): declared.row_halves[p.row] == CHOOSING for p in aside}
        column = {id(p): declared.family_halves[p.column.family] == CHOOSING for p in aside}
        sets |= {
            HELD_OUT: aside,
            "held out: new columns, known methods": [p for p in aside if row[id(p)]],
            "held out: new methods, known columns": [p for p in aside if column[id(p)]],
            "held out: new methods and columns": [p for p in aside if not row[id(p)] and not column[id(p)]],
        }
    if new := of_half.get(NEW_ROWS):
        families = dict.fromkeys(p.row_family for p in new)
        sets |= {NEW_ROWS: new} | {f"new rows: {f}": [p for p in new if p.row_family == f] for f in families}
    return {name: pairs_of_set for name, pairs_of_set in sets.items() if pairs_of_set or name == CHOOSING}


def _list_looks(out: Path, pairs: Sequence[DifferencePair], halves: Sequence[str]) -> dict[str, Looks]:
    """Return with which results each half that is kept aside was shown, this time included."""
    file = out / "validity.json"
    earlier = read_json(file) if file.is_file() else {}
    looks = {}
    for half in (HELD_OUT, NEW_ROWS):
        before = earlier.get(half, {}).get("looks", [])
        if half not in halves:
            looks[half] = Looks(False, tuple(before))
            continue
        results = _hash_results([p for p in pairs if p.half == half])
        if other := [look for look in before if look != results]:
            messages.warn(f"{file}: {half}: it was looked at before with other results ({', '.join(other)})")
        looks[half] = Looks(True, tuple(dict.fromkeys([*before, results])))
    return looks


def _hash_results(pairs: Sequence[DifferencePair]) -> str:
    """Return a hash of our numbers in these pairs."""
    our_numbers = sorted((p.row, p.column.name, p.seeds, p.ours) for p in pairs)
    return hashlib.sha256(json.dumps(our_numbers).encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(entry(main))
