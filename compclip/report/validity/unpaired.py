"""What is in no pair, and why: rows and columns of ours, published rows and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from compclip.config.cell import PRETRAINED
from compclip.report.published import Number
from compclip.report.validity.declared import Declared
from compclip.report.validity.pairs import Pair
from compclip.report.validity.split import CHOOSING

UNTOLD = "no word of it in the file"
ASIDE = "kept aside"
NO_ROW = "no published row of these methods has it"


@dataclass(frozen=True)
class Left:
    """Something that is in no pair."""

    name: str
    why: str


@dataclass(frozen=True)
class Unpaired:
    """All of it. `absent` are rows of the file that the grid does not have."""

    rows: tuple[Left, ...]
    absent: tuple[Left, ...]
    columns: tuple[Left, ...]
    published_rows: tuple[Left, ...]
    published_columns: tuple[Left, ...]


def find(
    declared: Declared, pairs: Sequence[Pair], methods: Iterable[str], columns: Collection[str],
    numbers: Sequence[Number], held_out: bool,
) -> Unpaired:  # fmt: skip
    """Everything that is in no pair; `methods` and `columns` are the grid's, kept aside or not."""
    grid = [m for m in dict.fromkeys(methods) if m != PRETRAINED]
    return Unpaired(
        tuple(Left(m, _row(declared, m, held_out)) for m in grid if m not in {p.row for p in pairs}),
        tuple(Left(m, "stands for published rows") for m in declared.row_halves if m not in grid),
        tuple(_columns(declared, pairs, columns, held_out)),
        tuple(_published_rows(declared, pairs, grid, numbers, held_out)),
        tuple(_published_columns(declared, pairs, numbers, held_out)),
    )


def _row(declared: Declared, method: str, held_out: bool) -> str:
    if method not in declared.row_halves:
        return declared.why("rows", method) or UNTOLD
    if not held_out and declared.row_halves[method] != CHOOSING:
        return ASIDE
    return "no result, or no published column that is looked at"


def _columns(declared: Declared, pairs: Sequence[Pair], columns: Collection[str], held_out: bool) -> Iterable[Left]:
    known, paired = {c.name: c for c in declared.columns}, {p.column.name for p in pairs}
    for name in dict.fromkeys((*columns, *known)):
        if name in paired:
            continue
        if name not in known:
            yield Left(name, declared.why("columns", name) or UNTOLD)
        elif not held_out and declared.family_halves[known[name].family] != CHOOSING:
            yield Left(name, ASIDE)
        else:
            yield Left(name, NO_ROW if name in columns else "no run has it")


def _published_rows(
    declared: Declared, pairs: Sequence[Pair], grid: Sequence[str], numbers: Sequence[Number], held_out: bool
) -> Iterable[Left]:
    paired = {(s.paper, s.table, s.row) for p in pairs for s in p.printed}
    stands = {(s.paper, s.table, s.row): row for row, own in declared.rows.items() for s in own}
    asked = {declared.same.get(row, row) for row in grid}
    for n in {(n.paper, n.table, n.row): n for n in numbers if n.method != PRETRAINED}.values():
        place = (n.paper, n.table, n.row)
        if place not in paired:
            why = _why(declared, stands[place], asked, held_out) if place in stands else _not_ours(n)
            yield Left(f"{n.paper}, {n.table}: {n.row}", why)


def _not_ours(number: Number) -> str:
    return f"{number.method}: no row of the file" if number.method else "a model that is no method of ours"


def _why(declared: Declared, row: str, asked: Collection[str], held_out: bool) -> str:
    """Why a published row that stands for one of ours is in no pair."""
    if row not in asked:
        return f"stands for {row}, which this grid does not have"
    if not held_out and declared.row_halves[row] != CHOOSING:
        return f"stands for {row}: {ASIDE}"
    return f"stands for {row}: none of its columns is in a pair" + ("" if held_out else " that is shown")


def _published_columns(
    declared: Declared, pairs: Sequence[Pair], numbers: Sequence[Number], held_out: bool
) -> Iterable[Left]:
    paired = {s.column for p in pairs for s in p.printed}
    stands = {name: c for c in declared.columns for name in c.published}
    for name in dict.fromkeys(n.column for n in numbers if n.column not in paired):
        if name not in stands:
            yield Left(name, declared.why("published", name) or UNTOLD)
        else:
            seen = held_out or declared.family_halves[stands[name].family] == CHOOSING
            yield Left(name, f"stands for {stands[name].name}: {NO_ROW if seen else ASIDE}")
