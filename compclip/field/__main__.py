"""Every published number of the field in one place: `compclip field`.

compclip field                          write the page and CSV files into field/
compclip field --picture docs/field.png write the trade-off picture alone, as .png, .svg or .pdf

Reads experiments/published and experiments/claims.yaml. Rows of the current grid are among the published ones where
their benchmark files have the official fingerprints, as in the report; without runs there are none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import check_output_folder
from compclip.config import grid, read
from compclip.field import field_page
from compclip.field.published_field import OURS
from compclip.report import published_numbers, run_details, tables
from compclip.report.__main__ import CLAIMS, PUBLISHED
from compclip.report.published_numbers import PublishedNumber
from compclip.runs import run_folder

FORMS = (".png", ".svg", ".pdf")


def main(argv: Sequence[str]) -> int:
    """Write the page of the field, or its picture."""
    args = _parser().parse_args(argv)
    if args.picture and args.picture.suffix.lower() not in FORMS:
        raise UserError(f"--picture {args.picture}: must end in {', '.join(FORMS)}")
    own_numbers = [] if args.picture else read_own_numbers(Path(args.params), Path(), PUBLISHED)
    results = field_page.load_field(PUBLISHED, CLAIMS, own_numbers)
    if args.picture:
        field_page.write_picture(results, args.picture)
        print(args.picture)
        return 0
    field_page.write_field(results, args.out)
    print(f"{args.out / 'index.html'}: {results.headline}")
    return 0


def read_own_numbers(params_file: Path, root: Path, published: Path) -> list[PublishedNumber]:
    """Read the grid's means, in percent, of benchmarks whose files are the official ones; none without results."""
    if not params_file.is_file() or not (root / run_folder.RESULTS).is_dir():
        return []
    params = read.load_params(params_file)
    benchmarks = list(params.evaluate.benchmarks)
    runs = []
    for cell in grid.list_cells(params):
        run, _ = run_details.read_cell(run_folder.Published(root, cell), benchmarks)
        runs += [run] if run else []
    official = published_numbers.read_official_benchmarks(published)
    numbers = []
    for group in tables.build_tables(runs, tables.list_columns(runs, benchmarks)):
        comparable = published_numbers.keep_comparable_columns(group, official)
        for row, column, statistic in comparable.numbers():
            value = f"{statistic.mean * column.scale:.2f}"
            head = (OURS, "grid", row.method, row.method, group.backbone, group.data)
            numbers.append(PublishedNumber(*head, column.benchmark, column.metric, value))
    return numbers


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="compclip field", description=__doc__.splitlines()[0], example="--picture docs/field.png"
    )
    parser.add_argument("--picture", type=Path, help="write the trade-off picture alone to this .png, .svg or .pdf")
    parser.add_argument("--out", type=check_output_folder, default=Path("field"), help="folder to write")
    parser.add_grid()
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
