"""Whether the scenes predict the papers: `python -m compclip report validity [--params GRID] [--held-out]`.

Reads experiments/validity.yaml, the papers' tables and the results of a scenes grid; writes validity.html,
validity.json and pairs.csv. Rows and columns that are kept aside are not read into any number. --held-out shows them:
do it once, when the world is chosen. validity.json remembers that it was done, and with which results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import out_folder, read_json, write_atomic, write_json
from compclip.config import grid, read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.report import coverage, published, stale, tables
from compclip.report.collect import Missing, collect
from compclip.report.tables import Column
from compclip.report.validity import analysis, declared, page, unpaired
from compclip.report.validity import pairs as pairs_of
from compclip.report.validity.declared import Declared
from compclip.report.validity.page import Found
from compclip.report.validity.pairs import Pair
from compclip.report.validity.split import CHOOSING, HELD_OUT
from compclip.runs.results import FinishedRun

FILE = Path("experiments/validity.yaml")
WARNING = (
    "warning: the held-out half is looked at now. Do so once, when the world is chosen: what is changed afterwards is "
    "no longer judged by it"
)


def main(argv: Sequence[str]) -> int:
    """Write page, JSON and CSV. Raises UserError for names that do not fit, and for what is missing."""
    args = _parser().parse_args(argv)
    params, numbers, stated = read.load(args.params), published.read(args.published), declared.read(args.pairs)
    declared.check(stated, _methods(params, args.params), numbers, str(args.pairs))
    _check_grid(params, stated, args.params)
    if args.held_out:
        print(WARNING, file=sys.stderr)
    runs, missing = _runs(params, stated, args)
    columns = _columns(params, runs, stated)
    pairs = pairs_of.make(stated, numbers, runs, columns, args.held_out)
    _check_units(pairs, numbers, args.pairs)
    if not pairs:
        raise UserError(f"{args.params}: no row and column of the grid has a published counterpart that may be shown")
    left = unpaired.find(stated, pairs, params.grid.methods, columns, numbers, args.held_out)
    results = _hash(pairs)
    looks = _looks(args.out, results, args.held_out)
    found = Found(
        str(args.params), stated, tuple(pairs), tuple(_summaries(pairs, stated, args.held_out)), left, tuple(missing),
        args.held_out, tuple(looks),
    )  # fmt: skip
    _write(found, results, args.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compclip report validity", description=__doc__.splitlines()[0])
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the file that holds the grid")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/ and results/")
    parser.add_argument("--out", type=out_folder, default=Path("validity"), help="folder to write")
    parser.add_argument("--published", type=Path, default=Path("experiments/published"), help="papers' tables")
    parser.add_argument("--pairs", type=Path, default=FILE, help="what stands for what; default: %(default)s")
    parser.add_argument("--partial", action="store_true", help="use the cells there are and name the missing ones")
    parser.add_argument("--held-out", action="store_true", help="show what was kept aside too: once, at the end")
    return parser


def _methods(params: Params, path: Path) -> set[str]:
    """What a row of the file may be called: a method or variant of any grid."""
    return coverage.known(params=path) | set(params.grid.methods)


def _check_grid(params: Params, stated: Declared, path: Path) -> None:
    """One world with its pretrained model, and no two rows that stand for the same published ones."""
    places = [(b, d) for b in params.grid.backbones for d in params.grid.data]
    if len(places) != 1:
        raise UserError(f"{path}: grid: has {len(places)} pairs of backbone and data; give a grid of one world")
    if PRETRAINED not in params.grid.methods:
        raise UserError(f"{path}: grid.methods: has no {PRETRAINED}, from which differences are; add it")
    for row, like in stated.same.items():
        if {row, like} <= set(params.grid.methods):
            raise UserError(f"{path}: grid.methods: {row} and {like} stand for the same published rows; keep one")


def _runs(
    params: Params, stated: Declared, args: argparse.Namespace
) -> tuple[list[FinishedRun], list[Missing]]:  # fmt: skip
    """The runs that may be looked at; files of the others are not opened."""
    wanted = {row for row, half in stated.row_halves.items() if args.held_out or half == CHOOSING} | {PRETRAINED}
    cells = [cell for cell in grid.cells(params) if cell.method in wanted]
    runs, missing = collect(cells, params.evaluate.benchmarks, args.root, args.partial)
    missing += stale.check(params, runs, args.partial)
    tables.comparable(runs)
    return runs, missing


def _columns(params: Params, runs: Sequence[FinishedRun], stated: Declared) -> dict[str, Column]:
    """Our columns by name: all metrics, the report's summary columns, and means that the file asks for."""
    benchmarks = list(params.evaluate.benchmarks)
    known = {c.name: c for c in tables.every_column(runs, benchmarks)}
    shown = tables.columns(runs, params.report.columns, benchmarks)
    found = known | {c.name: c for c in tables.summary_columns(shown, runs)}
    means = {c.name: tables.resolve(c.name, known) for c in stated.columns if c.name not in found}
    return found | {name: column for name, column in means.items() if column}


