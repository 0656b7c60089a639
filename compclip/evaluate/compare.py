"""Compare our numbers of a model with somebody else's, metric by metric.

compclip evaluate compare RESULTS THEIRS                a folder of results against a file: JSON or CSV
compclip evaluate compare RESULTS THEIRS --within 0.1   exit code 1 where a number is off by more percentage points

RESULTS is what `compclip evaluate --out` wrote, or `evaluate vqascore --out`, or results/<method>/<cell>. THEIRS names
metrics as ours or as CLIP_benchmark does (docs/benchmarks.md).
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import files
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, shorten
from compclip.base.files import read_text
from compclip.base.messages import format_count, format_share
from compclip.report.statistics import ItemDifferences, compute_interval, item_units
from compclip.runs import result_files
from compclip.runs import run_folder as folders
from compclip.runs.item_outcomes import Items

# --- 95 % intervals of a result's own numbers over its items, pictures drawn with all that is asked about them


def compute_intervals(document: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Compute each metric's interval from a result document; a metric whose items are of one picture has none.

    It ends where the metric does: at 0 and 1, for cosines at -1 and 1.
    """
    intervals = {}
    for metric, value in document["metrics"].items():
        interval, _ = compute_interval([value], _collect_items(document, metric))
        if interval:
            least = -1.0 if metric in document["scores"] else 0.0
            intervals[metric] = (max(least, interval.low), min(1.0, interval.high))
    return intervals


def _collect_items(document: Mapping[str, Any], metric: str) -> list[ItemDifferences]:
    """Return a metric's items, or those of the metrics that it is the mean of; empty where one of them has too few."""
    if metric in document.get("means", {}):
        members = [_collect_items(document, member) for member in document["means"][metric]]
        all_items = chain.from_iterable(members) if all(members) else ()
        return [replace(items, weight=items.weight / len(members)) for items in all_items]
    outcomes = document["items"][metric]
    items = Items(tuple(outcomes["ids"]), np.array(outcomes["outcomes"], float))
    units = tuple(document.get("units", {}).get(metric, ())) or item_units(items)
    if len(set(units)) < 2:
        return []
    return [ItemDifferences(document["benchmark"], 1.0, items.ids, items.values[None], units)]


# --- files of theirs: JSON by our names or CLIP_benchmark's, or CSV with the columns `metric` and `value`

# What CLIP_benchmark calls data sets and metrics.
DATA_SETS = {
    "mscoco_captions": "retrieval_coco",
    "flickr30k": "retrieval_flickr30k",
    "flickr8k": "retrieval_flickr8k",
    "imagenet1k": "zeroshot_imagenet",
    "winoground": "winoground",
}
METRICS = {"acc1": "top_1", "acc5": "top_5", "mean_per_class_recall": "mean_per_class"}
_RECALL = re.compile(r"(image|text)_retrieval_recall@(\d+)")
SHOWN = 5  # names of numbers that have no partner


@dataclass(frozen=True)
class MetricDifference:
    """One metric: shares, or cosines where it is a `score`; `n` items, None for a mean of metrics."""

    metric: str
    ours: float
    theirs: float
    n: int | None
    score: bool = False

    @property
    def difference(self) -> float:
        """Ours minus theirs, in percentage points; of a cosine in hundredths."""
        return 100 * (self.ours - self.theirs)

    @property
    def items(self) -> float | None:
        """How many items' outcomes the difference is."""
        return None if self.n is None or self.score else self.n * (self.ours - self.theirs)


@dataclass(frozen=True)
class NumberComparison:
    """The metrics that both have, and the names that only one of them has."""

    lines: tuple[MetricDifference, ...]
    only_theirs: tuple[str, ...]
    only_ours: tuple[str, ...]
    percent: bool

    def beyond(self, points: float) -> list[MetricDifference]:
        """Return the lines that differ by more than so many percentage points."""
        return [line for line in self.lines if not abs(line.difference) <= points + 1e-9]


@dataclass(frozen=True)
class OurNumber:
    """A number of ours, as `MetricDifference` has it."""

    value: float
    n: int | None
    score: bool


def numbers_of_folder(folder: Path) -> dict[str, OurNumber]:
    """Read the numbers of a folder of result files. Raises UserError for a damaged one, and where there is none."""
    numbers = {}
    for path in folders.result_paths(folder):
        result = result_files.read_result(path)
        for metric, value in result.metrics.items():
            if value is not None:
                n = len(result.items[metric].ids) if metric in result.items else None
                numbers[f"{result.benchmark}/{metric}"] = OurNumber(value, n, metric in result.scores)
    if not numbers:
        raise UserError(f"{folder}: holds no results; give a folder of <benchmark>.json files")
    return numbers


def compare_numbers(ours: Mapping[str, OurNumber], theirs: Mapping[str, float]) -> NumberComparison:
    """Compare our numbers with theirs; a cosine may stand as it is among percentages.

    Raises UserError where no name is in both.
    """
    percent = any(abs(number) > 1 for number in theirs.values())
    lines = []
    for name, number in ours.items():
        if name in theirs:
            is_share = not percent or (number.score and abs(theirs[name]) <= 1)
            share = theirs[name] if is_share else theirs[name] / 100
            lines.append(MetricDifference(name, number.value, share, number.n, number.score))
    if not lines:
        matches = get_close_matches(next(iter(theirs)), list(ours), n=1, cutoff=0.4)
        hint = f"did you mean {matches[0]!r}?" if matches else f"ours are {_first_names(list(ours))}"
        raise UserError(f"no name of theirs is one of ours: {_first_names(list(theirs))}; {hint}")
    only_theirs = tuple(n for n in theirs if n not in ours)
    only_ours = tuple(n for n in ours if n not in theirs)
    return NumberComparison(tuple(lines), only_theirs, only_ours, percent)


