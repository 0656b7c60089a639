"""The options that commands share which score a model on benchmarks, and what they print and write."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError
from compclip.base.files import check_output_folder, write_atomic
from compclip.base.messages import format_share
from compclip.config.columns import expand_groups
from compclip.runs.item_outcomes import CUT_TEXTS, LOST_NAMES, PARTIAL, SMALLER, SPECIAL_TOKENS, is_partial

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.evaluate.benchmark_module import LoadedBenchmarks
    from compclip.evaluate.comparable_numbers import ComparableNumbers

Published: TypeAlias = "Mapping[str, Mapping[str, ComparableNumbers]]"  # by benchmark and metric
TEMPLATE = Path(__file__).with_name("page.html.j2")
NOT_LEFT_OUT = ("records", "scored", "tied", CUT_TEXTS, SPECIAL_TOKENS)  # counts


def add_options(parser: CommandParser) -> None:
    """Add what is scored, where and how, and the parameters that follow as key=value."""
    parser.add_argument(
        "--benchmarks",
        nargs="+",
        default=[],
        metavar="NAME",
        help="names, or groups: comp, zeroshot, retrieval, long; default: the grid's",
    )
    parser.add_json()
    parser.add_grid("parameters to override")
    parser.add_argument("--out", default="", help="folder for result files")
    parser.add_argument("--device", default="", help="as cuda:1; default: all GPUs, else cpu")


def parse(parser: CommandParser, argv: Sequence[str], *lists: str) -> tuple[argparse.Namespace, list[str]]:
    """Parse arguments; key=value among them, also behind an option of several values (`lists`), are parameters."""
    args = parser.parse_intermixed_args(argv)
    overrides = list(args.overrides)
    for name in ("benchmarks", *lists):
        values: list[str] = []
        for value in getattr(args, name):
            (overrides if _is_parameter(value) else values).append(value)
        setattr(args, name, values)
    return args, overrides


def _is_parameter(value: str) -> bool:
    """Return whether an argument is key=value; a path that has an equals sign is there, or begins as a path does."""
    return "=" in value and not (value.startswith(("/", ".")) or Path(value).exists())


def load_params(args: argparse.Namespace, overrides: Sequence[str]) -> Params:
    """Load params.yaml; where benchmarks are named no project is needed."""
    from compclip.config import project_files, read

    path = project_files.find_params(args.params) if args.benchmarks else args.params
    try:
        return read.load_params(path, overrides)
    except UserError as error:  # it names the package's file, which nobody here has named
        raise error if path == Path(args.params) else UserError(str(error).removeprefix(f"{path}: ")) from error


def load_benchmarks(params: Params, args: argparse.Namespace) -> LoadedBenchmarks:
    """Read the benchmarks that the arguments name, or those of `evaluate.benchmarks`."""
    from compclip.evaluate import benchmark_module

    names = expand_groups(args.benchmarks, params.benchmarks) or params.evaluate.benchmarks
    return benchmark_module.load_benchmarks(params.benchmarks, names, params.evaluate.scoring)


def check_output(args: argparse.Namespace) -> Path | None:
    """Return the folder to write; None where none is named. Raises UserError for what is no folder."""
    return check_output_folder(args.out) if args.out else None


def numbers_as_json(documents: Mapping[str, dict], published: Published = MappingProxyType({})) -> dict[str, Any]:
    """Return metrics, their 95 % intervals over pictures, counts, coverage, and what is published, by benchmark."""
    from compclip.evaluate.compare import compute_intervals

    numbers = {}
    for name, d in documents.items():
        printed = {metric: row.plain for metric, row in published.get(name, {}).items()}
        numbers[name] = {"metrics": d["metrics"], "intervals": compute_intervals(d), "counts": d["counts"],
                         "coverage": d["coverage"], "published": printed}  # fmt: skip
    return numbers


def print_documents(
    documents: Mapping[str, dict], as_json: bool, warnings: bool = True, published: Published = MappingProxyType({})
) -> None:
    """Print one model's numbers, beside those that are published, and on stderr what was left out."""
    if warnings:
        print_warnings(documents)
    if as_json:
        print(json.dumps(numbers_as_json(documents, published), indent=1))
    else:
        print(metric_table(documents, published))


def print_several(documents_by_name: Mapping[str, Mapping[str, dict] | UserError], as_json: bool) -> None:
    """Print the numbers of several models, a row each; what one ended in goes to stderr."""
    scored = {}
    for name, documents in documents_by_name.items():
        if isinstance(documents, UserError):
            print(f"error: {name}: {documents}", file=sys.stderr)
        else:
            scored[name] = documents
    for documents in list(scored.values())[:1]:  # all were scored on the same files
        print_warnings(documents)
    if as_json:
        print(json.dumps({name: numbers_as_json(documents) for name, documents in scored.items()}, indent=1))
    else:
        print(table_of_several(scored))


