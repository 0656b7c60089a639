"""The grid's results as one page and as tables: `python -m compclip.report [--partial]`.

`python -m compclip report published` writes instead which of the papers' numbers have a method in the grids, and
`python -m compclip report validity` whether what methods do on the embedded scenes is what they do to CLIP.

Reads the runs and results of the grid in params.yaml; writes index.html, report.md, report.csv, report.tex, claims.csv,
reference.csv, metrics.json and plots/ into reports/. A missing cell or result is an error that names it, unless
--partial shows what there is.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, entry
from compclip.base.files import out_folder, write_atomic, write_json
from compclip.config import check, grid, read, sections
from compclip.report import (
    among,
    claims,
    claims_table,
    completeness,
    coverage,
    formats,
    official,
    overlaps,
    page,
    plots,
    published,
    reference_table,
    stale,
    tables,
    wise_ft,
    written,
)
from compclip.report.claims import Claim
from compclip.report.collect import collect
from compclip.report.validity import command as validity
from compclip.runs.results import FinishedRun

PUBLISHED, CLAIMS = Path("experiments/published"), Path("experiments/claims.yaml")  # where they are, if there are any
OTHERS = "Two reports of their own: `report published`, `report validity` (--help)."
LEGEND = (
    "Mean ± standard deviation over seeds, in percent; best **bold**, second best <u>underlined</u>; ▲ ▼ better or "
    "worse than the pretrained model where the 95 % interval of the difference excludes 0: over seeds and items "
    "together, of one checkpoint over the items alone. `seeds` counts checkpoints: one under two seeds is one."
)


def main(argv: list[str]) -> int:
    """The `report` stage."""
    if argv[:1] == ["published"]:
        return coverage.main(argv[1:])
    if argv[:1] == ["validity"]:
        return validity.main(argv[1:])
    args = _parser().parse_args(argv)
    _check_given(args)
    params = read.load(args.params)
    check.reference(params)
    benchmarks = list(params.evaluate.benchmarks)
    runs, missing = collect(grid.cells(params), benchmarks, args.root, args.partial)
    missing += stale.check(params, runs, args.partial)
    folder = args.published or PUBLISHED
    printed = published.read(folder)
    stated = _claims(args.claims or CLAIMS, params, runs, printed)
    lines, without = wise_ft.collect(grid.line_cells(params), args.root, args.partial)
    made = page.build(
        runs,
        benchmarks,
        params.report.columns,
        [*missing, *without],
        printed,
        usual(params),
        stated,
        lines,
        overlaps.read(args.root, [run.cell.data for run in runs]),
        among.read(folder / among.FOLDER),
        params.report.reference,
        official.read(folder),
    )
    write(made, args.out)
    for line in (line for group in made.main for line in completeness.warnings(group)):
        print(f"warning: {line}", file=sys.stderr)
    print(f"{args.out / 'index.html'}: {len(runs)} runs" + (f", {len(missing)} missing" if missing else ""))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compclip.report", description=__doc__.splitlines()[0], epilog=OTHERS
    )
    parser.add_argument("--partial", action="store_true", help="show the cells there are and name the missing ones")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the file that holds the grid")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/, results/ and wise_ft/")
    parser.add_argument("--out", type=out_folder, default=Path("reports"), help="folder to write")
    parser.add_argument("--published", type=Path, help=f"papers' tables; default: {PUBLISHED}")
    parser.add_argument("--claims", type=Path, help=f"papers' findings; default: {CLAIMS}")
    return parser


def _check_given(args: argparse.Namespace) -> None:
    """The usual files may be absent; one that somebody names is there."""
    if args.published and not args.published.is_dir():
        raise UserError(f"--published {args.published}: no such folder; give one with papers' tables, or leave it out")
    if args.claims and not args.claims.is_file():
        raise UserError(f"--claims {args.claims}: no such file; give one with claims, or leave it out")


def _claims(
    path: Path, params: sections.Params, runs: Sequence[FinishedRun], printed: Sequence[published.Number]
) -> list[Claim]:
    stated = claims.read(path) if path.is_file() else []
    claims.check(stated, known_methods(params, runs, printed), known_columns(runs, printed), str(path))
    return stated


def known_methods(
    params: sections.Params, runs: Sequence[FinishedRun], printed: Sequence[published.Number]
) -> set[str]:
    """The methods that a claim may name: the grid's, those of params.yaml with variants, and the published tables'."""
    variants = {m: (raw or {}).get("variants") or {} for m, raw in params.methods.items()}
    ours = {name for m, found in variants.items() for name in (m, *(f"{m}.{v}" for v in found))}
    return ours | {run.cell.method for run in runs} | {n.method for n in printed if n.method}


def known_columns(runs: Sequence[FinishedRun], printed: Sequence[published.Number]) -> set[str]:
    """The columns that a claim may name: the runs', the summary columns, and the published tables'."""
    benchmarks = dict.fromkeys(name for run in runs for name in run.results)
    ours = {c.name for c in tables.every_column(runs, benchmarks)}
    return ours | {f"{tables.SUMMARY}/{name}" for name in tables.SUMMARIES} | {n.column for n in printed}


def usual(params: sections.Params) -> Callable[[FinishedRun], dict[str, Any]]:
    """A function that gives a run's defaults: the common training settings and its method's own."""

    def defaults(run: FinishedRun) -> dict[str, Any]:
        method = plugins.find(plugins.METHODS, run.cell.method.partition(".")[0])
        return {"train": _plain(params.train), "method": _plain(method.Config())}

    return defaults


def _plain(settings: Any) -> dict[str, Any]:
    values = dataclasses.asdict(settings)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}  # as YAML has them


def write(made: page.Page, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = made.main
    drawn = {"tradeoff.csv": plots.tradeoff_csv(groups), **line_files(made), **loss_files(made)}
    files = {
        "report.md": formats.markdown(groups, made.missing, LEGEND, made.notes)
        + reference_table.markdown(made.contrasts, made.reference)
        + claims_table.markdown(made.findings),
        "report.csv": formats.table_csv((*groups, *made.parts, *made.rest)),
        "report.tex": formats.latex(groups, made.notes)
        + reference_table.latex(made.contrasts, made.reference)
        + claims_table.latex(made.findings),
        "claims.csv": claims_table.table_csv(made.findings),
        "reference.csv": reference_table.table_csv(made.contrasts, made.reference),
        **{f"plots/{name}": text for name, text in drawn.items()},
        "index.html": page.render(made),
    }
    written.begin(out / "plots", drawn)
    write_json(out / "metrics.json", formats.metrics(groups))
    for name, text in files.items():
        write_atomic(out / name, text.encode("utf-8", "replace"))


def loss_files(made: page.Page) -> dict[str, str]:
    """loss/<method>-<backbone>-<data>.csv for every row that was trained."""
    rows = [(f"{row.method}-{g.backbone}-{g.data}", plots.loss_csv(row.runs)) for g in made.main for row in g.rows]
    return {f"loss/{name}.csv": text for name, text in rows if text}


def line_files(made: page.Page) -> dict[str, str]:
    """wise_ft.csv, where there are lines."""
    text = wise_ft.table_csv(made.main, made.lines)
    return {"wise_ft.csv": text} if text else {}


if __name__ == "__main__":
    sys.exit(entry(main))
