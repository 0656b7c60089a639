"""Which runs of the grid are to be made, and what they need first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config import grid
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.runs import run_folder, run_store
from compclip.runs.run_store import StoredRun

# What DVC says where another one holds its lock, or writes what this one needs.
LOCKED = ("Unable to acquire lock", "is busy, it is being blocked by")
SKIPPED = "didn't change, skipping"


def prepare_inputs(params: Params, root: Path) -> None:
    """Bring the stages that runs and their evaluation need up to date. Raises UserError as `run_dvc_repro`."""
    run_dvc_repro(["keys", *(f"benchmark@{b}" for b in params.evaluate.benchmarks)], root)


def run_dvc_repro(targets: Sequence[str], root: Path) -> None:
    """Run `dvc repro` for stages, where DVC has the project.

    Raises UserError where one fails, or where another dvc is at work.
    """
    if not (root / "dvc.yaml").is_file() or not (root / ".dvc").is_dir():
        return
    command, output = [sys.executable, "-m", "dvc", "repro", *targets], ""  # --quiet would hide its errors too
    with subprocess.Popen(
        command, cwd=root, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as dvc:
        for line in dvc.stdout or ():
            sys.stderr.write("" if line.strip() == "" or SKIPPED in line else line)
            output += line
    if dvc.returncode and any(words in output for words in LOCKED):
        raise UserError("another dvc is at work in this project; wait for it or stop it; nothing was sent")
    if dvc.returncode:
        raise UserError(f"dvc repro {' '.join(targets)}: failed, see above; nothing was sent")


def locate_runs(params: Params, root: Path) -> dict[str, StoredRun]:
    """Return the runs of all cells by run key; cells with equal keys share one."""
    runs = [run_store.locate_run(resolved, root) for resolved in grid.resolve_all(params)]
    return {run.key: run for run in runs}


def list_stale(runs: Sequence[StoredRun], params: Params, root: Path = Path(".")) -> list[StoredRun]:
    """List the runs that lack their training, or the results of the present evaluation."""
    unpublished = [run for run in runs if not _is_published(run, params)]
    if not any(run.finished for run in unpublished):
        return unpublished
    task = result_store.task_from_params(params, root)
    return [run for run in unpublished if not (run.finished and result_store.find_results(task, run.folder))]


def _is_published(run: StoredRun, params: Params) -> bool:
    """Return whether runs/ has this run, with a result for every benchmark."""
    results = run.published.results
    if run.published.trained.run_key != run.key:
        return False
    names = [SafeName(name, "benchmark") for name in params.evaluate.benchmarks]
    return all(run_folder.result_path(results, name).is_file() for name in names)
