"""List what is in no pair, and why: rows and columns of ours, published rows and columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from compclip.config.grid import PRETRAINED
from compclip.report.published_numbers import PublishedNumber
from compclip.validity.counterparts import CHOOSING, Counterparts
from compclip.validity.difference_pairs import DifferencePair

NOT_IN_FILE = "no word of it in the file"
HELD_OUT_REASON = "kept aside"
NO_ROW = "no published row of these methods has it"


@dataclass(frozen=True)
class UnpairedName:
    """A row or column that is in no pair, and the reason."""

    name: str
    why: str


@dataclass(frozen=True)
class Unpaired:
    """Everything that is in no pair. `absent` are rows of the file that the grid does not have."""

    rows: tuple[UnpairedName, ...]
    absent: tuple[UnpairedName, ...]
    columns: tuple[UnpairedName, ...]
    published_rows: tuple[UnpairedName, ...]
    published_columns: tuple[UnpairedName, ...]


def find_unpaired(
    declared: Counterparts, pairs: Sequence[DifferencePair], methods: Iterable[str], columns: Collection[str],
    numbers: Sequence[PublishedNumber], held_out: bool,
) -> Unpaired:  # fmt: skip
    """Return everything that is in no pair; `methods` and `columns` are all of the grid, held out or not."""
    grid = [m for m in dict.fromkeys(methods) if m != PRETRAINED]
    return Unpaired(
        tuple(UnpairedName(m, _row_reason(declared, m, held_out)) for m in grid if m not in {p.row for p in pairs}),
        tuple(UnpairedName(m, "stands for published rows") for m in declared.row_halves if m not in grid),
        tuple(_find_columns(declared, pairs, columns, held_out)),
        tuple(_find_published_rows(declared, pairs, grid, numbers, held_out)),
        tuple(_find_published_columns(declared, pairs, numbers, held_out)),
    )


def _row_reason(declared: Counterparts, method: str, held_out: bool) -> str:
    if method not in declared.row_halves:
        return declared.find_reason("rows", method) or NOT_IN_FILE
    if not held_out and declared.row_halves[method] != CHOOSING:
        return HELD_OUT_REASON
    return "no result, or no published column that is looked at"


def _find_columns(
    declared: Counterparts, pairs: Sequence[DifferencePair], columns: Collection[str], held_out: bool
) -> Iterable[UnpairedName]:
    declared_columns, paired = {c.name: c for c in declared.columns}, {p.column.name for p in pairs}
    for name in dict.fromkeys((*columns, *declared_columns)):
        if name in paired:
            continue
        if name not in declared_columns:
            yield UnpairedName(name, declared.find_reason("columns", name) or NOT_IN_FILE)
        elif not held_out and declared.family_halves[declared_columns[name].family] != CHOOSING:
            yield UnpairedName(name, HELD_OUT_REASON)
        else:
            yield UnpairedName(name, NO_ROW if name in columns else "no run has it")


def _find_published_rows(
    declared: Counterparts,
    pairs: Sequence[DifferencePair],
    grid: Sequence[str],
    numbers: Sequence[PublishedNumber],
    held_out: bool,
) -> Iterable[UnpairedName]:
    paired = {(s.paper, s.table, s.row) for p in pairs for s in p.printed}
    stands = {(s.paper, s.table, s.row): row for row, published_rows in declared.rows.items() for s in published_rows}
    grid_rows = {declared.aliases.get(row, row) for row in grid}
    for n in {(n.paper, n.table, n.row): n for n in numbers if n.method != PRETRAINED}.values():
        source = (n.paper, n.table, n.row)
        if source not in paired:
            if source in stands:
                why = _published_row_reason(declared, stands[source], grid_rows, held_out)
            else:
                why = f"{n.method}: no row of the file" if n.method else "a model that is no method of ours"
            yield UnpairedName(f"{n.paper}, {n.table}: {n.row}", why)


def _published_row_reason(declared: Counterparts, row: str, grid_rows: Collection[str], held_out: bool) -> str:
    """Say why a published row that stands for one of ours is in no pair."""
    if row not in grid_rows:
        return f"stands for {row}, which this grid does not have"
    if not held_out and declared.row_halves[row] != CHOOSING:
        return f"stands for {row}: {HELD_OUT_REASON}"
    return f"stands for {row}: none of its columns is in a pair" + ("" if held_out else " that is shown")


def _find_published_columns(
    declared: Counterparts, pairs: Sequence[DifferencePair], numbers: Sequence[PublishedNumber], held_out: bool
) -> Iterable[UnpairedName]:
    paired = {s.column for p in pairs for s in p.printed}
    stands = {name: c for c in declared.columns for name in c.published}
    for name in dict.fromkeys(n.column for n in numbers if n.column not in paired):
        if name not in stands:
            yield UnpairedName(name, declared.find_reason("published", name) or NOT_IN_FILE)
        else:
            is_shown = held_out or declared.family_halves[stands[name].family] == CHOOSING
            yield UnpairedName(name, f"stands for {stands[name].name}: {NO_ROW if is_shown else HELD_OUT_REASON}")
