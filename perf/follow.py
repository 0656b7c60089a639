"""What a look of `compclip track --follow` costs: with how many runs under way, beside how many that are published.

    python perf/follow.py [--rounds 5]

Each look is timed twice: when nothing moved, and when every run under way logged a line (a SQLite store). The last line
is a JSON document; exit code 1 where looks beside 500 runs cost more than three times those beside 100.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compclip.track import sync  # noqa: E402
from compclip.track.sync import StoreFollower  # noqa: E402
from tests import fake_runs  # noqa: E402
from tests.track import live  # noqa: E402
from tests.track.project import params  # noqa: E402

SIZES = ((10, 100), (10, 500), (100, 500))  # runs under way, runs of the grid


def measure(root: Path, under_way: int, cells: int, rounds: int) -> dict[str, float]:
    """Return milliseconds of a look, median over rounds."""
    grid = [fake_runs.cell("clic", seed=seed) for seed in range(cells)]
    path = params(root, ("clic",), range(cells))
    live.plan(root, grid)
    for cell in grid[under_way:]:
        fake_runs.BITS[("clic", cell.seed)] = fake_runs.BITS[("clic", cell.seed % 2)]
    fake_runs.make(root, grid[under_way:])
    for cell in grid[:under_way]:
        live.begin(root, cell)
        live.log(root, cell, 1)
    uri = f"sqlite:///{root / 'mlflow' / 'mlflow.db'}"
    follower = StoreFollower(lambda: sync.load_project(path, root, root / "studies"), uri, root)
    begun = time.perf_counter()
    follower.poll()
    first = time.perf_counter() - begun
    idle, moved = [], []
    for step in range(2, 2 + rounds):
        idle.append(_time(follower))
        for cell in grid[:under_way]:
            live.log(root, cell, step)
        moved.append(_time(follower))
    return {
        "under_way": under_way,
        "cells": cells,
        "first_ms": round(1000 * first),
        "idle_ms": statistics.median(idle[1:]),
        "moved_ms": statistics.median(moved[1:]),
    }


def _time(follower: StoreFollower) -> float:
    begun = time.perf_counter()
    follower.poll()
    return round(1000 * (time.perf_counter() - begun), 1)


def main() -> int:
    """Print the times of each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ["COMPCLIP_PROJECT"] = "perf"
    rows = []
    for under_way, cells in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(Path(folder), under_way, cells, rounds))
        print(rows[-1], flush=True)
    print(json.dumps(rows))
    few, many = rows[0], rows[1]
    return int(many["moved_ms"] > 3 * few["moved_ms"])


if __name__ == "__main__":
    sys.exit(main())