def table_of_several(documents_by_name: Mapping[str, Mapping[str, dict]]) -> str:
    """Return a block a benchmark: its metrics in percent, cosines as they are, and a row a model."""
    width = max(map(len, documents_by_name), default=0)
    first: Mapping[str, dict] = next(iter(documents_by_name.values()), {})
    lines = []
    for benchmark, document in first.items():
        metrics = list(document["metrics"])
        width = max(width, len(benchmark))
        lines.append(f"{benchmark:<{width}}  " + "  ".join(f"{metric:>7}" for metric in metrics))
        for name, documents in documents_by_name.items():
            values = documents[benchmark]["metrics"]
            texts = (f"{format_share(values[m], m in document['scores']):>{max(7, len(m))}}" for m in metrics)
            lines.append(f"{name:<{width}}  " + "  ".join(texts))
    return "\n".join(lines)


def metric_table(documents: Mapping[str, dict], published: Published = MappingProxyType({})) -> str:
    """Return a line a metric: percent, its interval, records that were scored, and what is published of it."""
    rows = list(list_rows(documents, published))
    wide = max((len(row.records) for row in rows), default=0)
    head = f"{'benchmark':<18} {'metric':<28} {'percent':>7}  {'95 % interval':<15} {'records':<{wide}}"
    lines = [f"{head}  {'published, same backbone' if published else ''}".rstrip()]
    for row in rows:
        numbers = f"{row.percent:>7}  {row.interval:<15} {row.records:<{wide}}"
        notes = "  ".join(filter(None, (row.note, row.published)))
        lines.append(f"{row.benchmark:<18} {row.metric:<28} {numbers}  {notes}".rstrip())
    return "\n".join(lines)


class MetricRow(NamedTuple):
    """A line of the table, each part as text; `interval` is over pictures, `note` what is odd about the number."""

    benchmark: str
    metric: str
    percent: str
    interval: str
    records: str
    note: str
    published: str


def list_rows(documents: Mapping[str, dict], published: Published) -> Iterator[MetricRow]:
    """Yield a row for each metric; a mark where few of the records were scored."""
    from compclip.evaluate.compare import compute_intervals

    for name, doc in documents.items():
        intervals = compute_intervals(doc)
        lost = doc["counts"].get(LOST_NAMES)
        for metric, value in doc["metrics"].items():
            is_cosine = metric in doc["scores"]
            ends = (format_share(end, is_cosine) for end in intervals.get(metric, ()))
            scored, records = doc["coverage"].get(metric, (0, 0))
            few = f"{PARTIAL} " if is_partial(scored, records) else ""
            notes = (
                "a cosine, no percent" if is_cosine else "",
                f"{SMALLER} {lost:,} names without a caption" if lost else "",
            )
            items = f"{len(doc['items'][metric]['ids']):,} items" if metric in doc["items"] else "a mean"
            comparable = published.get(name, {}).get(metric)
            yield MetricRow(
                name, metric, format_share(value, is_cosine), f"[{', '.join(ends)}]" if metric in intervals else "",
                f"{few}{scored:,} of {records:,}" if records else items, "  ".join(filter(None, notes)),
                comparable.describe() if comparable else "",
            )  # fmt: skip


def write_page(ref: str, documents: Mapping[str, dict], published: Published, folder: Path) -> None:
    """Write the table as a page, `index.html`, beside the results."""
    from jinja2 import Environment, StrictUndefined

    from compclip.report.escape import hide_in_page

    environment = Environment(autoescape=True, finalize=hide_in_page, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    rows = list(list_rows(documents, published))
    write_atomic(folder / "index.html", template.render(ref=ref, rows=rows, partial=PARTIAL))


def print_warnings(documents: Mapping[str, dict]) -> None:
    """Warn of each benchmark some of whose records or images were left out."""
    for name, doc in documents.items():
        counts = doc["counts"]
        left_out = {k: v for k, v in counts.items() if v and "/" not in k and k not in NOT_LEFT_OUT}
        if left_out or not counts["scored"]:
            reasons = ", ".join(f"{v} {k}" for k, v in left_out.items()) or "no records"
            messages.warn(f"{name}: {counts['scored']} of {counts['records']} records scored ({reasons})")
        cut = counts.get(CUT_TEXTS)
        if cut:
            messages.warn(f"{name}: {cut} texts are longer than the model reads and were cut; equal ones tie")
        marked = counts.get(SPECIAL_TOKENS)
        if marked:
            messages.warn(f"{name}: {marked} texts spell a mark of a tokenizer, at which a model may stop reading")
