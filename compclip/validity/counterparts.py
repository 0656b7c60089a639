"""What experiments/validity.yaml declares: the goal, which rows and columns stand for published ones, and the split.

The file's head tells what each section means.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from compclip.base import yaml_text
from compclip.base.errors import UserError, unknown
from compclip.config.cell import PRETRAINED
from compclip.config.validation import RequiredText, load_section
from compclip.report.published_numbers import PublishedNumber


@dataclass(frozen=True)
class Goal:
    """What the headline has to reach in a half: a share of the ceiling, and more than a trivial predictor in points."""

    of_ceiling: Annotated[float, Field(gt=0, le=1)]
    beats: Literal["column_means"]


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table, on all backbones and data sets that the table has it on."""

    paper: str
    table: str
    row: str


@dataclass(frozen=True)
class Counterpart:
    """A column of ours and the published columns that it stands for; a detail is left out of pooled numbers.

    `position` counts the columns of the file, in whose order they are shown.
    """

    name: str
    family: str
    published: tuple[str, ...]
    detail: bool
    position: int = 0


@dataclass(frozen=True)
class ColumnFamily:
    """Columns that stay in one half: `components` names the families that it is made of."""

    name: str
    kind: str
    components: tuple[str, ...]
    columns: tuple[Counterpart, ...]


@dataclass(frozen=True)
class Counterparts:
    """The whole file. `row_halves` includes the rows of `aliases`, which are like another row, and new rows.

    `row_families` names the family of each row; families are drawn together.
    """

    headline: str
    goal: Goal
    rows: Mapping[str, tuple[PublishedRow, ...]]
    aliases: Mapping[str, str]
    baselines: Mapping[tuple[str, str], str]
    families: tuple[ColumnFamily, ...]
    without: Mapping[str, Mapping[str, str]]
    row_halves: Mapping[str, str]
    family_halves: Mapping[str, str]
    row_families: Mapping[str, str]
    unused: Mapping[str, str] = field(default_factory=dict)

    def select_numbers(self, numbers: Sequence[PublishedNumber]) -> list[PublishedNumber]:
        """Return the numbers of the papers and tables that are not `unused`.

        Raises UserError for a paper or table among those that has no number.
        """
        names = {name for n in numbers for name in (n.paper, f"{n.paper}, {n.table}")}
        for name in self.unused:
            _check_name("paper or table", name, names, "unused")
        return [n for n in numbers if not {n.paper, f"{n.paper}, {n.table}"} & set(self.unused)]

    @property
    def columns(self) -> list[Counterpart]:
        """The columns of all families."""
        return [column for family in self.families for column in family.columns]

    def published_rows(self, row: str) -> tuple[PublishedRow, ...]:
        """Return the published rows that a row of ours stands for, () where the file has none."""
        return self.rows.get(self.aliases.get(row, row), ())

    def find_half(self, row: str, column: Counterpart) -> str:
        """Return the half of a pair: `new_rows` for every column of a new row, `choosing` if row and column are."""
        if self.row_halves[row] == NEW_ROWS:
            return NEW_ROWS
        return CHOOSING if self.row_halves[row] == CHOOSING == self.family_halves[column.family] else HELD_OUT

    def find_reason(self, section: str, name: str) -> str:
        """Return why a row or a column is in no pair, "" where the file gives no reason."""
        return next((text for pattern, text in self.without[section].items() if fnmatchcase(name, pattern)), "")


NonEmptyNames = Annotated[list[str], Field(min_length=1)]


@dataclass(frozen=True)
class FamilySection:
    """A family as the file has it: our columns and the published ones that they stand for."""

    kind: RequiredText = ""
    of: list[str] = field(default_factory=list)
    columns: dict[str, NonEmptyNames] = field(default_factory=dict)
    details: dict[str, NonEmptyNames] = field(default_factory=dict)


