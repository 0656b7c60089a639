"""Where a benchmark's census stands, and by what its files are known again."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("data/benchmarks")


def stamp(file: Path) -> list[int] | None:
    """Size and time of a file, None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]
