"""Which columns are of the benchmarks that published numbers are of: `experiments/published/benchmarks.yaml`.

A benchmark's name says little: the scenes have a `sugarcrepe` of their own. Its fingerprint is of its annotation files
and of the records read from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from compclip.base import yaml_text
from compclip.config.validation import load_section
from compclip.report import table_heads
from compclip.report.tables import Column, ResultTable

FILE = "benchmarks.yaml"
OTHER_FILES = "other files than the official ones"
UNKNOWN_FILES = "cannot be compared: the official files' fingerprint is not known"
OTHER_MEAN = "a mean over other benchmarks than the published one"
PARTIAL = "less than nine tenths of the records were scored"


@dataclass(frozen=True)
class OfficialBenchmarks:
    """The fingerprints of published benchmarks, of each release, and the benchmarks that published means are over."""

    fingerprints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_official_benchmarks(folder: Path) -> OfficialBenchmarks:
    """Read the file of a folder of published tables, if there is one. Raises UserError for another form."""
    path = folder / FILE
    if not path.is_file():
        return OfficialBenchmarks()
    raw = yaml_text.to_plain(
        yaml_text.read_yaml(path, "must map fingerprints and means to lists of texts by name"), str(path)
    )
    return load_section(OfficialBenchmarks, raw, str(path))


def keep_comparable_columns(group: ResultTable, official: OfficialBenchmarks) -> ResultTable:
    """Return the table with only those columns that compare with published numbers."""
    indices = [i for i, column in enumerate(group.columns) if not find_obstacle(column, group, official)]
    rows = tuple(replace(row, statistics=tuple(row.statistics[i] for i in indices)) for row in group.rows)
    return replace(group, columns=tuple(group.columns[i] for i in indices), rows=rows)


def find_obstacle(column: Column, group: ResultTable, official: OfficialBenchmarks) -> str:
    """Find why a column does not compare with published numbers of its name; empty where it does."""
    benchmarks = table_heads.column_benchmarks(column)
    if benchmarks != [column.benchmark] and set(benchmarks) != set(official.means.get(column.name, ())):
        return OTHER_MEAN
    runs = table_heads.list_runs(group)
    for name in benchmarks:
        if name not in official.fingerprints:
            return UNKNOWN_FILES
        fingerprints = {run.results[name].fingerprint for run in runs if name in run.results}
        if not fingerprints <= set(official.fingerprints[name]):
            return OTHER_FILES
    coverage = table_heads.column_coverage(column, runs)
    return PARTIAL if coverage and coverage.is_partial else ""


def list_obstacles(group: ResultTable, names: Collection[str], official: OfficialBenchmarks) -> dict[str, list[str]]:
    """List by reason the benchmarks, or the columns that are means, that published numbers do not compare with."""
    columns_by_reason: dict[str, dict[str, None]] = {}
    for column in group.columns:
        if column.name in names and (reason := find_obstacle(column, group, official)):
            is_mean = table_heads.column_benchmarks(column) != [column.benchmark]
            columns_by_reason.setdefault(reason, {})[column.name if is_mean else column.benchmark] = None
    return {reason: list(of_reason) for reason, of_reason in columns_by_reason.items()}
