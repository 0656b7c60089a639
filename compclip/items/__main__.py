"""Show where two rows of the grid differ on a benchmark: slices of its items, and items that one wins or loses.

compclip items A B --benchmark NAME              A and B are methods of the grid; slices and ten items each way
compclip items A --benchmark NAME                against the pretrained model
compclip items A B --benchmark NAME --json       print JSON

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
from compclip.base.errors import UserError, entry, unknown

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.items.item_differences import JoinedItems
    from compclip.runs.result_files import Result

WIDTH = 110  # characters of a text in the table


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Compare two rows on a benchmark and print what differs."""
    args = _parser().parse_args(argv)
    from compclip.config import read
    from compclip.items import item_differences
    from compclip.report import slice_search
    from compclip.report.statistics import named_generator

    params = read.load_params(args.params)
    items, slices = _join(params, args, root)
    rng = named_generator("slices", f"{args.ours} {args.theirs} {args.benchmark}")
    search = slice_search.search_slices(items.difference_I, items.unit_I, slices, rng)
    won, lost = item_differences.list_decided_items(items, args.items)
    document = {
        "benchmark": args.benchmark, "ours": args.ours, "theirs": args.theirs, "items": len(items.keys),
        "means": item_differences.describe_sides(items), "tried": search.tried, "left_out": search.left_out,
        "slices": [asdict(s) for s in search.slices],
        "won": [_describe_item(items, i) for i in won], "lost": [_describe_item(items, i) for i in lost],
    }  # fmt: skip
    print(json.dumps(document, indent=1, ensure_ascii=False) if args.json else format_table(document))
    return 0


def _join(params: Params, args: argparse.Namespace, root: Path) -> tuple[JoinedItems, dict[str, list[int]]]:
    """Join both rows' results, and name slices of the items."""
    from compclip.evaluate import benchmark_module
    from compclip.items import item_differences
    from compclip.track.item_tables import RecordTexts

    if args.benchmark not in params.benchmarks:
        raise unknown("benchmark", args.benchmark, params.benchmarks, "--benchmark")
    ours, theirs = (_read_results(params, method, args, root) for method in (args.ours, args.theirs))
    loaded = benchmark_module.load_benchmark(args.benchmark, params.benchmarks[args.benchmark])
    benchmark = loaded.counted(params.evaluate.ties)
    texts = RecordTexts(benchmark)
    if texts.fingerprint != ours[0].fingerprint:
        raise UserError(f"{args.benchmark}: its files are not those that were scored; run `dvc repro evaluate`")
    items = item_differences.join_rows(ours, theirs, texts, args.metric)
    by_record = item_differences.list_record_slices(items, benchmark_module.list_stored_records(benchmark))
    return items, item_differences.list_slices(items) | by_record


def _read_results(params: Params, method: str, args: argparse.Namespace, root: Path) -> list[Result]:
    """Read a row's results, one for each seed that has them. Raises UserError where there is none."""
    from compclip.base.safe_names import SafeName
    from compclip.config.grid import list_cells
    from compclip.runs import result_files, run_folder

    cells = [c for c in list_cells(params) if c.method == method]
    if not cells:
        raise unknown("method", method, params.grid.methods, "grid.methods")
    backbone = args.backbone or cells[0].backbone
    data = args.data or cells[0].data
    folders = [run_folder.Published(root, c).results for c in cells if (c.backbone, c.data) == (backbone, data)]
    paths = [run_folder.result_path(folder, SafeName(args.benchmark, "benchmark")) for folder in folders]
    results = [result_files.read_result(path) for path in paths if path.is_file()]
    if not results:
        raise UserError(
            f"{method}: no result of {args.benchmark} on {backbone} and {data}; run `dvc repro evaluate@{method}`"
        )
    return results


def _describe_item(items: JoinedItems, index: int) -> dict[str, Any]:
    metric, item = items.keys[index]
    ours = float(items.ours_I[index])
    theirs = float(items.theirs_I[index])
    return {"item": f"{metric}/{item}", "ours": ours, "theirs": theirs, "texts": list(items.texts[index])}


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
            lines.append(f"  {item['item']}  {100 * item['ours']:.0f} against {100 * item['theirs']:.0f}")
            lines += [f"    {text[:WIDTH]}" for text in item["texts"]]
    return "\n".join(lines)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip items", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ours", metavar="A", help="a method of the grid, name or name.variant")
    parser.add_argument("theirs", metavar="B", nargs="?", default="pretrained", help="another one")
    parser.add_argument("--benchmark", required=True, help="a benchmark of params.yaml that both were scored on")
    parser.add_argument("--metric", nargs="+", default=[], help="metrics, such as replace_rel; default: all with items")
    parser.add_argument("--items", type=int, default=10, help="how many won and lost items are shown")
    parser.add_argument("--backbone", help="default: the grid's first")
    parser.add_argument("--data", help="default: the grid's first")
    parser.add_grid()
    parser.add_json()
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
