"""What must hold of runs that were killed: bits, steps and MLflow runs of undisturbed ones, and nothing made twice."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections import Counter
from pathlib import Path

from compclip.runs.progress import CLOCK
from compclip.runs.run_store import StoredRun


def outcome(run: StoredRun) -> dict:
    """What must be equal: weights, steps without the clock's part, results without their time."""
    trained = run.published.trained
    rows = [json.loads(line) for line in trained.metrics.read_text().splitlines()]
    result = json.loads((run.published.results / "sugarcrepe.json").read_text())
    return {
        "checkpoint": {p.name: p.read_bytes() for p in trained.checkpoint.iterdir()},
        "log": [{k: v for k, v in row.items() if k not in CLOCK} for row in rows],
        "results": {k: v for k, v in result.items() if k != "seconds"},
    }


def trained_again(runs: list[StoredRun], hits: Counter, checkpoint_every: int) -> list[str]:
    """Runs that made more steps again at a kill of their trainer than lie between the last checkpoint but one and now.

    The last one may have been on its way to the disk; the next one would have waited for it.
    """
    faults = []
    for run in runs:
        steps = re.findall(r"^step (\d+)/", run.folder.log.read_text(errors="replace"), re.MULTILINE)
        again = len(steps) - len(set(steps))
        if again > 2 * checkpoint_every * hits[run.key]:
            faults.append(f"{run.cell.name}: {again} steps again, {hits[run.key]} kills")
    return faults


def left_behind(root: Path) -> list[str]:
    """Files that were not written to their end, and folders that did not get their name."""
    hidden = [p for name in ("store", "runs", "results") for p in (root / name).rglob(".*")]
    leftovers = [p for p in hidden if p.suffix in (".tmp", ".new", ".old")]
    return sorted(str(p.relative_to(root)) for p in leftovers)


def in_mlflow(root: Path, cells: int, steps: int) -> list[str]:
    """What is wrong in the store: not one run a cell, or a step of its loss missing or there twice."""
    with contextlib.closing(sqlite3.connect(root / "mlflow" / "mlflow.db")) as store:
        rows = store.execute("SELECT r.name, r.run_uuid, m.step, COUNT(*) FROM runs r JOIN metrics m USING (run_uuid) "
                             "WHERE m.key = 'train/loss' GROUP BY 1, 2, 3").fetchall()  # fmt: skip
    by_run: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for run, uuid, at, count in rows:
        by_run.setdefault((run, uuid), []).append((at, count))
    faults = [] if len(by_run) == cells else [f"{len(by_run)} runs with a loss for {cells} cells"]
    expected_steps = [(at, 1) for at in range(1, steps + 1)]
    return faults + [
        f"run {run}: steps differ"
        for (run, _), logged_steps in by_run.items()
        if sorted(logged_steps) != expected_steps
    ]
