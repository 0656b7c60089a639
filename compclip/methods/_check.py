"""What the Configs of methods have alike, and checks that they make: UserErrors that give the field, value and rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from compclip.base.errors import UserError, unknown


@dataclass(frozen=True)
class CaptionConfig:
    """Of a method that reads captions."""

    caption: Literal["full", "first"] = "full"  # the whole caption, or its first sentence


def refuse(condition: object, fault: str) -> None:
    """Raise UserError where a condition holds."""
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
    """Raise UserError unless each of these fields is one of its names."""
    for field, names in allowed.items():
        value = getattr(cfg, field)
        names = tuple(names)
        if value not in names:
            choices = ", ".join(name or '""' for name in names)
            _, stop, hint = str(unknown(field, value, names)).partition("; did you mean")
            raise UserError(f"{field}={value}: must be one of {choices}{stop}{hint}")


def split_names(text: str) -> tuple[str, ...]:
    """Return the names that a field joins by +; nothing where it is none."""
    return () if text == "none" else tuple(text.split("+"))


def joined_names(cfg: object, field: str, allowed: Iterable[str]) -> None:
    """Raise UserError unless a field is none, or different names of some joined by +."""
    value = getattr(cfg, field)
    allowed = tuple(allowed)
    names = split_names(value)
    for name in names:
        if name not in allowed:
            raise UserError(f"{field}={value}: {unknown('part', name, allowed)}; join names by +, or say none")
    refuse(len(set(names)) < len(names), f"{field}={value}: names a part twice; name it once")


def divides(cfg: object, field: str, width: int) -> None:
    """Raise UserError unless a field divides the width of the backbone's vectors."""
    value = getattr(cfg, field)
    refuse(width % value, f"{field}={value}: must divide the {width} numbers of the backbone's vectors")


def compares_captions(lambda_uni: float, positives: int) -> None:
    """Raise UserError where CLIC's term of p1 and p2 has a weight, and a composite has no p2."""
    fault = f"lambda_uni={lambda_uni}: compares p1 and p2; set it to 0 with positives=1"
    refuse(lambda_uni and positives < 2, fault)
