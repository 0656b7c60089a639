"""Enter a finished run into the store under another key, with a certificate: the files are shared, nothing is trained.

The entry is complete or not there: its folder `final` gets its name in one go, environment.json and carried.json with
the rest. Nothing is written into the folder of the run that it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from compclip.base import links
from compclip.base.files import temporary_path, write_atomic, write_json
from compclip.runs import jobs, key_parts
from compclip.runs.key_parts import KeyParts, RecordedRun
from compclip.runs.run_folder import Trained
from compclip.runs.run_store import StoredRun


def enter_run(source: RecordedRun, cell_run: StoredRun, key: KeyParts, certificate: Mapping[str, Any]) -> None:
    """Make `source` the finished run of a cell's key; `certificate` says why, its `compared` in one sentence.

    Raises UserError where somebody works on that key, or the store cannot be written.
    """
    folder = cell_run.folder
    with jobs.hold_idle(folder):
        key_parts.write_parts(folder, key)
        for shared in ("first_steps", "kept_state"):
            if getattr(source.folder, shared).exists():
                links.link_or_copy(getattr(source.folder, shared), getattr(folder, shared))
        _enter_final(source, cell_run, certificate)
        for path in (folder.metrics, *folder.checkpoints()):  # of a training that is not needed any more
            path.unlink(missing_ok=True)
        for scores in sorted(source.folder.scores("").glob("[!.]*")):
            links.link_or_copy(scores, folder.scores(scores.name))


def _enter_final(source: RecordedRun, cell_run: StoredRun, certificate: Mapping[str, Any]) -> None:
    old, target = source.folder.final, cell_run.folder.final
    staging = Trained(temporary_path(target.path, "new"))
    origin = {name: certificate[name] for name in ("from", "compared", "date")}
    try:
        links.link_or_copy(old.checkpoint, staging.checkpoint)
        links.link_or_copy(old.metrics, staging.metrics)
        write_atomic(staging.config, cell_run.config_text())
        write_json(staging.certificate, certificate)
        write_json(staging.environment, {**source.facts, "run_key": cell_run.key, "carried": origin})
        links.remove(target.path)  # unfinished: the key has no finished run
        os.replace(staging.path, target.path)
    finally:
        links.remove(staging.path)
