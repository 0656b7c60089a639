"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def align_columns(header: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> str:
    """Align columns and cut lines at `width`; of the third and later ones those without any value are left out."""
    all_lines = [header, *lines]
    columns = [i for i in range(len(header)) if i < 2 or any(line[i] for line in lines)]
    sizes = {i: max(len(line[i]) for line in all_lines) for i in columns}
    text = ("  ".join(line[i].ljust(sizes[i]) for i in columns).rstrip() for line in all_lines)
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text)


def format_duration(seconds: float) -> str:
    """Format a duration, as 45s, 3m20s or 5h07m."""
    total = round(seconds)
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m{total % 60:02d}s"
    return f"{total // 3600}h{total % 3600 // 60:02d}m"
