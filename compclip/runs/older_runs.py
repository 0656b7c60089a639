"""Take finished runs over whose key was another one, although their code gives the numbers of now.

A run records which modules it was trained by (code.json). They are looked up in the shipped `numbers.json`: those of a
run from before there were versions, and those of an edit that has been shown to give the numbers of now since. Files
are shared, and nothing is trained or compared. The entry is complete or not there: `final` gets its name in one go.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compclip.base import links, messages
from compclip.base.errors import UserError
from compclip.base.files import temporary_path, write_atomic, write_json
from compclip.config import training_code
from compclip.interface.method import load_method
from compclip.runs import jobs, key_parts, run_store
from compclip.runs.key_parts import RecordedRun
from compclip.runs.run_folder import Trained
from compclip.runs.run_store import StoredRun


def take_over(cell_runs: Iterable[StoredRun], root: Path) -> None:
    """Enter older runs under the keys of unfinished ones, and note it line by line.

    What cannot be entered is noted too: it is trained, or somebody trains it already. Each method's runs are read once.
    """
    load = functools.cache(lambda method: list(key_parts.list_recorded(root, method)))
    for cell_run in cell_runs:
        source = find_older(cell_run, load(cell_run.run.method_name))
        if source is None:
            continue
        try:
            enter_run(source, cell_run)
        except UserError as error:
            messages.note(str(error))
        else:
            messages.note(f"taken over: {cell_run.name} from {source.folder.key} to {cell_run.key}: equal numbers")


def find_older(cell_run: StoredRun, runs: Iterable[RecordedRun]) -> RecordedRun | None:
    """Return the newest run that has a cell's key by the names of now, None where there is none."""
    equal_runs = [run for run in runs if run.folder.key != cell_run.key and compute_current_key(run) == cell_run.key]
    return max(equal_runs, key=lambda run: run.finished_at, default=None)


def compute_current_key(run: RecordedRun) -> str:
    """Return the key that a finished run would have now; empty where its code was not recorded.

    Options that are newer than the run count at their defaults, and what is gone since as it was.
    """
    if run.key_parts is None:
        return ""
    method = str(run.config["cell"]["method"]).partition(".")[0]
    code = training_code.name_code(method, run.key_parts.modules)
    try:
        config = run.complete_config()
    except UserError:
        config = run.config
    return run_store.compute_key(config, load_method(method).TRAINS, run.key_parts.inputs, code)


def enter_run(source: RecordedRun, cell_run: StoredRun) -> None:
    """Make `source` the finished run of a cell's key, results included.

    Raises UserError where somebody works on that key, or the store cannot be written.
    """
    folder = cell_run.folder
    with jobs.hold_idle(folder):
        links.link_or_copy(source.folder.code, folder.code)
        _enter_final(source, cell_run)
        for path in (folder.metrics, *folder.checkpoints()):  # of a training that is not needed any more
            path.unlink(missing_ok=True)
        for scores in sorted(source.folder.scores("").glob("[!.]*")):
            links.link_or_copy(scores, folder.scores(scores.name))


def _enter_final(source: RecordedRun, cell_run: StoredRun) -> None:
    old, target = source.folder.final, cell_run.folder.final
    staging = Trained(temporary_path(target.path, "new"))
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    origin: dict[str, Any] = {"from": source.folder.key, "date": date}
    try:
        links.link_or_copy(old.checkpoint, staging.checkpoint)
        links.link_or_copy(old.metrics, staging.metrics)
        write_atomic(staging.config, cell_run.config_text())
        write_json(staging.environment, {**source.facts, "run_key": cell_run.key, "carried": origin})
        links.remove(target.path)  # unfinished: the key has no finished run
        os.replace(staging.path, target.path)
    finally:
        links.remove(staging.path)
