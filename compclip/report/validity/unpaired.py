"""What is in no pair, and why: rows and columns of ours, published rows and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from compclip.config.sections import PRETRAINED
from compclip.report.published import Number
from compclip.report.validity.declared import Declared
from compclip.report.validity.pairs import Pair
from compclip.report.validity.split import CHOOSING

UNTOLD = "no word of it in the file"
ASIDE = "kept aside"


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
        tuple(_published_rows(declared, grid, numbers, {(s.paper, s.table, s.row) for p in pairs for s in p.printed})),
        tuple(_published_columns(declared, numbers, {s.column for p in pairs for s in p.printed})),
    )


def _row(declared: Declared, method: str, held_out: bool) -> str:
    if method not in declared.row_halves:
        return declared.why("rows", method) or UNTOLD
    if not held_out and declared.row_halves[method] != CHOOSING:
        return ASIDE
    return "no result, or no published column that is looked at"


def _columns(
    declared: Declared, pairs: Sequence[Pair], columns: Collection[str], held_out: bool
) -> Iterable[Left]:
    known, paired = {c.name: c for c in declared.columns}, {p.column.name for p in pairs}
    for name in dict.fromkeys((*columns, *known)):
        if name in paired:
            continue
        if name not in known:
            yield Left(name, declared.why("columns", name) or UNTOLD)
        elif not held_out and declared.family_halves[known[name].family] != CHOOSING:
            yield Left(name, ASIDE)
        else:
            yield Left(name, "no published row of these methods has it" if name in columns else "no run has it")


def _published_rows(
    declared: Declared, grid: Sequence[str], numbers: Sequence[Number], paired: Collection[tuple[str, str, str]]
) -> Iterable[Left]:
    stands = {(s.paper, s.table, s.row): row for row, own in declared.rows.items() for s in own}
    asked = {declared.same.get(row, row) for row in grid}
    for n in {(n.paper, n.table, n.row): n for n in numbers if n.method != PRETRAINED}.values():
        place = (n.paper, n.table, n.row)
        if place in paired:
            continue
        name = f"{n.paper}, {n.table}: {n.row}"
        if place not in stands:
            yield Left(name, f"{n.method}: no row of ours" if n.method else "a model that is no method of ours")
        elif stands[place] not in asked:
            yield Left(name, f"stands for {stands[place]}, which this grid does not have")
        else:
            yield Left(name, f"stands for {stands[place]}: its row or its columns are kept aside, or in no pair")


def _published_columns(declared: Declared, numbers: Sequence[Number], paired: Collection[str]) -> Iterable[Left]:
    stands = {name: c.name for c in declared.columns for name in c.published}
    for name in dict.fromkeys(n.column for n in numbers):
        if name in paired:
            continue
        if name in stands:
            yield Left(name, f"stands for {stands[name]}: kept aside, or no row of this grid has it")
        else:
            yield Left(name, declared.why("published", name) or UNTOLD)
