"""The papers' published numbers (experiments/published/*.csv) beside ours: same method, metric, backbone, data.

Columns: paper, table, row, method, backbone, data, benchmark, metric, value, unit, and where there is one, deviation
(over seeds) and activation (a wrong one, with which the weights were scored); values as printed. A row without a method
is a model that we do not train: it is kept for the sums and left out of the comparison. benchmarks.yaml has the
fingerprints of the official benchmarks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.config.cell import PRETRAINED
from compclip.config.validation import load_section
from compclip.report import table_heads
from compclip.report.table_formats import format_number
from compclip.report.tables import Column, MethodRow, ResultTable

FIELDS = ("paper", "table", "row", "method", "backbone", "data", "benchmark", "metric", "value", "unit")
# columns that a file may have
DEVIATION = "deviation"
ACTIVATION = "activation"
WRONG_ACTIVATIONS = ("", "gelu")  # of weights that were trained with QuickGELU
OFFICIAL_FILE = "benchmarks.yaml"
UNITS = ("percent", "score")  # a score is a cosine
TOLERANCE = 0.5  # percentage points between two measurements of the same weights; their printed digits are 0.1
RELEASED = "released."  # what others' checkpoints are called in a grid
KINDS = {  # endings of the printed columns whose mean stands for a summary column that the table does not print
    "summary/ZS": ("/top_1",),
    "summary/I2T": ("/i2t_recall_at_1", "/i2t_recall_at_5"),
    "summary/T2I": ("/t2i_recall_at_1", "/t2i_recall_at_5"),
}


@dataclass(frozen=True)
class PublishedNumber:
    """One printed number of a paper, `value` as it stands there, in `unit`; `deviation` over seeds, "" without one.

    `activation` is the wrong one with which the weights were scored, "" for the right one.
    """

    paper: str
    table: str
    row: str
    method: str
    backbone: str
    data: str
    benchmark: str
    metric: str
    value: str
    unit: str = "percent"
    deviation: str = ""
    activation: str = ""

    @property
    def column(self) -> str:
        """The report's column that it belongs to."""
        return f"{self.benchmark}/{self.metric}"

    @property
    def model(self) -> tuple[str, str, str, str]:
        """Which row of its table: row, method, backbone, data."""
        return self.row, self.method, self.backbone, self.data


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the comparison: a paper's, or ours below it; changes are against the same table's pretrained row."""

    source: str
    label: str
    ours: bool
    cells: tuple[str, ...]


@dataclass(frozen=True)
class PaperComparison:
    """A paper's table: its columns that we measure too, its rows and ours method by method."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[ComparisonRow, ...]


def read_numbers(folder: Path) -> list[PublishedNumber]:
    """Read all numbers of the folder's CSV files. Raises UserError naming file and line of a bad one."""
    numbers = []
    for where, row in read_rows(folder, FIELDS):
        fields = {name: (row.get(name) or "").strip() for name in (*FIELDS, DEVIATION, ACTIVATION)}
        parse_printed(where, "value", fields["value"])
        parse_printed(where, DEVIATION, fields[DEVIATION] or "0")
        if fields["unit"] not in UNITS:
            raise UserError(f"{where}: unit={row['unit']!r}: must be {' or '.join(UNITS)}")
        if fields[ACTIVATION] not in WRONG_ACTIVATIONS:
            raise UserError(f"{where}: activation={row[ACTIVATION]!r}: must be gelu, or empty")
        numbers.append(PublishedNumber(**fields))
    return numbers


def parse_printed(where: str, name: str, text: str) -> float:
    """Parse a printed number. Raises UserError naming its file, line and column."""
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"{where}: {name}={text[:40]!r} is not a number; write it as printed") from error


def drop_wrong_activations(numbers: Sequence[PublishedNumber]) -> list[PublishedNumber]:
    """Return the numbers whose weights were scored with the activation of their training."""
    return [n for n in numbers if not n.activation]


