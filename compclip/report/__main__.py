"""The grid's results as one page and as tables: `python -m compclip.report [--partial]`.

`python -m compclip report published` writes instead which of the papers' numbers have a method in the grids.

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

from compclip.base.errors import UserError, entry
from compclip.base.files import out_folder, write_atomic, write_json
from compclip.config import check, grid, read, sections
from compclip.interface.method import load_method
from compclip.report import (
    claims,
    claims_table,
    official_benchmarks,
    published_coverage,
    published_models,
    published_numbers,
    report_figures,
    report_page,
    run_collection,
    shared_pictures,
    table_formats,
    table_heads,
    tables,
    wise_ft_lines,
    written,
)
from compclip.report.claims import Claim
from compclip.report.run_collection import collect_runs
from compclip.runs.result_files import FinishedRun

PUBLISHED, CLAIMS = Path("experiments/published"), Path("experiments/claims.yaml")  # where they are, if there are any
OTHERS = "A report of its own: `report published`."
LEGEND = (
    "Mean ± standard deviation over seeds, in percent; best **bold**, second best <u>underlined</u>; ▲ ▼ better or "
    "worse than the pretrained model where the 95 % interval of the difference excludes 0: over seeds and items "
    "together, of one checkpoint over the items alone. `seeds` counts checkpoints: one under two seeds is one."
)


def main(argv: list[str]) -> int:
    """The `report` stage."""
    if argv[:1] == ["published"]:
        return published_coverage.main(argv[1:])
    args = _parser().parse_args(argv)
    _check_given(args)
    params = read.load(args.params)
    check.reference(params)
    benchmarks = list(params.evaluate.benchmarks)
    runs, missing = collect_runs(grid.cells(params), benchmarks, args.root, args.partial)
    missing += run_collection.find_stale_runs(params, runs, args.partial)
    folder = args.published or PUBLISHED
    printed = published_numbers.read_numbers(folder)
    stated = _claims(args.claims or CLAIMS, params, runs, printed)
    lines, without = wise_ft_lines.collect_lines(grid.line_cells(params), args.root, args.partial)
    made = report_page.build_page(
        runs,
        benchmarks,
        params.report.columns,
        [*missing, *without],
        printed,
        make_defaults(params),
        stated,
        lines,
        shared_pictures.read_overlaps(args.root, [run.cell.data for run in runs]),
        published_models.read_models(folder / published_models.FOLDER),
        params.report.reference,
        official_benchmarks.read_official_benchmarks(folder),
    )
    write_report(made, args.out)
    for line in (line for group in made.main for line in table_heads.list_warnings(group)):
        print(f"warning: {line}", file=sys.stderr)
    print(f"{args.out / 'index.html'}: {len(runs)} runs" + (f", {len(missing)} missing" if missing else ""))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compclip.report",
        description=__doc__.splitlines()[0],
        epilog="A report of its own: `report published`.",
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
    path: Path,
    params: sections.Params,
    runs: Sequence[FinishedRun],
    printed: Sequence[published_numbers.PublishedNumber],
) -> list[Claim]:
    stated = claims.read_claims(path) if path.is_file() else []
    claims.check_claim_names(
        stated, list_claim_methods(params, runs, printed), list_claim_columns(runs, printed), str(path)
    )
    return stated


def list_claim_methods(
    params: sections.Params, runs: Sequence[FinishedRun], printed: Sequence[published_numbers.PublishedNumber]
) -> set[str]:
    """The methods that a claim may name: the grid's, those of params.yaml with variants, and the published tables'."""
    variants = {m: (raw or {}).get("variants") or {} for m, raw in params.methods.items()}
    ours = {name for m, found in variants.items() for name in (m, *(f"{m}.{v}" for v in found))}
    return ours | {run.cell.method for run in runs} | {n.method for n in printed if n.method}


def list_claim_columns(runs: Sequence[FinishedRun], printed: Sequence[published_numbers.PublishedNumber]) -> set[str]:
    """The columns that a claim may name: the runs', the summary columns, and the published tables'."""
    benchmarks = dict.fromkeys(name for run in runs for name in run.results)
    ours = {c.name for c in tables.list_columns(runs, benchmarks)}
    return ours | {f"{tables.SUMMARY}/{name}" for name in tables.SUMMARIES} | {n.column for n in printed}


def make_defaults(params: sections.Params) -> Callable[[FinishedRun], dict[str, Any]]:
    """A function that gives a run's defaults: the common training settings and its method's own."""

    def defaults(run: FinishedRun) -> dict[str, Any]:
        return {"train": _plain(params.train), "method": _plain(load_method(run.cell.method).Config())}

    return defaults


def _plain(settings: Any) -> dict[str, Any]:
    values = dataclasses.asdict(settings)
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}  # as YAML has them


def write_report(made: report_page.ReportPage, out: Path) -> None:
    """Write all files of the report; each is whole or not there, and the page comes last."""
    groups = made.main
    drawn = {
        "tradeoff.csv": report_figures.format_tradeoff_csv(groups),
        **make_line_files(made),
        **make_loss_files(made),
    }
    files = {
        "report.md": table_formats.format_markdown(groups, made.missing, LEGEND, made.notes)
        + table_formats.format_contrasts_markdown(made.contrasts, made.reference)
        + claims_table.format_markdown(made.findings),
        "report.csv": table_formats.format_results_csv((*groups, *made.parts, *made.rest)),
        "report.tex": table_formats.format_latex(groups, made.notes)
        + table_formats.format_contrasts_latex(made.contrasts, made.reference)
        + claims_table.format_latex(made.findings),
        "claims.csv": claims_table.format_csv(made.findings),
        "reference.csv": table_formats.format_contrasts_csv(made.contrasts, made.reference),
        **{f"plots/{name}": text for name, text in drawn.items()},
        "index.html": report_page.render_page(made),
    }
    written.remove_old_plots(out / "plots", drawn)
    write_json(out / "metrics.json", table_formats.flatten_means(groups))
    for name, text in files.items():
        write_atomic(out / name, text.encode("utf-8", "replace"))


def make_loss_files(made: report_page.ReportPage) -> dict[str, str]:
    """loss/<method>-<backbone>-<data>.csv for every row that was trained."""
    rows = [
        (f"{row.method}-{g.backbone}-{g.data}", report_figures.format_loss_csv(row.runs))
        for g in made.main
        for row in g.rows
    ]
    return {f"loss/{name}.csv": text for name, text in rows if text}


def make_line_files(made: report_page.ReportPage) -> dict[str, str]:
    """wise_ft.csv, where there are lines."""
    text = wise_ft_lines.format_lines_csv(made.main, made.lines)
    return {"wise_ft.csv": text} if text else {}


if __name__ == "__main__":
    sys.exit(entry(main))
