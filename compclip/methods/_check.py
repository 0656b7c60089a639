"""Check the parameters of methods, and share what their Configs have in common; errors give field, value and rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from compclip.base.errors import UserError, unknown


@dataclass(frozen=True)
class CaptionConfig:
    """Parameters of every method that reads captions."""

    caption: Literal["full", "first"] = "full"  # the whole caption, or its first sentence


def refuse(condition: object, fault: str) -> None:
    """Raise UserError with the text `fault` if a condition holds."""
    if condition:
        raise UserError(fault)


def at_least(cfg: object, low: float, *fields: str) -> None:
    """Raise UserError unless every field is a finite number >= `low`."""
    for field in fields:
        value = getattr(cfg, field)
        refuse(not low <= value < math.inf, f"{field}={value}: must be >= {low} and finite")


def finite(cfg: object, *fields: str) -> None:
    """Raise UserError unless every field is a finite number."""
    for field in fields:
        value = getattr(cfg, field)
        refuse(not math.isfinite(value), f"{field}={value}: must be finite")


def fraction(cfg: object, *fields: str) -> None:
    """Raise UserError unless every field is in [0, 1)."""
    for field in fields:
        value = getattr(cfg, field)
        refuse(not 0 <= value < 1, f"{field}={value}: must be >= 0 and < 1")


def one_of(cfg: object, **allowed: Iterable[str]) -> None:
    """Raise UserError unless each field has one of its allowed values."""
    for field, names in allowed.items():
        value = getattr(cfg, field)
        names = tuple(names)
        if value not in names:
            choices = ", ".join(name or '""' for name in names)
            _, stop, hint = str(unknown(field, value, names)).partition("; did you mean")
            raise UserError(f"{field}={value}: must be one of {choices}{stop}{hint}")


def split_names(text: str) -> tuple[str, ...]:
    """Return the names that a text joins by +; empty for "none"."""
    return () if text == "none" else tuple(text.split("+"))


def joined_names(cfg: object, field: str, allowed: Iterable[str]) -> None:
    """Raise UserError unless a field is "none", or joins distinct allowed names by +."""
    value = getattr(cfg, field)
    allowed = tuple(allowed)
    names = split_names(value)
    for name in names:
        if name not in allowed:
            raise UserError(f"{field}={value}: {unknown('part', name, allowed)}; join names by +, or write none")
    refuse(len(set(names)) < len(names), f"{field}={value}: names a part twice; name it once")
