"""The grid's results as one page and as tables: `compclip report [--partial]`.

Reads the runs and results of the grid in params.yaml; writes index.html, report.md, report.csv, report.tex, claims.csv,
reference.csv, blind.csv, tuning.csv, metrics.json and plots/ into reports/. A missing cell or result is an
error that names it, unless --partial shows what there is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from compclip.base import messages, plugins
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import check_output_folder
from compclip.base.messages import format_count
from compclip.config import check, drawn_scenes, grid, read, sections
from compclip.config.cell import Cell
from compclip.config.columns import SUMMARIES, SUMMARY
from compclip.config.validation import list_fields, load_section
from compclip.interface.method import load_method
from compclip.prepare import record_writer
from compclip.report import (
    blind_comparison,
    claims,
    published_numbers,
    report_page,
    run_details,
    table_heads,
    tables,
    trajectories,
    tuned_rows,
)
from compclip.report.escape import join_counts
from compclip.report.run_details import MissingResult, collect_runs
from compclip.runs import picture_splits
from compclip.runs.item_outcomes import COMPOSITION
from compclip.runs.result_files import FinishedRun

# where they are, if there are any
PUBLISHED = Path("experiments/published")
CLAIMS = Path("experiments/claims.yaml")


def main(argv: list[str]) -> int:
    """Run the stage `report`."""
    args = _parser().parse_args(argv)
    if args.items < 0:
        raise UserError(f"--items {args.items}: must be 0 or more; 0 shows no items")
    root = Path()
    params = read.load_params(args.params)
    check.check_reference(params)
    benchmarks = list(params.evaluate.benchmarks)
    whole_runs, missing = collect_runs(grid.list_cells(params), benchmarks, root, args.partial)
    missing += run_details.find_stale_runs(params, whole_runs, args.partial)
    split = picture_splits.make_split(params, params.report.split)
    runs = run_details.select_split(whole_runs, split)
    data = [run.cell.data for run in runs]
    blind = blind_comparison.read_blind_runs(root, data, benchmarks, split)
    printed = published_numbers.read_numbers(PUBLISHED)
    stated = claims.read_claims(CLAIMS) if CLAIMS.is_file() else []
    claim_methods = list_claim_methods(params, runs, printed)
    claims.check_claim_names(stated, claim_methods, list_claim_columns(runs, printed), str(CLAIMS))
    lines, without = trajectories.collect_lines(grid.list_line_cells(params), root, args.partial)
    benchmarks = [name for name in benchmarks if name not in split.authors.values()]
    records = {}
    for name in benchmarks:
        path = record_writer.records_file(root, name)
        if path.is_file():
            records[name] = record_writer.read_records(path)
    curves, incomplete = trajectories.collect_curves(whole_runs, benchmarks, split, root, args.partial)
    results = report_page.GridResults(
        runs,
        benchmarks,
        [*missing, *without, *incomplete],
        whole_runs,
        blind,
        lines=lines if split.name == sections.WHOLE else [],  # of whole benchmarks, without items
        curves=curves,
        overlaps=table_heads.read_overlaps(root, data),
        records=records,
        tuned=tuned_rows.find_tuned_rows(runs, tuned_rows.read_studies(root), benchmarks, split.name),
        tuning=tuned_rows.read_tuned_methods(params, root),
        kindred=find_kindred_benchmarks(runs),
        remarks=find_remarks(runs),
        root=root,
    )
    literature = report_page.Literature(
        numbers=printed, official=published_numbers.read_official_benchmarks(PUBLISHED), claims=stated
    )
    settings = report_page.PageSettings(
        columns=params.report.columns,
        reference=params.report.reference,
        correction=params.report.correction,
        split=split,
        items=args.items,
        notice=drawn_scenes.describe_drawings(params),
    )
    page = report_page.build_page(results, literature, settings)
    report_page.write_report(page, args.out)
    for group in page.tables.main:
        for line in table_heads.list_warnings(group):
            messages.warn(line)
    print(f"{args.out / 'index.html'}: {_count_cells(grid.list_cells(params), runs, missing)}")
    return 0


def _count_cells(cells: Sequence[Cell], runs: Sequence[FinishedRun], missing: Sequence[MissingResult]) -> str:
    """Say how many of the grid's cells are shown whole, in part and not at all, which are all of them."""
    lacking = {m.cell for m in missing}
    reported = {run.cell.name for run in runs}
    absent = {cell.name for cell in cells} - reported
    counts = {"complete": len(reported - lacking), "in part": len(reported & lacking), "absent": len(absent)}
    return f"{format_count(len(cells), 'cell')}: {join_counts(counts)}"


