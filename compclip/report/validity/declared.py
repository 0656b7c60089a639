"""What experiments/validity.yaml declares: which rows and columns of ours stand for published ones, and the split.

The file's head tells what each section means.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import UserError, unknown
from compclip.config.cell import PRETRAINED
from compclip.report.published import Number
from compclip.report.validity import split
from compclip.report.validity.split import CHOOSING, HALVES

SECTIONS = ("headline", "rows", "same", "baselines", "columns", "without", "split")
HEADLINES = ("within_columns", "raw")
FAMILY = ("kind", "of", "columns", "details")
WITHOUT = ("rows", "columns", "published")


@dataclass(frozen=True)
class Source:
    """A row of a published table, on all backbones and data sets that the table has it on."""

    paper: str
    table: str
    row: str


@dataclass(frozen=True)
class Counterpart:
    """A column of ours and the published columns that it stands for; a detail has no part in pooled numbers.

    `place` counts the columns of the file, in whose order they are shown.
    """

    name: str
    family: str
    published: tuple[str, ...]
    detail: bool
    place: int = 0


@dataclass(frozen=True)
class Family:
    """Columns that no split may part: `of` names the families that it is made of."""

    name: str
    kind: str
    of: tuple[str, ...]
    columns: tuple[Counterpart, ...]


@dataclass(frozen=True)
class Declared:
    """The whole file. `halves` are those of rows, rows of `same` included, and of families."""

    headline: str
    rows: Mapping[str, tuple[Source, ...]]
    same: Mapping[str, str]
    baselines: Mapping[tuple[str, str], str]
    families: tuple[Family, ...]
    without: Mapping[str, Mapping[str, str]]
    row_halves: Mapping[str, str]
    family_halves: Mapping[str, str]
    columns: tuple[Counterpart, ...] = field(init=False)

    def __post_init__(self) -> None:
        every = [c for family in self.families for c in family.columns]
        object.__setattr__(self, "columns", tuple(replace(c, place=place) for place, c in enumerate(every)))

    def sources(self, row: str) -> tuple[Source, ...]:
        """The published rows that a row of ours stands for; none where the file has none."""
        return self.rows.get(self.same.get(row, row), ())

    def chosen(self, row: str, column: Counterpart) -> bool:
        """Whether a pair may be looked at while the world is chosen."""
        return self.row_halves[row] == CHOOSING == self.family_halves[column.family]

    def why(self, part: str, name: str) -> str:
        """Why a row or a column is in no pair; empty where nothing is told."""
        return next((text for pattern, text in self.without[part].items() if fnmatchcase(name, pattern)), "")


def read(path: Path) -> Declared:
    """The file, checked by itself. Raises UserError naming the key, the value and the fix."""
    raw = yaml_text.plain(yaml_text.read(path, f"must hold {', '.join(SECTIONS)}"), str(path))
    _keys(raw, SECTIONS, str(path))
    rows = {str(name): _sources(own, f"{path}: rows.{name}") for name, own in _mapping(raw, "rows", path).items()}
    families = tuple(_family(str(n), own, f"{path}: columns.{n}") for n, own in _mapping(raw, "columns", path).items())
    without = _mapping(raw, "without", path)
    _keys(without, WITHOUT, f"{path}: without")
    same = {str(name): str(like) for name, like in _mapping(raw, "same", path).items()}
    _check_same(same, rows, path)
    _check_families(families, path)
    return Declared(
        _headline(raw, path), rows, same, _baselines(_mapping(raw, "baselines", path), path), families,
        {part: {str(k): str(v) for k, v in _mapping(without, part, path).items()} for part in WITHOUT},
        *_halves(raw, rows, same, families, path),
    )  # fmt: skip


def _mapping(raw: Any, key: str, where: Any) -> dict[Any, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(f"{where}: {key}={value!r}: must be a mapping")
    return value


def _keys(raw: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(raw, dict):
        raise UserError(f"{where}: must be a mapping of {', '.join(known)}")
    for key in raw:
        if key not in known:
            raise unknown("key", str(key), known, where)


def _headline(raw: dict[str, Any], path: Path) -> str:
    name = str(raw.get("headline"))
    if name not in HEADLINES:
        raise unknown("headline", name, HEADLINES, str(path))
    return name


def _sources(raw: Any, where: str) -> tuple[Source, ...]:
    """The published rows of `paper: {table: [row, …]}`."""
    form = "must map papers to tables, and tables to lists of their rows"
    if not isinstance(raw, dict) or not all(isinstance(tables, dict) for tables in raw.values()):
        raise UserError(f"{where}: {form}")
    named = [(p, t, rows) for p, tables in raw.items() for t, rows in tables.items()]
    if not named or not all(isinstance(rows, list) and rows for *_, rows in named):
        raise UserError(f"{where}: {form}")
    return tuple(Source(str(p), str(t), str(row)) for p, t, rows in named for row in rows)


def _family(name: str, raw: Any, where: str) -> Family:
    _keys(raw, FAMILY, where)
    if not raw.get("kind") or not raw.get("columns"):
        raise UserError(f"{where}: must have a kind and columns; add them")
    made = [_counterpart(str(c), name, own, key == "details", f"{where}.{key}.{c}")
            for key in ("columns", "details") for c, own in _mapping(raw, key, where).items()]  # fmt: skip
    of = raw.get("of") or []
    return Family(name, str(raw["kind"]), tuple(map(str, of if isinstance(of, list) else [of])), tuple(made))


def _counterpart(name: str, family: str, raw: Any, detail: bool, where: str) -> Counterpart:
    if not isinstance(raw, list) or not raw:
        raise UserError(f"{where}={raw!r}: must be a list of published columns")
    return Counterpart(name, family, tuple(map(str, raw)), detail)


def _baselines(raw: dict[Any, Any], path: Path) -> dict[tuple[str, str], str]:
    own = {str(paper): _mapping(raw, paper, f"{path}: baselines") for paper in raw}
    return {(paper, str(table)): str(base) for paper, tables in own.items() for table, base in tables.items()}


def _check_same(same: Mapping[str, str], rows: Collection[str], path: Path) -> None:
    for name, like in same.items():
        if like not in rows:
            raise unknown("row", like, rows, f"{path}: same.{name}")
        if name in rows:
            raise UserError(f"{path}: same.{name}: has published rows of its own; keep one of the two")


def _check_families(families: Sequence[Family], path: Path) -> None:
    whole = {f.name for f in families if not f.of}
    for family in families:
        for part in family.of:
            if part not in whole:
                raise unknown("family", part, whole, f"{path}: columns.{family.name}.of")
    names = [c.name for f in families for c in f.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{path}: columns: {twice[0]} stands twice; keep it in one family")


def _halves(
    raw: dict[str, Any], rows: Mapping[str, Sequence[Source]], same: Mapping[str, str], families: Sequence[Family],
    path: Path,
) -> tuple[dict[str, str], dict[str, str]]:  # fmt: skip
    """What the file lists, which must be what the rule says."""
    stated = _mapping(raw, "split", path)
    _keys(stated, HALVES, f"{path}: split")
    papers = {row: list(dict.fromkeys(s.paper for s in own)) for row, own in rows.items()}
    made = {
        "rows": split.of_rows(papers, same),
        "columns": split.of_families({f.name: f.kind for f in families}, {f.name: f.of for f in families}),
    }
    for part, rule in made.items():
        _check_split(part, rule, stated, path)
    return made["rows"], made["columns"]


def _check_split(part: str, rule: Mapping[str, str], stated: dict[str, Any], path: Path) -> None:
    listed = {(name, half) for half in HALVES for name in _listed(stated, half, part, f"{path}: split")}
    for name, half in sorted(listed - set(rule.items())):
        if name not in rule:
            raise unknown(part.removesuffix("s"), name, rule, f"{path}: split.{half}.{part}")
        raise UserError(f"{path}: split.{half}.{part}: {name}: the rule puts it into {rule[name]}; move it there")
    for name, half in sorted(set(rule.items()) - listed):
        raise UserError(f"{path}: split.{half}.{part}: {name} is missing; add it")


def _listed(stated: dict[str, Any], half: str, part: str, where: str) -> list[str]:
    names = _mapping(stated, half, where).get(part) or []
    if not isinstance(names, list):
        raise UserError(f"{where}.{half}.{part}={names!r}: must be a list of names")
    return list(map(str, names))


def check(declared: Declared, methods: Collection[str], numbers: Sequence[Number], where: str) -> None:
    """Raise UserError for a method that no grid has, or a paper, table, row or column that no published table has."""
    for part, names in (("rows", declared.rows), ("same", declared.same), ("without.rows", declared.without["rows"])):
        for name in names:
            if name not in methods:
                raise unknown("method row", name, methods, f"{where}: {part}")
    _check_printed(declared, numbers, where)
    printed = {n.column for n in numbers}
    for column in declared.columns:
        for name in column.published:
            if name not in printed:
                raise unknown("published column", name, printed, f"{where}: columns.{column.family}.{column.name}")


def _check_printed(declared: Declared, numbers: Sequence[Number], where: str) -> None:
    tables: dict[str, dict[str, set[str]]] = {}
    bases = {(n.paper, n.table) for n in numbers if n.method == PRETRAINED}
    for n in numbers:
        tables.setdefault(n.paper, {}).setdefault(n.table, set()).add(n.row)
    for (paper, table), base in declared.baselines.items():
        _known("paper", paper, tables, f"{where}: baselines")
        _known("table", table, tables[paper], f"{where}: baselines.{paper}")
        _known("table", base, tables[paper], f"{where}: baselines.{paper}.{table}")
    for name, sources in declared.rows.items():
        for s in sources:
            place = f"{where}: rows.{name}"
            _known("paper", s.paper, tables, place)
            _known("table", s.table, tables[s.paper], f"{place}.{s.paper}")
            _known("published row", s.row, tables[s.paper][s.table], f"{place}.{s.paper}.{s.table}")
            if (s.paper, declared.baselines.get((s.paper, s.table), s.table)) not in bases:
                raise UserError(f"{where}: {s.paper}, {s.table}: has no pretrained row; name its table in baselines")


def _known(kind: str, name: str, known: Collection[str], where: str) -> None:
    if name not in known:
        raise unknown(kind, name, known, where)
