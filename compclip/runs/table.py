"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(header: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> str:
    """Aligned columns, cut at `width`; of the third and later ones those without any value are left out."""
    every = [header, *lines]
    shown = [i for i in range(len(header)) if i < 2 or any(line[i] for line in lines)]
    sizes = {i: max(len(line[i]) for line in every) for i in shown}
    text = ("  ".join(line[i].ljust(sizes[i]) for i in shown).rstrip() for line in every)
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text)


def duration(seconds: float) -> str:
    """As 45s, 3m20s or 5h07m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
