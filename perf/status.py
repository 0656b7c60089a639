"""How long `status` and `runs` take at 50 and 500 cells whose runs are finished: `python perf/status.py`.

A project by hand in a temporary folder; nothing trains. Each command is a process of its own, started three times:
`first` finds nothing remembered and works every run key out, of `again` the faster one counts. Prints one JSON document
of wall-clock and CPU seconds; exit code 1 where a command that looks again takes more than two seconds of either.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import fake_store  # noqa: E402

SIZES = {50: (5, 10), 500: (25, 20)}  # cells: methods, seeds
COMMANDS = {"status": ["compclip.runs.status"], "runs": ["compclip.runs"]}
LIMIT_S = 2.0


def make(root: Path, methods: int, seeds: int) -> None:
    """The project and its runs, four of five published."""
    fake_store.project(root, methods, seeds)
    for number, stored in enumerate(fake_store.runs(root)):
        fake_store.finish(stored, publish=number % 5 > 0)


def timed(root: Path, module: list[str]) -> dict[str, float]:
    """Wall-clock and CPU seconds of a command."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", *module], cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(time.perf_counter() - began, 2), "cpu": round(cpu, 2)}


def measure(methods: int, seeds: int) -> dict[str, dict]:
    """Every command at one size."""
    with tempfile.TemporaryDirectory(prefix="status-") as folder:
        root, found = Path(folder), {}
        make(root, methods, seeds)
        for name, module in COMMANDS.items():
            for kept in (root / ".work" / "cells").glob("*"):
                kept.unlink()
            first = timed(root, module)
            again = min((timed(root, module) for _ in range(2)), key=lambda seconds: seconds["wall"])
            found[name] = {"first": first, "again": again}
        return found


def main() -> int:
    """Measure and say."""
    found = {str(cells): measure(*grid) for cells, grid in SIZES.items()}
    print(json.dumps(found, indent=1))
    return int(any(s > LIMIT_S for size in found.values() for one in size.values() for s in one["again"].values()))


if __name__ == "__main__":
    sys.exit(main())
