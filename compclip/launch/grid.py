"""Which runs of the grid are to be made, and what they need first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config import grid
from compclip.config.sections import Params
from compclip.evaluate import score
from compclip.launch.job import task
from compclip.runs.publish import Publisher

# What DVC says where another one holds its lock, or writes what this one needs.
LOCKED = ("Unable to acquire lock", "is busy, it is being blocked by")
SKIPPED = "didn't change, skipping"


def prepare(params: Params, root: Path) -> None:
    """Bring the stages that runs and their evaluation need up to date, where DVC has the project.

    Raises UserError where one fails, or where another dvc is at work.
    """
    if not (root / "dvc.yaml").is_file() or not (root / ".dvc").is_dir():
        return
    targets = [*(f"annotate@{d}" for d in params.grid.data), *(f"backbone@{b}" for b in params.grid.backbones),
               "methods", *(f"benchmark@{b}" for b in params.evaluate.benchmarks)]  # fmt: skip
    command, said = [sys.executable, "-m", "dvc", "repro", *targets], ""  # --quiet would hide its errors too
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=root, text=True, errors="replace", **both) as dvc:
        for line in dvc.stdout:
            sys.stderr.write("" if line.strip() == "" or SKIPPED in line else line)
            said += line
    if dvc.returncode and any(words in said for words in LOCKED):
        raise UserError("another dvc is at work in this project; wait for it or stop it; nothing was sent")
    if dvc.returncode:
        raise UserError(f"dvc repro {' '.join(targets)}: failed, see above; nothing was sent")


def runs(params: Params, root: Path) -> dict[str, Publisher]:
    """The runs of all cells by run key; cells with equal keys share one."""
    made = (Publisher.of_run(grid.resolve(params, cell), root) for cell in grid.cells(params))
    return {publisher.key: publisher for publisher in made}


def stale(every: Sequence[Publisher], params: Params) -> list[Publisher]:
    """Those that lack their training or the results that an evaluation would give now."""
    left = [p for p in every if not _published(p, params)]
    if not any(p.finished() for p in left):
        return left
    asked = task(params, Path())  # one for all: it reads the benchmarks
    return [p for p in left if not (p.finished() and _scored(p, asked))]


def _scored(publisher: Publisher, asked: score.Job) -> bool:
    final = publisher.work / "final"
    return score.kept(replace(asked, checkpoint=str(final / "checkpoint")), final) is not None


def _published(publisher: Publisher, params: Params) -> bool:
    """Whether runs/ has this run, with a result for every benchmark."""
    facts = publisher.target / "environment.json"
    if not facts.is_file() or read_json(facts).get("run_key") != publisher.key:
        return False
    return all((publisher.target / "results" / f"{name}.json").is_file() for name in params.evaluate.benchmarks)
