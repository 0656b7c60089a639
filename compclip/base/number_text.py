"""Numbers as a person reads them: "1 run", "12,000 pictures", and shares in percent."""

from __future__ import annotations


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun, in the singular where it is one; `plural`: where it is more than an `s`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_percent(share: float) -> str:
    """Return a share as '97.3 %', with more digits where these would say 0 or 100."""
    digits = 1 if 0.0005 <= share <= 0.9995 else 4
    return f"{100 * share:.{digits}f} %"


def format_share(share: float, is_cosine: bool = False) -> str:
    """Return a share in percent with two decimals; a cosine as it is, with four."""
    return f"{share:.4f}" if is_cosine else f"{100 * share:.2f}"
