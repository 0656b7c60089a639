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
    """The declaration of a field that is a part: `lambda_local: float = part(0.2, off=0.0)`."""
    return field(default=default, metadata={MARK: Part(off, of, name, along)})


def declared(kind: Any) -> dict[str, Part]:
    """The parts of a dataclass by field, in its order."""
    return {f.name: f.metadata[MARK] for f in fields(kind) if MARK in f.metadata}


def is_out(values: Any, name: str) -> bool:
    """Whether a field is left out: by its own value, or with all that it is a part of. No part is out where false.

    `field:member` is out where the field does not name the member.
    """
    field_, _, member = name.partition(":")
    if member:
        return member not in getattr(values, field_).split("+")
    known = declared(values).get(name)
    if known is None:
        return not getattr(values, name)
    alone = getattr(values, name) == known.off
    return alone or (bool(known.of) and all(is_out(values, other) for other in known.of))
