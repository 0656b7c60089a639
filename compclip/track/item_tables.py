"""Results item by item, with their texts, as tables of MLflow's: `items/<benchmark>.json` of a run.

Outcomes are in the result files; texts are those that the stage `benchmark` wrote, if they are of the files that were
scored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from compclip.prepare import benchmark_records
from compclip.prepare.benchmark_records import BenchmarkRecords
from compclip.report.row_items import is_repetition
from compclip.runs import result_files, run_folder
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import Result

FOLDER = "items"
MOST_TEXTS = 5  # columns of texts; a record of more texts shows its first ones
TABLES_TAG = "mlflow.loggedArtifacts"  # where the UI looks for tables
COUNTS_TAG = "items"


class ArtifactTable(NamedTuple):
    """A table as JSON, its path among the run's artifacts, and how many of how many items it shows."""

    path: str
    text: str
    coverage: str = ""


@dataclass
class ItemTables:
    """Makes the tables of runs below `root`, at most `rows` items of a benchmark, whose records are read once."""

    root: Path
    rows: int
    _records: dict[str, BenchmarkRecords | None] = field(default_factory=dict, init=False)

    def make(self, results_folder: Path, pretrained_folder: Path | None = None) -> list[ArtifactTable]:
        """Make a table for each benchmark of a run that keeps items and whose texts are at hand.

        With the results of the pretrained model each item says whether the run wins or loses it.
        """
        tables = []
        for path in run_folder.result_paths(results_folder) if self.rows else ():
            result = result_files.read_result(path)
            records = self._read_records(result.benchmark)
            if records and result.fingerprint in records.fingerprints and result.items:
                base = _read_base(pretrained_folder / path.name, result) if pretrained_folder else None
                tables.append(make_table(result, records, self.rows, base))
        return tables

    def _read_records(self, name: str) -> BenchmarkRecords | None:
        if name not in self._records:
            path = benchmark_records.records_file(self.root, name)
            self._records[name] = benchmark_records.read_records(path) if path.is_file() else None
        return self._records[name]


def make_table(result: Result, records: BenchmarkRecords, most: int, base: Result | None = None) -> ArtifactTable:
    """Make a table of a row for each outcome; every run shows the same items, drawn evenly from all of them.

    With `base`, the pretrained model's result, the column `to pretrained` says won, lost or same; "" where it lacks the
    item, or neither more nor less is better.

    MLflow's UI groups runs by the first column and compares the second, unless it is told otherwise.
    Metrics of a part of the items, and those that pool the items of others, repeat outcomes and are left out.
    """
    metrics = {name: items for name, items in result.items.items() if not is_repetition(name, items, result)}
    every = [(metric, index) for metric, items in metrics.items() for index in range(len(items.ids))]
    drawn = [every[i * len(every) // most] for i in range(most)] if len(every) > most else every
    rows = [_make_row(metric, metrics[metric], index, records) for metric, index in drawn]
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
    coverage = f"{result.benchmark}: {len(rows):,} of {len(every):,} outcomes"
    return ArtifactTable(f"{FOLDER}/{result.benchmark}.json", format_table(columns, data), coverage)


def format_table(columns: Sequence[str], data: Sequence[Sequence[Any]]) -> str:
    """Format a table as `mlflow.log_table` writes it."""
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False)


def format_tags(tables: Sequence[ArtifactTable]) -> Iterator[tuple[str, str]]:
    """Yield the tags by which the UI finds the tables, and that say how many items were left out."""
    if tables:
        yield TABLES_TAG, json.dumps([{"path": table.path, "type": "table"} for table in tables])
    coverage = [table.coverage for table in tables if table.coverage]
    if coverage:
        yield COUNTS_TAG, "; ".join(coverage)


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


def _make_row(metric: str, items: Items, index: int, records: BenchmarkRecords) -> list[str | float]:
    item = items.ids[index]
    return [f"{metric}/{item}", float(items.values[index]), metric, *records.item_texts(metric, item)[:MOST_TEXTS]]
