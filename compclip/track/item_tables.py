"""Results item by item, with their texts, as tables of MLflow's: `items/<benchmark>.json` of a run.

Outcomes are in the result files; texts are read from the benchmark's own files, and only if these are the ones that
were scored. Result files hold outcomes and no cosines, so that a table has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compclip.base.errors import UserError
from compclip.config.sections import BenchmarkSection
from compclip.prepare.benchmark_records import RecordFinder
from compclip.report.slice_tables import is_repetition
from compclip.runs import result_files, run_folder
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import Result

if TYPE_CHECKING:
    from compclip.evaluate.benchmark import Benchmark

FOLDER = "items"
MOST_TEXTS = 5  # columns of texts; a record of more texts shows its first ones
TABLES_TAG = "mlflow.loggedArtifacts"  # where the UI looks for tables
COUNTS_TAG = "items"


class ItemTable(NamedTuple):
    """One benchmark's table as JSON, how many items it shows, and how many there are."""

    benchmark: str
    text: str
    row_count: int
    total: int

    @property
    def path(self) -> str:
        """Its name among the run's artifacts."""
        return f"{FOLDER}/{self.benchmark}.json"


@dataclass
class ItemTables:
    """Makes the tables of runs, at most `rows` items of a benchmark; each benchmark is read once for all runs."""

    sections: Mapping[str, BenchmarkSection]
    ties: str
    rows: int
    _texts: dict[str, RecordTexts | None] = field(default_factory=dict, init=False)

    def make(self, results_folder: Path, pretrained_folder: Path | None = None) -> list[ItemTable]:
        """Make a table for each benchmark of a run that keeps items and whose texts are at hand.

        With the results of the pretrained model each item says whether the run wins or loses it.
        """
        tables = []
        for path in run_folder.result_paths(results_folder) if self.rows else ():
            result = result_files.read_result(path)
            texts = self._load_texts(result.benchmark)
            if texts and texts.fingerprint == result.fingerprint and result.items:
                base = _read_base(pretrained_folder / path.name, result) if pretrained_folder else None
                tables.append(make_table(result, texts, self.rows, base))
        return tables

    def _load_texts(self, name: str) -> RecordTexts | None:
        if name not in self._texts:
            self._texts[name] = _load_texts(name, self.sections.get(name), self.ties)
        return self._texts[name]


class RecordTexts:
    """The records of a benchmark, found by the metric and the id of an item."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.fingerprint = benchmark.fingerprint()
        self._finder = RecordFinder(benchmark.records)

    def find(self, metric: str, item: str) -> tuple[str, ...]:
        """Return the texts of an item; of a caption that one alone; () where no record is the item's beyond doubt."""
        record = self._finder.find(metric, item)
        if record is None or not self._finder.is_caption(item):
            return record.texts if record else ()
        return record.texts[int(item.rpartition("#")[2]) :][:1]


def make_table(result: Result, texts: RecordTexts, most: int, base: Result | None = None) -> ItemTable:
    """Make a table of a row for each outcome; every run shows the same items, drawn evenly from all of them.

    With `base`, the pretrained model's result, the column `to pretrained` says won, lost or same; "" where it lacks the
    item, or neither more nor less is better.

    MLflow's UI groups runs by the first column and compares the second, unless it is told otherwise.
    Metrics of a part of the items, and those that pool the items of others, repeat outcomes and are left out.
    """
    metrics = {name: items for name, items in result.items.items() if not is_repetition(name, items, result)}
    every = [(metric, index) for metric, items in metrics.items() for index in range(len(items.ids))]
    drawn = [every[i * len(every) // most] for i in range(most)] if len(every) > most else every
    rows = [_make_row(metric, metrics[metric], index, texts) for metric, index in drawn]
    head = ["item", "outcome", "metric"]
    if base:
        head.append("to pretrained")
        outcomes = {metric: _outcomes_by_id(base.items.get(metric)) for metric in metrics}
        for row, (metric, index) in zip(rows, drawn, strict=True):
            item = metrics[metric].ids[index]
            row.insert(3, _compare(float(row[1]), outcomes[metric].get(item), metric, result))
    width = max((len(row) for row in rows), default=len(head))
    columns = [*head, *(f"text {i + 1}" for i in range(width - len(head)))]
    data = [[*row, *[""] * (width - len(row))] for row in rows]
    text = json.dumps({"columns": columns, "data": data}, ensure_ascii=False)
    return ItemTable(result.benchmark, text, len(rows), len(every))


def format_tags(tables: Sequence[ItemTable]) -> Iterator[tuple[str, str]]:
    """Yield the tags by which the UI finds the tables, and that say how many items were left out."""
    if tables:
        yield TABLES_TAG, json.dumps([{"path": table.path, "type": "table"} for table in tables])
        yield COUNTS_TAG, "; ".join(f"{t.benchmark}: {t.row_count:,} of {t.total:,} outcomes" for t in tables)


def _load_texts(name: str, section: BenchmarkSection | None, ties: str) -> RecordTexts | None:
    """Read a benchmark's records; None where params.yaml or this machine lacks its files."""
    from compclip.evaluate import benchmark_module  # heavy, and needed by runs that are logged anew alone

    if section is None:
        return None
    try:
        return RecordTexts(benchmark_module.load_benchmark(name, section).counted(ties))
    except UserError:
        return None


def _read_base(path: Path, result: Result) -> Result | None:
    """Read the pretrained model's result of the same benchmark files; None where there is none."""
    base = result_files.read_result(path) if path.is_file() else None
    return base if base and base.fingerprint == result.fingerprint else None


def _outcomes_by_id(items: Items | None) -> dict[str, float]:
    return dict(zip(items.ids, items.values.tolist(), strict=True)) if items else {}


def _compare(outcome: float, theirs: float | None, metric: str, result: Result) -> str:
    if theirs is None or metric in result.scores:
        return ""
    gain = theirs - outcome if metric in result.lower else outcome - theirs
    return "won" if gain > 0 else "lost" if gain < 0 else "same"


def _make_row(metric: str, items: Items, index: int, texts: RecordTexts) -> list[str | float]:
    item = items.ids[index]
    return [f"{metric}/{item}", float(items.values[index]), metric, *texts.find(metric, item)[:MOST_TEXTS]]
