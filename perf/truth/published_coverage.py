"""Which published numbers have a method in the grids and a metric of ours: `python -m perf.truth.published_coverage`.

Writes coverage.md beside the papers' tables (experiments/published). A number has a home where its method, variant
included, is in a grid of experiments/grids or in params.yaml; reasons.yaml says why a row cannot have one, columns.yaml
what a column is and how it differs from ours, and tables.yaml which tables the four papers have.

Takes 5 seconds; needs nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from compclip.base import plugins, yaml_text
from compclip.base.errors import UserError, entry
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.config.columns import SUMMARIES, SUMMARY
from compclip.config.validation import load_section
from compclip.report import published_numbers
from compclip.report.published_numbers import PublishedNumber

FOLDER, GRIDS, PARAMS = Path("experiments/published"), Path("experiments/grids"), Path("params.yaml")
FILE, REASONS, TABLES = "coverage.md", "reasons.yaml", "tables.yaml"
COLUMNS = """## By column

What each column of the tables is among our metrics (`columns.yaml`). Where nothing is told, no difference is known. A
tie is wrong here, or the first candidate's by `evaluate.ties: first`.
"""
BY_TABLE = """## By table

Every table and figure of the four papers (`tables.yaml`), with the results printed in it, deviations and differences in
brackets included, and how many of them are in a file here.
"""
HEAD = """# Which published numbers have a method in the grids

Written by `python -m perf.truth.published_coverage`; not by hand. Counted are the numbers that were transcribed; "By
table" says how many the four papers print. A method is trained by its file in
`compclip/methods`; `released.*` are the authors' own checkpoints, which are scored (docs/released.md).
"""


def main() -> int:
    """Write the tables anew. Raises UserError for a row or column that has neither a match nor a reason."""
    write_atomic(FOLDER / FILE, format_coverage(FOLDER, list_grid_methods(read_grids())).encode())
    print(FOLDER / FILE)
    return 0


def format_coverage(folder: Path, methods: Collection[str]) -> str:
    """Format coverage.md. Raises UserError for a row that has neither a method nor a reason, and such a column."""
    numbers, notes = published_numbers.read_numbers(folder), read_column_notes(folder / NOTES_FILE)
    matched = format_column_table(numbers, notes, plugins.list_plugins(plugins.BENCHMARKS))
    by_method = format_method_coverage(numbers, methods, read_reasons(folder / REASONS))
    by_table = format_table_index(read_tables(folder / TABLES), numbers)
    return by_method + "\n".join(["", *by_table, "", COLUMNS, *matched, ""])


@dataclass(frozen=True)
class PublishedTable:
    """A table or figure of a paper: how many results are printed in it, and which grids report its rows.

    `why_not` says why fewer are transcribed, or why there is no grid.
    """

    shows: str
    rows: str
    columns: str
    printed: int
    grids: tuple[str, ...]
    why_not: str = ""


TableIndex = dict[tuple[str, str], PublishedTable]  # by paper and table


def read_tables(path: Path) -> TableIndex:
    """Read the index of the papers' tables and figures."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must map papers to tables"), str(path))
    tables = {}
    for paper, by_name in raw.items():
        for name, section in by_name.items():
            tables[str(paper), str(name)] = load_section(PublishedTable, section, f"{path}: {paper}: {name}")
    return tables


def count_transcribed(numbers: Sequence[PublishedNumber]) -> Counter[tuple[str, str]]:
    """Count values and deviations by paper and table."""
    counts = Counter((n.paper, n.table) for n in numbers)
    counts.update((n.paper, n.table) for n in numbers if n.deviation)
    return counts


def format_table_index(tables: TableIndex, numbers: Sequence[PublishedNumber]) -> list[str]:
    """Format each table with what is printed in it, what is transcribed of it, and its grids; last the sums."""
    transcribed = count_transcribed(numbers)
    lines = [BY_TABLE, "| paper | table | shows | printed | transcribed | grids | why not all |"]
    lines.append("|---|---|---|---:|---:|---|---|")
    for (paper, name), table in tables.items():
        counts = f"{table.printed} | {transcribed[paper, name]}"
        grids = ", ".join(f"`{grid}`" for grid in table.grids)
        lines.append(f"| {paper} | {name} | {table.shows} | {counts} | {grids} | {table.why_not} |")
    printed = sum(table.printed for table in tables.values())
    return [*lines, f"| all | | | {printed} | {sum(transcribed[key] for key in tables)} | | |"]


def read_grids(grids: Path = GRIDS, params: Path = PARAMS) -> dict[str, dict]:
    """Read the values of each grid and of params.yaml, by the name of its file."""
    files = [*sorted(grids.glob("*.yaml")), params]
    return {path.stem: yaml_text.to_plain(read.read_with_overrides(path, ()), str(path)) for path in files}