def read_numbers(path: str | Path) -> dict[str, float]:
    """Read numbers by "benchmark/metric". Raises UserError for another form, and for what is no number."""
    text = read_text(path)
    is_csv = str(path).endswith(".csv")
    named = _csv_values(text, path) if is_csv else _json_values(files.parse_json(text, str(path)), path)
    numbers = {name: _finite_number(name, value, path) for name, value in named}
    if not numbers:
        raise UserError(f"{path}: holds no numbers; give JSON as {{'benchmark/metric': number}}, or a CSV")
    return numbers


def _csv_values(text: str, path: str | Path) -> Iterator[tuple[str, Any]]:
    rows = csv.DictReader(text.splitlines())
    for name in ("metric", "value"):
        if name not in (rows.fieldnames or ()):
            raise UserError(f"{path}: no column {name!r}; the first line must name metric and value")
    for row in rows:
        yield row["metric"] or "", row["value"]


def _json_values(content: Any, path: str | Path) -> Iterator[tuple[str, Any]]:
    """Yield names and values of our result files, of CLIP_benchmark's, or by our names."""
    if isinstance(content, list):
        for document in content:
            yield from _json_values(document, path)
    elif not isinstance(content, dict):
        raise UserError(f"{path}: expected an object of numbers by name, not {type(content).__name__}")
    elif isinstance(content.get("metrics"), dict):
        benchmark = content.get("benchmark")
        data_set = content.get("dataset")
        if not isinstance(benchmark, str) and not isinstance(data_set, str):
            raise UserError(f"{path}: has metrics, but neither 'benchmark' nor 'dataset' says of what; add one")
        for metric, value in content["metrics"].items():
            if isinstance(benchmark, str):
                yield f"{benchmark}/{metric}", value
            elif value is not None:
                yield _our_name(str(data_set), metric), value
    else:
        for name, value in content.items():
            if isinstance(value, dict):
                for metric, number in value.items():
                    yield f"{name}/{metric}", number
            else:
                yield name, value


def _our_name(data_set: str, metric: str) -> str:
    """Return our name of a metric of CLIP_benchmark's; what has none keeps its own."""
    data, _, subset = data_set.removeprefix("wds/").partition("/")
    if data == "sugar_crepe":
        return f"sugarcrepe/{subset}"
    match = _RECALL.fullmatch(metric)
    if match:
        metric = f"{'t2i' if match[1] == 'image' else 'i2t'}_recall_at_{match[2]}"
    name = DATA_SETS.get(data) or "_".join(filter(None, ("zeroshot", data, subset)))
    return f"{name}/{METRICS.get(metric, metric)}"


def _finite_number(name: str, value: Any, path: str | Path) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(
            f"{path}: {shorten(one_line(name), 100)}: {str(value)[:50]!a} is no finite number; repair or remove it"
        )
    return number


def comparison_table(comparison: NumberComparison) -> str:
    """Return a line a metric: ours, theirs, their difference in points and in items; then what has no partner."""
    unit = "percent" if comparison.percent else "shares"
    lines = [
        f"{'metric, in percent':<48} {'ours':>8} {'theirs':>8} {'points':>8} {'items':>8}   (theirs read as {unit})"
    ]
    for line in comparison.lines:
        items = "" if line.items is None else f"{line.items:+.1f}"
        ours = format_share(line.ours, line.score)
        theirs = format_share(line.theirs, line.score)
        lines.append(f"{line.metric:<48} {ours:>8} {theirs:>8} {line.difference:>+8.2f} {items:>8}")
    worst = max(comparison.lines, key=lambda line: abs(line.difference))
    compared = format_count(len(comparison.lines), "metric")
    lines.append(f"{compared} compared; largest difference {worst.difference:+.2f} points, {worst.metric}")
    for whose, names in (("theirs", comparison.only_theirs), ("ours", comparison.only_ours)):
        if names:
            lines.append(f"{len(names)} only {whose}: {_first_names(names)}")
    return "\n".join(lines)


def _first_names(names: Sequence[str]) -> str:
    listing = ", ".join(shorten(one_line(name), 80) for name in names[:SHOWN])
    return listing + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


# --- the command


def main(argv: Sequence[str]) -> int:
    """Print a table of our numbers against theirs; return 1 where one is further off than allowed."""
    args = _parser().parse_args(argv)

    ours = numbers_of_folder(Path(args.results))
    comparison = compare_numbers(ours, read_numbers(args.theirs))
    print(comparison_table(comparison))
    far = [] if args.within is None else comparison.beyond(args.within)
    for line in far:
        print(f"error: {line.metric}: {line.difference:+.2f} points, more than {args.within:g}", file=sys.stderr)
    return 1 if far else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip evaluate compare",
        description=__doc__,
        example="results/fsc_clip/scenes-scenes-0 paper.json --within 0.1",
    )
    parser.add_argument("results", metavar="RESULTS", help="a folder of result files")
    parser.add_argument("theirs", metavar="THEIRS", help="numbers of somebody's: JSON or CSV")
    parser.add_argument("--within", type=float, metavar="POINTS", help="allowed percentage points; default: any")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