def _parser() -> CommandParser:
    parser = CommandParser(prog="compclip report", description=__doc__.splitlines()[0], example="--partial")
    parser.add_argument("--partial", action="store_true", help="show the cells there are and name the missing ones")
    parser.add_grid()
    parser.add_argument("--out", type=check_output_folder, default=Path("reports"), help="folder to write")
    items_help = "how many won and lost items of each method the page shows with their pictures; 0: none"
    parser.add_argument("--items", type=int, default=report_page.ITEMS, help=items_help)
    return parser


def find_kindred_benchmarks(runs: Sequence[FinishedRun]) -> dict[str, set[str]]:
    """Find by method the composition benchmarks of its own paper, or that are made as its negatives are."""
    kindred: dict[str, set[str]] = {}
    for run in runs:
        method = run.cell.method
        families = list_families(plugins.METHODS, method.partition(".")[0]) | list_rules(run)
        for name, result in run.results.items():
            is_composition = result.kind == COMPOSITION
            if is_composition and families & list_families(plugins.BENCHMARKS, result.module):
                kindred.setdefault(method, set()).add(name)
    return kindred


@cache
def list_families(kind: str, name: str) -> frozenset[str]:
    """List the families of negatives of a method or benchmark: its own name, and those that its module names."""
    return frozenset({name, *getattr(plugins.load_plugin(kind, name), "NEGATIVE_FAMILIES", ())})


def list_rules(run: FinishedRun) -> set[str]:
    """List the rules that made texts for a run's training, as `swap.negclip`."""
    kind = load_method(run.cell.method).Config
    options = set(list_fields(kind))  # an older run may have others
    values = {name: value for name, value in (run.config.get("method") or {}).items() if name in options}
    views = grid.first_views(run.cell.method, load_section(kind, values, run.cell.name))
    return {f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}" for rule in views.rules}


def find_remarks(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Find what the modules of composition benchmarks say of them wherever their numbers are compared."""
    remarks = {}
    for run in runs:
        for name, result in run.results.items():
            if result.kind == COMPOSITION:
                remarks[name] = getattr(plugins.load_plugin(plugins.BENCHMARKS, result.module), "REMARK", "")
    return remarks


def list_claim_methods(
    params: sections.Params, runs: Sequence[FinishedRun], printed: Sequence[published_numbers.PublishedNumber]
) -> set[str]:
    """List the methods that a claim may name: those of the grid, of params.yaml and of the published tables."""
    methods = {run.cell.method for run in runs} | {n.method for n in printed}
    for method, declared in params.methods.items():
        methods.add(method)
        for variant in (declared or {}).get("variants") or ():
            methods.add(f"{method}.{variant}")
    return methods - {""}


def list_claim_columns(runs: Sequence[FinishedRun], printed: Sequence[published_numbers.PublishedNumber]) -> set[str]:
    """List the columns that a claim may name: the runs', the summary columns, and the published tables'."""
    measured = {c.name for c in tables.list_columns(runs, tables.benchmark_kinds(runs))}
    return measured | {f"{SUMMARY}/{name}" for name in SUMMARIES} | {n.column for n in printed}


if __name__ == "__main__":
    sys.exit(entry(main))