def list_grid_methods(grids: Mapping[str, dict]) -> set[str]:
    """List the methods and variants that some grid declares."""
    methods = set()
    for values in grids.values():
        declared = values.get("methods")
        for name, raw in (declared if isinstance(declared, dict) else {}).items():
            variants = raw.get("variants") if isinstance(raw, dict) else None
            methods |= {str(name), *(f"{name}.{variant}" for variant in variants or {})}
    return methods


def read_reasons(path: Path) -> dict[str, str]:
    """Read why a row, or a method, is in no grid, by its name."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must hold reasons, as `name: reason`"), str(path))
    return {str(name): str(reason) for name, reason in raw.items()}


def format_method_coverage(numbers: Sequence[PublishedNumber], methods: Collection[str], why: Mapping[str, str]) -> str:
    """Format the part on methods. Raises UserError for a row that has neither a method nor a reason."""
    home = Counter(n.paper for n in numbers if n.method in methods)
    total = Counter(n.paper for n in numbers)
    papers = [f"| {paper} | {total[paper]} | {home[paper]} | {total[paper] - home[paper]} |" for paper in total]
    papers.append(f"| all | {total.total()} | {home.total()} | {total.total() - home.total()} |")
    count = Counter(n.method for n in numbers if n.method in methods)
    by_method = [f"| {name} | {count[name]} |" for name in sorted(count)]
    without = []
    homeless = Counter((n.paper, n.row, n.method) for n in numbers if n.method not in methods)
    for (paper, row, method), n in homeless.items():
        reason = why.get(method) or why.get(f"{paper}: {row}") or why.get(row)
        if not reason:
            raise UserError(f"{paper}: {row}: has no method in a grid and no reason; give it one in {REASONS}")
        without.append(f"| {paper} | {row} | {n} | {reason} |")
    return "\n".join([
        HEAD, "| paper | numbers | with a method | without |", "|---|---:|---:|---:|", *papers, "",
        "## By method", "", "| method | numbers |", "|---|---:|", *by_method, "",
        "## Without a method", "", "| paper | row | numbers | why |", "|---|---|---:|---|", *without, "",
    ])  # fmt: skip


NOTES_FILE = "columns.yaml"
ColumnKey = tuple[str, str]  # paper and column


@dataclass(frozen=True)
class ColumnNotes:
    """How columns are printed by paper and column; what differs, and why a column is none of ours, by pattern.

    A pattern is `paper: column`, in which * stands for anything.
    """

    printed: Mapping[str, Mapping[str, str]]
    differs: Mapping[str, str]
    none: Mapping[str, str]


def read_column_notes(path: Path) -> ColumnNotes:
    """Read the facts about columns. Raises UserError for a file of another form."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must map printed, differs and none"), str(path))
    return load_section(ColumnNotes, raw, str(path))


def format_column_table(
    numbers: Sequence[PublishedNumber], notes: ColumnNotes, benchmarks: Collection[str]
) -> list[str]:
    """Format a line for each column of each paper, those of one paper together, in the order of the transcription.

    Raises UserError for a column whose print is not told, and for one that is no metric of ours without a reason.
    """
    tables_by_column: dict[ColumnKey, dict[str, None]] = {}
    for n in numbers:
        tables_by_column.setdefault((n.paper, n.column), {})[n.table] = None
    lines = ["| paper | tables | its column | our metric | what differs |", "|---|---|---|---|---|"]
    for (paper, column), tables in tables_by_column.items():
        printed = notes.printed.get(paper, {}).get(column)
        if printed is None:
            raise UserError(f"{paper}: {column}: no word of how it is printed; give it one in {NOTES_FILE}: printed")
        if reasons := match_patterns(notes.none, (paper, column)):
            metric = f"none: {reasons[0]}"
        elif find_benchmark(column, benchmarks):
            metric = f"`{column}`"
        else:
            fix = f"say why in {NOTES_FILE}: none, or add the benchmark"
            raise UserError(f"{paper}: {column}: is no metric of ours; {fix}")
        differs = "; ".join(match_patterns(notes.differs, (paper, column)))
        lines.append(f"| {paper} | {', '.join(tables)} | {printed} | {metric} | {differs} |")
    return lines


def match_patterns(text_by_pattern: Mapping[str, str], key: ColumnKey) -> list[str]:
    """Return the texts of the patterns that fit a paper's column."""
    return [text for pattern, text in text_by_pattern.items() if fnmatchcase(": ".join(key), pattern)]


def find_benchmark(column: str, benchmarks: Collection[str]) -> str:
    """Find the module that measures a column, by its benchmark's name or the longest prefix; empty for none.

    Several sections of params.yaml may use one module: `retrieval_coco`. The report's own means are `summary`.
    """
    name, _, metric = column.partition("/")
    if name == SUMMARY:
        return SUMMARY if metric in SUMMARIES else ""
    return max((b for b in benchmarks if name == b or name.startswith(f"{b}_")), key=len, default="")


if __name__ == "__main__":
    sys.exit(entry(lambda argv: main()))
