"""Which columns are of the benchmarks that published numbers are of: `experiments/published/benchmarks.yaml`.

A benchmark's name says little: the scenes have a `sugarcrepe` of their own. Its fingerprint is of its annotation files
and of the records read from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.report import completeness
from compclip.report.tables import Column, Group

FILE = "benchmarks.yaml"
SECTIONS = ("fingerprints", "means")
OTHER_FILES = "other files than the official ones"
UNKNOWN_FILES = "cannot be compared: the official files' fingerprint is not known"
OTHER_MEAN = "a mean over other benchmarks than the published one"
PARTIAL = "less than nine tenths of the records were scored"


@dataclass(frozen=True)
class Official:
    """The fingerprints of published benchmarks, of each release, and the benchmarks that published means are over."""

    fingerprints: Mapping[str, Collection[str]] = field(default_factory=dict)
    means: Mapping[str, Collection[str]] = field(default_factory=dict)


def read(folder: Path) -> Official:
    """Read the file of a folder of published tables, if there is one. Raises UserError for another form."""
    path = folder / FILE
    if not path.is_file():
        return Official()
    form = f"must map {' and '.join(SECTIONS)} to lists of texts by name"
    raw = yaml_text.plain(yaml_text.read(path, form), str(path))
    if not isinstance(raw, dict) or set(raw) - set(SECTIONS):
        raise UserError(f"{path}: {form}, and nothing else")
    return Official(*(_lists(raw.get(section) or {}, f"{path}: {section}", form) for section in SECTIONS))


def _lists(raw: object, where: str, form: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, dict):
        raise UserError(f"{where}: {form}")
    for name, texts in raw.items():
        if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
            raise UserError(f"{where}.{name}: must be a list of texts; {form}")
    return {str(name): tuple(texts) for name, texts in raw.items()}


def equal(group: Group, official: Official) -> Group:
    """The table with the columns alone that compare with published numbers."""
    places = [i for i, column in enumerate(group.columns) if not obstacle(column, group, official)]
    rows = tuple(replace(row, statistics=tuple(row.statistics[i] for i in places)) for row in group.rows)
    return replace(group, columns=tuple(group.columns[i] for i in places), rows=rows)


def obstacle(column: Column, group: Group, official: Official) -> str:
    """Why a column does not compare with published numbers of its name; empty where it does."""
    benchmarks = completeness.benchmarks_of(column)
    if benchmarks != [column.benchmark] and set(benchmarks) != set(official.means.get(column.name, ())):
        return OTHER_MEAN
    runs = completeness.runs_of(group)
    for name in benchmarks:
        if name not in official.fingerprints:
            return UNKNOWN_FILES
        found = {run.results[name].fingerprint for run in runs if name in run.results}
        if not found <= set(official.fingerprints[name]):
            return OTHER_FILES
    coverage = completeness.of_column(column, runs)
    return PARTIAL if coverage and coverage.is_partial else ""


def obstacles(group: Group, names: Collection[str], official: Official) -> dict[str, list[str]]:
    """Why columns with published numbers are not compared: the benchmarks by reason, or the columns that are means."""
    found: dict[str, dict[str, None]] = {}
    for column in group.columns:
        if column.name in names and (reason := obstacle(column, group, official)):
            is_mean = completeness.benchmarks_of(column) != [column.benchmark]
            found.setdefault(reason, {})[column.name if is_mean else column.benchmark] = None
    return {reason: list(of_reason) for reason, of_reason in found.items()}
