"""Results item by item, with their texts, as tables of MLflow's: `items/<benchmark>.json` of a run.

Outcomes stand in the result files; texts are read from the benchmark's own files, and only if these are the ones that
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
from compclip.report.joined_items import is_repetition
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

    def make(self, results_folder: Path) -> list[ItemTable]:
        """Make a table for each benchmark of a run that keeps items and whose texts are at hand."""
        tables = []
        for path in run_folder.result_paths(results_folder) if self.rows else ():
            result = result_files.read_result(path)
            texts = self._load_texts(result.benchmark)
            if texts and texts.fingerprint == result.fingerprint and result.items:
                tables.append(make_table(result, texts, self.rows))
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


def make_table(result: Result, texts: RecordTexts, most: int) -> ItemTable:
    """Make a table of a row for each outcome; every run shows the same items, drawn evenly from all of them.

    MLflow's UI groups runs by the first column and compares the second, unless it is told otherwise.
    Metrics of a part of the items, and those that pool the items of others, repeat outcomes and are left out.
    """
    metrics = {name: items for name, items in result.items.items() if not is_repetition(name, items, result)}
    every = [(metric, index) for metric, items in metrics.items() for index in range(len(items.ids))]
    drawn = [every[i * len(every) // most] for i in range(most)] if len(every) > most else every
    rows = [_make_row(metric, metrics[metric], index, texts) for metric, index in drawn]
    width = max((len(row) for row in rows), default=3)
    columns = ["item", "outcome", "metric", *(f"text {i + 1}" for i in range(width - 3))]
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


def _make_row(metric: str, items: Items, index: int, texts: RecordTexts) -> list[str | float]:
    item = items.ids[index]
    return [f"{metric}/{item}", float(items.values[index]), metric, *texts.find(metric, item)[:MOST_TEXTS]]
