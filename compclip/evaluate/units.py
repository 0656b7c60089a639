"""Which records an interval draws at once: those that show a picture in common, directly or through others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compclip.evaluate.boxes import unboxed

if TYPE_CHECKING:
    from compclip.evaluate.benchmark import Record


def number(records: Sequence[Record], first_picture: bool = False) -> dict[tuple[str, str], int]:
    """The number of each record's unit, by subset and id; nothing where every record is a unit by itself.

    A part of a picture is that picture. With `first_picture` the others of a record join nothing: where each picture is
    a wrong candidate somewhere, nearly all records would be one unit.
    """
    parent: dict[str, str] = {}
    shown = []
    for record in records:
        pictures = [str(unboxed(ref)[0]) for ref in record.images]
        shown.append(pictures[:1] if first_picture else pictures)
        for picture in shown[-1]:
            parent[_root(parent, picture)] = _root(parent, shown[-1][0])
    numbers: dict[str, int] = {}
    units = {}
    for place, (record, pictures) in enumerate(zip(records, shown, strict=True)):
        root = _root(parent, pictures[0]) if pictures else f"record {place}"
        units[record.subset, record.id] = numbers.setdefault(root, len(numbers))
    return units if len(numbers) < len(units) else {}


def _root(parent: dict[str, str], picture: str) -> str:
    """The picture that stands for all that are joined with this one; paths to it are halved on the way."""
    parent.setdefault(picture, picture)
    while parent[picture] != picture:
        parent[picture] = picture = parent[parent[picture]]
    return picture
