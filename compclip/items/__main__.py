"""Show where two rows of the grid differ on a benchmark: slices of its items, and items that one wins or loses.

compclip items A B --benchmark NAME  two methods of the grid
compclip items A --benchmark NAME    a method and the pretrained model

Slices are words of the first text, what the nearest other text changes in it and where, lengths, metrics, sizes of
pictures, and the benchmark's groups. One is shown where its difference departs from that of all items: p is adjusted
for every slice that was tried, so that in 95 of 100 benchmarks without any such slice none is shown. Items of one
picture are drawn together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, unknown

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.report.row_items import RowItems
    from compclip.report.tables import MethodRow

SIDES = ("ours", "theirs")
WIDTH = 110  # characters of a text in the table


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Compare two rows on a benchmark and print what differs."""
    args = _parser().parse_args(argv)
    from compclip.config import read
    from compclip.report import row_items
    from compclip.report.statistics import named_generator

    items = _join(read.load_params(args.params), args, root)
    difference_I = items.difference(args.ours, args.theirs)
    rng = named_generator("slices", f"{args.ours} {args.theirs} {args.benchmark}")
    search = row_items.search_slices(difference_I, items.unit_I, items.slices(), rng)
    sides = {}
    for name, is_won in (("won", True), ("lost", False)):
        order = items.order_decided(args.ours, args.theirs, is_won, args.items)
        sides[name] = [_describe_item(items, index, args) for index in order]
    means = {side: float(items.outcome_I[getattr(args, side)].mean()) for side in SIDES}
    document = {
        "benchmark": args.benchmark, "ours": args.ours, "theirs": args.theirs, "items": len(items.ids),
        "means": means | {"difference": float(difference_I.mean())}, "tried": search.tried,
        "left_out": search.left_out, "slices": [asdict(s) for s in search.slices], **sides,
    }  # fmt: skip
    print(json.dumps(document, indent=1) if args.json else format_table(document))
    return 0


def _join(params: Params, args: argparse.Namespace, root: Path) -> RowItems:
    """Join both rows' results with the records that the stage `benchmark` wrote."""
    from compclip.prepare import record_writer
    from compclip.report import row_items

    if args.benchmark not in params.benchmarks:
        raise unknown("benchmark", args.benchmark, params.benchmarks, "--benchmark")
    rows = [_read_row(params, args.ours, args, root), _read_row(params, args.theirs, args, root)]
    metrics = rows[0].runs[0].results[args.benchmark].items
    for metric in args.metric:
        if metric not in metrics:
            raise unknown("metric", metric, metrics, f"--metric: {args.benchmark}")
    records = record_writer.read_records(record_writer.records_file(root, args.benchmark))
    items = row_items.join_items(args.benchmark, rows, records, args.metric)
    if items is None:
        raise UserError(
            f"{args.benchmark}: the rows share no item, or its files are not those that were scored; "
            "run `compclip repro evaluate`"
        )
    return items


def _read_row(params: Params, method: str, args: argparse.Namespace, root: Path) -> MethodRow:
    """Read a row's results, of each seed that has them. Raises UserError where there is none."""
    from compclip.config.grid import list_cells
    from compclip.report import run_details
    from compclip.report.tables import MethodRow
    from compclip.runs.run_folder import Published

    cells = [c for c in list_cells(params) if c.method == method]
    if not cells:
        raise unknown("method", method, params.grid.methods, "grid.methods")
    backbone = args.backbone or cells[0].backbone
    data = args.data or cells[0].data
    runs = []
    for cell in cells:
        if (cell.backbone, cell.data) == (backbone, data):
            run, _ = run_details.read_cell(Published(root, cell), [args.benchmark])
            runs += [run] if run else []
    if not runs:
        raise UserError(
            f"{method}: no result of {args.benchmark} on {backbone} and {data}; run `compclip repro evaluate@{method}`"
        )
    return MethodRow(method, tuple(runs), {})


def _describe_item(items: RowItems, index: int, args: argparse.Namespace) -> dict[str, Any]:
    described: dict[str, Any] = {"item": items.name(index), "texts": list(items.texts(index)), "retrieved": {}}
    for side in SIDES:
        method = getattr(args, side)
        described[side] = float(items.outcome_I[method][index])
        captions = items.retrieved(index, method, args.retrieved)
        if captions:
            described["retrieved"][method] = [caption._asdict() for caption in captions]
    return described


def format_table(document: dict[str, Any]) -> str:
    """Format what differs for a terminal: means, slices, items; numbers in percent."""
    means = document["means"]
    ours = document["ours"]
    theirs = document["theirs"]
    lines = [
        f"{document['benchmark']}, {document['items']:,} items: {ours} {100 * means['ours']:.1f}, "
        f"{theirs} {100 * means['theirs']:.1f}, difference {100 * means['difference']:+.1f}",
        "",
        f"slices that depart from it, of {document['tried']:,} tried"
        + (f" ({document['left_out']:,} smaller ones were not)" if document["left_out"] else "")
        + (":" if document["slices"] else ": none"),
    ]
    if document["slices"]:
        lines.append(f"  {'difference':>10}  {'elsewhere':>9}  {'items':>6}  {'pictures':>8}  {'p':>6}  slice")
    for s in document["slices"]:
        lines.append(
            f"  {100 * s['difference']:>+10.1f}  {100 * s['elsewhere']:>+9.1f}  {s['items']:>6}  {s['units']:>8}  "
            f"{s['p']:>6.4f}  {s['name']}"
        )
    for title, name in ((f"{ours} wins", "won"), (f"{ours} loses", "lost")):
        lines += ["", f"{title}:"] if document[name] else []
        for item in document[name]:
            lines.append(f"  {one_line(item['item'])}  {100 * item['ours']:.0f} against {100 * item['theirs']:.0f}")
            lines += [f"    {one_line(text)[:WIDTH]}" for text in item["texts"]]
            for method, captions in item["retrieved"].items():
                lines.append(f"    {method} retrieves:")
                for c in captions:
                    lines.append(f"      {'✓' if c['is_right'] else '✗'} {c['score']:.3f} {c['text'][:WIDTH]}")
    return "\n".join(lines)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip items", description=__doc__, example="fsc_clip negclip --benchmark sugarcrepe"
    )
    parser.add_argument("ours", metavar="A", help="a method of the grid, name or name.variant")
    parser.add_argument("theirs", metavar="B", nargs="?", default="pretrained", help="another one")
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml that both were scored on")
    parser.add_argument("--metric", nargs="+", default=[], help="metrics, such as replace_rel; default: all with items")
    parser.add_argument("--items", type=int, default=10, help="how many won and lost items are shown")
    captions_help = "also show the first K captions of each row; at most five"
    parser.add_argument("--retrieved", type=int, default=0, metavar="K", help=captions_help)
    parser.add_argument("--backbone", help="default: the grid's first")
    parser.add_argument("--data", help="default: the grid's first")
    parser.add_grid()
    parser.add_json()
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
