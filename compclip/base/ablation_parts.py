"""Parts of a whole: fields of a frozen dataclass that say which value leaves them out, so that each can go alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

MARK = "part"


@dataclass(frozen=True)
class Part:
    """How a field is left out: by the value `off`, and with it `along`, which other fields have to be then.

    It does nothing where all of `of` are left out: fields, or `field:member` of one that joins names by +. `name`
    stands for the field's where that says too little.
    """

    off: Any
    of: tuple[str, ...]
    name: str
    along: Mapping[str, Any]


def part(default: Any, off: Any, of: tuple[str, ...] = (), name: str = "", **along: Any) -> Any:
    """Declare a field that is a part: `lambda_local: float = part(0.2, off=0.0)`."""
    return field(default=default, metadata={MARK: Part(off, of, name, along)})


def list_parts(kind: Any) -> dict[str, Part]:
    """Return the parts of a dataclass by field, in its order."""
    return {f.name: f.metadata[MARK] for f in fields(kind) if MARK in f.metadata}


def is_left_out(values: Any, name: str) -> bool:
    """Return whether a field is left out: by its own value, or with all that it is a part of.

    A field that is declared as no part is out where it is false, and `field:member` where the field lacks the member.
    """
    field_, _, member = name.partition(":")
    if member:
        return member not in getattr(values, field_).split("+")
    declared_part = list_parts(values).get(name)
    if declared_part is None:
        return not getattr(values, name)
    alone = getattr(values, name) == declared_part.off
    wholes = declared_part.of
    return alone or (bool(wholes) and all(is_left_out(values, whole_name) for whole_name in wholes))