def read_rows(folder: Path, fields: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Read the rows of a folder's CSV files, each with its file and line. Raises UserError where a column lacks."""
    for path in sorted(folder.glob("*.csv")):
        rows = csv.DictReader(read_text(path).splitlines())
        absent_fields = [f for f in fields if f not in (rows.fieldnames or ())]
        if absent_fields:
            raise UserError(f"{path}: no column {absent_fields[0]!r}; the first line must name {', '.join(fields)}")
        yield from ((f"{path}: line {line}", row) for line, row in enumerate(rows, 2))


def group_by_model(numbers: Sequence[PublishedNumber]) -> dict[tuple[str, str, str, str], dict[str, PublishedNumber]]:
    """Group numbers by model, that is by row of a table: column -> number."""
    rows: dict[tuple[str, str, str, str], dict[str, PublishedNumber]] = {}
    for n in numbers:
        rows.setdefault(n.model, {})[n.column] = n
    return rows


def list_printed_differences(
    numbers: Sequence[PublishedNumber], paper: str, table: str, left: str, right: str, column: str
) -> list[float]:
    """List left - right in a paper's table, as printed, once for each pair of rows of one backbone and data set.

    The pretrained model fits every data set; where `table` has no row of `right`, the paper's other tables serve. A
    method that the paper did not train is its authors' checkpoint, `released.<method>`.
    """
    paper_numbers = [n for n in numbers if n.paper == paper]
    trained = {n.method for n in paper_numbers}
    left = left if left in trained else f"{RELEASED}{left}"
    right = right if right in trained else f"{RELEASED}{right}"
    here = group_by_model([n for n in paper_numbers if n.table == table])
    base = here if any(model[1] == right for model in here) else group_by_model(paper_numbers)
    differences = []
    for (_, method, backbone, data), row in here.items():
        for (_, other, other_backbone, other_data), base_row in base.items():
            is_same_data = data == other_data or right == PRETRAINED
            if (method, other) == (left, right) and backbone == other_backbone and is_same_data:
                value = find_printed_value(row, column)
                base_value = find_printed_value(base_row, column)
                if value is not None and base_value is not None:
                    differences.append(round(value - base_value, 4))
    return differences


def make_printed_column(numbers: Sequence[PublishedNumber], name: str) -> Column:
    """Make the column of that name in the unit in which the papers print it: percent, or scores."""
    printed = next((n for n in numbers if n.column == name), None)
    benchmark, _, metric = name.partition("/")
    return Column(benchmark, metric, score=printed is not None and printed.unit == "score")


def find_printed_value(row: dict[str, PublishedNumber], column: str) -> float | None:
    """Return a row's number in a column, or the mean of what stands for a summary column; None without either."""
    if column in row:
        return float(row[column].value)
    for ending in KINDS.get(column, ()):
        like = [float(n.value) for name, n in row.items() if name.endswith(ending)]
        if like:
            return sum(like) / len(like)
    return None


def compare_tables(numbers: Sequence[PublishedNumber], group: ResultTable) -> list[PaperComparison]:
    """Compare a group with each paper's table that shares a method and a metric with it."""
    columns = {c.name for c in group.columns}
    comparisons = []
    numbers_by_table: dict[tuple[str, str], list[PublishedNumber]] = {}
    for n in select_comparable(numbers, group.backbone, group.data):
        if n.column in columns:
            numbers_by_table.setdefault((n.paper, n.table), []).append(n)
    for (paper, table), compared in numbers_by_table.items():
        names = tuple(dict.fromkeys(n.column for n in compared))
        # a row of ours stands for the published methods of its name, or of its released checkpoint; a variant of ours
        # (`fsc_clip.lora`) is matched only by a published row of that very name
        our_rows: dict[str, list[ComparisonRow]] = {n.method: [] for n in compared}
        for row in group.rows:
            for method in {n.method for n in select_matching(row.method, compared)}:
                our_rows[method].append(_make_our_row(row, group, names, compared))
        lines: list[ComparisonRow] = []
        for method in sorted(our_rows, key=lambda m: m != PRETRAINED):
            if our_rows[method]:
                lines += [*_make_printed_rows(method, compared, names), *our_rows[method]]
        if lines:
            comparisons.append(PaperComparison(f"{paper}, {table}", names, tuple(lines)))
    return comparisons


def select_comparable(numbers: Sequence[PublishedNumber], backbone: str, data: str) -> list[PublishedNumber]:
    """Select the numbers on this backbone and this data, by our names for them; all where no paper has such a one.

    `vit_b_16_siglip` is our name for "ViT-B/16 SigLIP". Numbers without a data set, as the pretrained model's, stay.
    """
    same_backbone = [n for n in numbers if to_slug(n.backbone) == backbone] or list(numbers)
    is_data_named = any(to_slug(n.data) == data for n in same_backbone)
    return [n for n in same_backbone if not is_data_named or not n.data or to_slug(n.data) == data]


def select_matching(ours: str, numbers: Sequence[PublishedNumber]) -> list[PublishedNumber]:
    """Select the numbers of a row of ours, by its name; of a released checkpoint also its authors' own.

    `released.fsc_clip_lora` is `fsc_clip.lora` on whatever data, `released.clic_laion` is `clic` on LAION.
    """
    exact = [n for n in numbers if n.method == ours]
    if exact or not ours.startswith(RELEASED):
        return exact
    name = ours.removeprefix(RELEASED)
    return [n for n in numbers if n.method and name in (to_slug(n.method), to_slug(f"{n.method} {n.data}"))]


def to_slug(printed: str) -> str:
    """Return a paper's name of a backbone or data set as a grid's files have it: lower case with underscores."""
    return "_".join(re.findall(r"[a-z0-9]+", printed.lower()))


def _make_printed_rows(method: str, numbers: Sequence[PublishedNumber], names: Sequence[str]) -> list[ComparisonRow]:
    """Make the rows that a table prints of a method, with their changes against its pretrained row."""
    rows_by_model = group_by_model(numbers)
    bases = {backbone: row for (_, name, backbone, _), row in rows_by_model.items() if name == PRETRAINED}
    rows = []
    for (label, name, backbone, data), row in rows_by_model.items():
        if name == method:
            base = {} if method == PRETRAINED else bases.get(backbone, {})
            cells = tuple(_format_printed_cell(row.get(column), base.get(column)) for column in names)
            source = f"{label}: {backbone}, {data}" if data else f"{label}: {backbone}"
            activation = next(iter(row.values())).activation
            if activation:
                source += f", scored with {activation.upper()} ⚠"
            rows.append(ComparisonRow(source, method, False, cells))
    return rows


def _format_printed_cell(number: PublishedNumber | None, base: PublishedNumber | None) -> str:
    if number is None:
        return "–"
    value = f"{number.value} ± {number.deviation}" if number.deviation else number.value
    if base is None:
        return value
    digits = len(number.value.partition(".")[2])
    return f"{value} ({float(number.value) - float(base.value):+.{digits}f})".replace("-", "−")


def _make_our_row(
    row: MethodRow, group: ResultTable, names: Sequence[str], numbers: Sequence[PublishedNumber]
) -> ComparisonRow:
    """Make a row of ours, with a mark at a number of the same weights that is far from all that is printed for it."""
    columns = {column.name: column for column in group.columns}
    same_weights = []
    if row.method == PRETRAINED or row.method.startswith(RELEASED):
        matching = select_matching(row.method, drop_wrong_activations(numbers))
        same_weights = [n for n in matching if to_slug(n.backbone) == group.backbone]
    cells = []
    for name in names:
        column = columns[name]
        statistic = row.statistics.get(column)
        if statistic is None:
            cells.append("–")
            continue
        change = "" if statistic.change is None else f" ({format_number(statistic.change, column, sign=True)})"
        apart = [abs(statistic.mean * column.scale - float(n.value)) for n in same_weights if n.column == name]
        is_far = min(apart, default=0.0) > TOLERANCE * column.scale / 100 + 1e-9
        cells.append(format_number(statistic.mean, column) + change + (" ≠" if is_far else ""))
    return ComparisonRow(f"ours: {group.backbone}, {group.data}", row.method, True, tuple(cells))


# Which columns are of the benchmarks that published numbers are of. A benchmark's name says little: the scenes have a
# `sugarcrepe` of their own. Its fingerprint is of its annotation files and of the records read from them.


@dataclass(frozen=True)
class OfficialBenchmarks:
    """The fingerprints of published benchmarks, of each release, and the benchmarks that published means are over."""

    fingerprints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    means: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_official_benchmarks(folder: Path) -> OfficialBenchmarks:
    """Read the file of a folder of published tables, if there is one. Raises UserError for another form."""
    path = folder / OFFICIAL_FILE
    if not path.is_file():
        return OfficialBenchmarks()
    raw = yaml_text.read_yaml(path, "must map fingerprints and means to lists of texts by name")
    return load_section(OfficialBenchmarks, yaml_text.to_plain(raw, str(path)), str(path))


def keep_comparable_columns(group: ResultTable, official: OfficialBenchmarks) -> ResultTable:
    """Return the table with only those columns that compare with published numbers."""
    return group.select([column for column in group.columns if not find_obstacle(column, group, official)])


def find_obstacle(column: Column, group: ResultTable, official: OfficialBenchmarks) -> str:
    """Find why a column does not compare with published numbers of its name; empty where it does."""
    benchmarks = table_heads.list_benchmarks([column])
    if benchmarks != [column.benchmark] and set(benchmarks) != set(official.means.get(column.name, ())):
        return "a mean over other benchmarks than the published one"
    for name in benchmarks:
        if name not in official.fingerprints:
            return "cannot be compared: the official files' fingerprint is not known"
        fingerprints = {run.results[name].fingerprint for run in group.runs if name in run.results}
        if not fingerprints <= set(official.fingerprints[name]):
            return "other files than the official ones"
    coverage = table_heads.column_coverage(column, group.runs)
    return "less than nine tenths of the records were scored" if coverage and coverage.is_partial else ""


def list_obstacles(group: ResultTable, names: Collection[str], official: OfficialBenchmarks) -> dict[str, list[str]]:
    """List by reason the benchmarks, or the columns that are means, that published numbers do not compare with."""
    names_by_reason: dict[str, list[str]] = {}
    for column in group.columns:
        reason = find_obstacle(column, group, official) if column.name in names else ""
        if reason:
            is_mean = table_heads.list_benchmarks([column]) != [column.benchmark]
            reason_names = names_by_reason.setdefault(reason, [])
            name = column.name if is_mean else column.benchmark
            if name not in reason_names:
                reason_names.append(name)
    return names_by_reason