@dataclass(frozen=True)
class WithoutSection:
    """Rows, columns and published columns without a counterpart, by name or pattern, with the reason."""

    rows: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HalfSection:
    """The rows and families of one half."""

    rows: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SplitSection:
    """Both halves, as the file lists them, and the rows that came after the split."""

    choosing: HalfSection = field(default_factory=HalfSection)
    held_out: HalfSection = field(default_factory=HalfSection)
    new_rows: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CounterpartsFile:
    """The file's sections as they are written; `rows` is row -> paper -> table -> its rows."""

    headline: Literal["within_columns", "raw"]
    goal: Goal
    rows: dict[str, dict[str, dict[str, NonEmptyNames]]]
    row_families: dict[str, NonEmptyNames]
    columns: dict[str, FamilySection]
    split: SplitSection
    same: dict[str, str] = field(default_factory=dict)
    baselines: dict[str, dict[str, str]] = field(default_factory=dict)
    without: WithoutSection = field(default_factory=WithoutSection)
    unused: dict[str, str] = field(default_factory=dict)  # papers, or `paper, table`, and why


def read_counterparts(path: Path) -> Counterparts:
    """Read and check the file. Raises UserError naming the key, the value and the fix."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must hold headline, goal, rows, columns and split"), str(path))
    file = load_section(CounterpartsFile, raw, str(path))
    rows = {
        name: tuple(
            PublishedRow(p, t, row) for p, tables in papers.items() for t, rows in tables.items() for row in rows
        )
        for name, papers in file.rows.items()
    }
    families, position = [], itertools.count()
    for name, section in file.columns.items():
        columns = [(*item, False) for item in section.columns.items()]
        columns += [(*item, True) for item in section.details.items()]
        counterparts = (Counterpart(c, name, tuple(printed), detail, next(position)) for c, printed, detail in columns)
        families.append(ColumnFamily(name, section.kind, tuple(section.of), tuple(counterparts)))
    for name, like in file.same.items():
        if like not in rows:
            raise unknown("row", like, rows, f"{path}: same.{name}")
        if name in rows:
            raise UserError(f"{path}: same.{name}: has published rows of its own; keep one of the two")
    _check_families(families, path)
    new_rows = dict.fromkeys(file.split.new_rows, NEW_ROWS)
    for name in new_rows:
        _check_name("row", name, rows, f"{path}: split.new_rows")
    papers = {row: list(papers) for row, papers in file.rows.items() if row not in new_rows}
    halves = {
        "rows": split_rows(papers, file.same),
        "columns": split_families({f.name: f.kind for f in families}, {f.name: f.components for f in families}),
    }
    for kind, rule in halves.items():
        _check_split(kind, rule, file.split, path)
    baselines = {(paper, table): base for paper, bases in file.baselines.items() for table, base in bases.items()}
    without = asdict(file.without)
    row_halves = halves["rows"] | new_rows
    row_families = _assign_families(file.row_families, row_halves, path)
    return Counterparts(
        file.headline, file.goal, rows, file.same, baselines, tuple(families), without, row_halves, halves["columns"],
        row_families, file.unused,
    )  # fmt: skip


def _assign_families(families: Mapping[str, Sequence[str]], rows: Collection[str], path: Path) -> dict[str, str]:
    """Return the family of each row. Raises UserError for a row of none, of two, or that the file does not have."""
    family_of: dict[str, str] = {}
    for family, names in families.items():
        for name in names:
            if name not in rows:
                raise unknown("row", name, rows, f"{path}: row_families.{family}")
            if name in family_of:
                raise UserError(f"{path}: row_families.{family}: {name} is in {family_of[name]} too; keep one")
            family_of[name] = family
    if absent := [name for name in rows if name not in family_of]:
        raise UserError(f"{path}: row_families: {absent[0]} is in none; add it, by itself if it is like no other")
    return family_of


def _check_families(families: Sequence[ColumnFamily], path: Path) -> None:
    simple_families = {f.name for f in families if not f.components}
    for family in families:
        for component in family.components:
            if component not in simple_families:
                raise unknown("family", component, simple_families, f"{path}: columns.{family.name}.of")
    names = [c.name for f in families for c in f.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{path}: columns: {twice[0]} stands twice; keep it in one family")


def _check_split(section: str, rule: Mapping[str, str], split: SplitSection, path: Path) -> None:
    """Raise UserError where the file lists other halves of rows, or of columns, than the rule gives."""
    listed = {(name, half) for half in HALVES for name in getattr(getattr(split, half), section)}
    for name, half in sorted(listed - set(rule.items())):
        if name not in rule:
            raise unknown(section.removesuffix("s"), name, rule, f"{path}: split.{half}.{section}")
        raise UserError(f"{path}: split.{half}.{section}: {name}: the rule puts it into {rule[name]}; move it there")
    for name, half in sorted(set(rule.items()) - listed):
        raise UserError(f"{path}: split.{half}.{section}: {name} is missing; add it")


def check_counterparts(
    declared: Counterparts, methods: Collection[str], numbers: Sequence[PublishedNumber], where: str
) -> None:
    """Raise UserError for a method that no grid has, or a paper, table, row or column that no published table has."""
    for section, names in (
        ("rows", declared.rows),
        ("same", declared.aliases),
        ("without.rows", declared.without["rows"]),
    ):
        for name in names:
            if name not in methods:
                raise unknown("method row", name, methods, f"{where}: {section}")
    _check_printed(declared, numbers, where)
    printed = {n.column for n in numbers}
    for column in declared.columns:
        for name in column.published:
            if name not in printed:
                raise unknown("published column", name, printed, f"{where}: columns.{column.family}.{column.name}")


def _check_printed(declared: Counterparts, numbers: Sequence[PublishedNumber], where: str) -> None:
    tables: dict[str, dict[str, set[str]]] = {}
    bases = {(n.paper, n.table) for n in numbers if n.method == PRETRAINED}
    for n in numbers:
        tables.setdefault(n.paper, {}).setdefault(n.table, set()).add(n.row)
    for (paper, table), base in declared.baselines.items():
        _check_name("paper", paper, tables, f"{where}: baselines")
        _check_name("table", table, tables[paper], f"{where}: baselines.{paper}")
        _check_name("table", base, tables[paper], f"{where}: baselines.{paper}.{table}")
    for name, sources in declared.rows.items():
        for s in sources:
            location = f"{where}: rows.{name}"
            _check_name("paper", s.paper, tables, location)
            _check_name("table", s.table, tables[s.paper], f"{location}.{s.paper}")
            _check_name("published row", s.row, tables[s.paper][s.table], f"{location}.{s.paper}.{s.table}")
            if (s.paper, declared.baselines.get((s.paper, s.table), s.table)) not in bases:
                raise UserError(f"{where}: {s.paper}, {s.table}: has no pretrained row; name its table in baselines")


def _check_name(kind: str, name: str, allowed: Collection[str], where: str) -> None:
    if name not in allowed:
        raise unknown(kind, name, allowed, where)


CHOOSING, HELD_OUT, NEW_ROWS = "choosing", "held_out", "new_rows"
HALVES = (CHOOSING, HELD_OUT)  # of the rule; new rows stand beside it
SEVERAL = "several papers"


def alternate_halves(strata: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Assign halves: of each stratum, sorted by SHA-256 of the names, the first, third, … are choosing."""
    halves: dict[str, str] = {}
    for names in strata.values():
        ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
        halves |= {name: HALVES[position % 2] for position, name in enumerate(ordered)}
    return halves


def split_rows(papers: Mapping[str, Sequence[str]], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the half of each row of ours; `papers` print the row, `aliases` names the row that it is like."""
    strata: dict[str, list[str]] = {}
    for row, names in papers.items():
        strata.setdefault(names[0] if len(names) == 1 else SEVERAL, []).append(row)
    halves = alternate_halves(strata)
    return halves | {row: halves[like] for row, like in aliases.items()}


def split_families(kinds: Mapping[str, str], components_of: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the half of each family; a family made of others is choosing if all of these are."""
    strata: dict[str, list[str]] = {}
    for family, kind in kinds.items():
        if not components_of.get(family):
            strata.setdefault(kind, []).append(family)
    halves = alternate_halves(strata)
    are_choosing = {
        family: all(halves[component] == CHOOSING for component in components)
        for family, components in components_of.items()
        if components
    }
    return halves | {family: CHOOSING if is_choosing else HELD_OUT for family, is_choosing in are_choosing.items()}
