"""Checks that methods make of their parameters: UserErrors that give the field, its value and the rule."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compclip.base.errors import UserError, unknown


def at_least(cfg: object, low: float, *fields: str) -> None:
    """Every field must be a finite number >= `low`."""
    for field in fields:
        value = getattr(cfg, field)
        if not low <= value < math.inf:
            raise UserError(f"{field}={value}: must be >= {low} and finite")


def finite(cfg: object, *fields: str) -> None:
    """Every field must be a finite number."""
    for field in fields:
        if not math.isfinite(value := getattr(cfg, field)):
            raise UserError(f"{field}={value}: must be finite")


def fraction(cfg: object, *fields: str) -> None:
    """Every field must be in [0, 1)."""
    for field in fields:
        value = getattr(cfg, field)
        if not 0 <= value < 1:
            raise UserError(f"{field}={value}: must be >= 0 and < 1")


def one_of(cfg: object, field: str, known: Iterable[str]) -> None:
    """A field must be one of some names."""
    value, known = getattr(cfg, field), tuple(known)
    if value not in known:
        hint = str(unknown(field, value, known)).partition("; ")[2]
        raise UserError(f"{field}={value}: must be one of {', '.join(known)}; {hint}")


def parts(text: str) -> tuple[str, ...]:
    """The names that a field joins by +; nothing where it is none."""
    return () if text == "none" else tuple(text.split("+"))


def joined(cfg: object, field: str, known: Iterable[str]) -> None:
    """A field must be none, or different names of some joined by +."""
    value, known = getattr(cfg, field), tuple(known)
    names = parts(value)
    for name in names:
        if name not in known:
            raise UserError(f"{field}={value}: {unknown('part', name, known)}; join names by +, or say none")
    if len(set(names)) < len(names):
        raise UserError(f"{field}={value}: names a part twice; name it once")
