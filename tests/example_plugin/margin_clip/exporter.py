"""An exporter: a table of each run's points, below a line with its content."""

from __future__ import annotations

from pathlib import Path

from compclip.base.files import write_atomic
from compclip.track.exported_runs import ExportedRun

TARGET = "points"


def find_content(name: str, to: str) -> str:
    """Return the first line of a run's table; "" where there is none."""
    file = Path(to) / f"{name}.csv"
    return file.read_text().splitlines()[0] if file.is_file() else ""


def write_run(run: ExportedRun, to: str) -> None:
    """Write a run's content, and a line for each point."""
    lines = [run.content, "metric,step,value", *(f"{p.name},{p.step},{p.value!r}" for p in run.points)]
    write_atomic(Path(to) / f"{run.name}.csv", "".join(f"{line}\n" for line in lines))
