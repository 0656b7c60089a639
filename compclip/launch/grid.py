"""Which runs of the grid are to be made, and what they need first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.names import Name
from compclip.config import grid
from compclip.config.sections import Params
from compclip.evaluate import kept
from compclip.runs import folder, store
from compclip.runs.store import StoredRun

# What DVC says where another one holds its lock, or writes what this one needs.
LOCKED = ("Unable to acquire lock", "is busy, it is being blocked by")
SKIPPED = "didn't change, skipping"


def prepare(params: Params, root: Path) -> None:
    """Bring the stages that runs and their evaluation need up to date. Raises UserError as `repro`."""
    repro(["keys", *(f"benchmark@{b}" for b in params.evaluate.benchmarks)], root)


def repro(targets: Sequence[str], root: Path) -> None:
    """Bring stages up to date, where DVC has the project.

    Raises UserError where one fails, or where another dvc is at work.
    """
    if not (root / "dvc.yaml").is_file() or not (root / ".dvc").is_dir():
        return
    command, said = [sys.executable, "-m", "dvc", "repro", *targets], ""  # --quiet would hide its errors too
    with subprocess.Popen(
        command, cwd=root, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as dvc:
        for line in dvc.stdout or ():
            sys.stderr.write("" if line.strip() == "" or SKIPPED in line else line)
            said += line
    if dvc.returncode and any(words in said for words in LOCKED):
        raise UserError("another dvc is at work in this project; wait for it or stop it; nothing was sent")
    if dvc.returncode:
        raise UserError(f"dvc repro {' '.join(targets)}: failed, see above; nothing was sent")


def runs(params: Params, root: Path) -> dict[str, StoredRun]:
    """The runs of all cells by run key; cells with equal keys share one."""
    made = (store.of(run, root) for run in grid.resolved(params))
    return {stored.key: stored for stored in made}


def stale(every: Sequence[StoredRun], params: Params, root: Path = Path(".")) -> list[StoredRun]:
    """Those that lack their training or the results that an evaluation would give now."""
    left = [stored for stored in every if not _published(stored, params)]
    if not any(stored.finished for stored in left):
        return left
    asked = kept.task(params, root)
    return [stored for stored in left if not (stored.finished and kept.find(asked, stored.folder))]


def _published(stored: StoredRun, params: Params) -> bool:
    """Whether runs/ has this run, with a result for every benchmark."""
    results = stored.published.results
    if stored.published.trained.run_key != stored.key:
        return False
    return all(folder.result(results, Name(name, "benchmark")).is_file() for name in params.evaluate.benchmarks)
