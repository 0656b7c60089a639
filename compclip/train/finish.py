"""Train one run and write its finished files."""

from __future__ import annotations

import filecmp
import time
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.files import fingerprint, write_atomic, write_json
from compclip.interface.method import load_method
from compclip.model import lora
from compclip.runs import progress
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, environment, fine_tuning, optimiser, view_shares
from compclip.train.recorder import OnStep, do_nothing, recording, sum_over_processes

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_store import StoredRun


def complete_run(run: StoredRun, on_step: OnStep = do_nothing) -> None:
    """Train and write the finished files, unless the run is finished; `on_step` looks at the model on the way.

    Every process of the run calls this; the first one holds its lock.
    """
    process = distributed.current_process()
    if distributed.broadcast_first(run.finished if process.rank == 0 else False):
        return
    started = time.time()
    with recording(run.run, run.folder.path, on_step) as recorder:
        model = fine_tuning.fine_tune(run.run, run.root, recorder)
    counts = sum_over_processes(recorder.counts)
    if process.rank == 0:
        facts: dict[str, Any] = optimiser.count_parameters(model.clip)
        if not load_method(run.run.method_name).TRAINS:
            facts["trained_parameters"] = 0
        facts |= environment.describe_environment(distributed.process_device())
        facts |= {"processes": process.world, "dropped": counts["dropped"], "seconds": round(time.time() - started, 3)}
        _write_files(run, model, facts | {"view_shares": view_shares.shares(counts)})


def _write_files(run: StoredRun, model: ClipModel, facts: dict[str, Any]) -> None:
    """Write the run's files; environment.json comes last and marks them complete."""
    folder, final = run.folder, run.folder.final
    folder.check()  # once more: training takes hours
    if facts["trained_parameters"]:
        fine_tuning.finish_weights(run.run, run.root, model, final.checkpoint / lora.FOLDER)
    model.save(final.checkpoint)
    backbone_folder = Inputs(run.root, run.cell).backbone
    for file in final.checkpoint.iterdir():  # a file that equals the backbone's is stored once
        backbone_file = backbone_folder / file.name
        if backbone_file.is_file() and filecmp.cmp(backbone_file, file, shallow=False):
            links.link_or_copy(backbone_file, file)
    write_atomic(final.config, run.config_text())
    write_atomic(final.metrics, folder.metrics.read_bytes() if folder.metrics.exists() else b"")
    identity = {
        "run_key": run.key,
        "data_fingerprint": run.data_fingerprint,
        "weights_fingerprint": fingerprint(final.checkpoint),
    }
    write_json(final.environment, {**identity, **facts, "device_seconds": progress.sum_device_seconds(folder)})
    for path in folder.checkpoints():
        path.unlink()