def _check_units(pairs: Sequence[Pair], numbers: Sequence[published.Number], path: Path) -> None:
    score = {n.column: n.unit == "score" for n in numbers}
    for pair in pairs:
        for name in pair.column.published:
            if score[name] != pair.unit.score:
                raise UserError(f"{path}: {pair.column.name}: {name}: one is a score, the other a share; part them")


def _summaries(pairs: Sequence[Pair], stated: Declared, held_out: bool) -> list[analysis.Summary]:
    """The choosing half; revealed also what was kept aside, in all and by what is new in it."""
    sets = {CHOOSING: [p for p in pairs if p.chosen]}
    if held_out:
        aside = [p for p in pairs if not p.chosen]
        row = {id(p): stated.row_halves[p.row] == CHOOSING for p in aside}
        column = {id(p): stated.family_halves[p.column.family] == CHOOSING for p in aside}
        sets |= {
            HELD_OUT: aside,
            "held out: new columns, known methods": [p for p in aside if row[id(p)]],
            "held out: new methods, known columns": [p for p in aside if column[id(p)]],
            "held out: new methods and columns": [p for p in aside if not row[id(p)] and not column[id(p)]],
        }
    return [analysis.summary(name, own) for name, own in sets.items() if own or name == CHOOSING]


def _hash(pairs: Sequence[Pair]) -> str:
    """Of our numbers: other runs, another world, another hash."""
    ours = sorted((p.row, p.column.name, p.seeds, p.ours) for p in pairs)
    return hashlib.sha256(json.dumps(ours).encode()).hexdigest()[:16]


def _looks(out: Path, results: str, held_out: bool) -> list[str]:
    """The results with which the held-out half was looked at, this time's included."""
    file = out / "validity.json"
    known = _recorded(read_json(file)) if file.is_file() else []
    if held_out and (others := [look for look in known if look != results]):
        print(f"warning: {file}: it was looked at before with other results ({', '.join(others)})", file=sys.stderr)
    return list(dict.fromkeys([*known, results])) if held_out else known


def _recorded(raw: object) -> list[str]:
    """The record of an earlier file, whatever else is in it."""
    held: object = raw.get("held_out") if isinstance(raw, Mapping) else None
    looks = held.get("looks") if isinstance(held, Mapping) else None
    return [str(look) for look in looks] if isinstance(looks, list) else []


def _write(found: Found, results: str, out: Path) -> None:
    write_json(out / "validity.json", page.facts_json(found, results))
    write_atomic(out / "pairs.csv", page.pairs_csv(found.pairs).encode("utf-8", "replace"))
    write_atomic(out / "validity.html", page.render(found).encode("utf-8", "replace"))
    first = found.headline(found.summaries[0])
    told = f"{page.value(first)} {page.interval(first)}".strip()
    print(f"{out / 'validity.html'}: {len(found.pairs)} pairs; {CHOOSING}: {told}")
