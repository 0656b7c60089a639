"""Train one run and write its finished files."""

from __future__ import annotations

import filecmp
import time
from typing import TYPE_CHECKING, Any

from compclip.base import links
from compclip.base.files import write_atomic, write_json
from compclip.interface.method import load_method
from compclip.model import backbone, lora
from compclip.runs import device_time
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, environment, fine_tuning, optimiser, view_shares
from compclip.train.recorder import OnStep, do_nothing, recording, sum_over_processes

if TYPE_CHECKING:
    from compclip.model.backbone import Model
    from compclip.runs.run_store import StoredRun


def complete(stored: StoredRun, on_step: OnStep = do_nothing) -> None:
    """Train and write the finished files, unless the run is finished; `on_step` looks at the model on the way.

    Every process of the run calls this; the first one holds its lock.
    """
    process = distributed.current()
    if distributed.agreed(stored.finished if process.rank == 0 else False):
        return
    started = time.time()
    with recording(stored.run, stored.folder.path, on_step) as recorder:
        model = fine_tuning.fine_tune(stored.run, stored.root, recorder)
    counts = sum_over_processes(recorder.counts)
    if process.rank == 0:
        facts = optimiser.count_parameters(model.clip)
        if not load_method(stored.run.method_name).TRAINS:
            facts["trained_parameters"] = 0
        facts |= environment.facts(distributed.device())
        facts |= {"processes": process.world, "dropped": counts["dropped"], "seconds": round(time.time() - started, 3)}
        _write_files(stored, model, facts | {"view_shares": view_shares.shares(counts)})


def _write_files(stored: StoredRun, model: Model, facts: dict[str, Any]) -> None:
    """Write the run's files; environment.json comes last and marks them complete."""
    folder, final = stored.folder, stored.folder.final
    folder.check()  # once more: training takes hours
    if facts["trained_parameters"]:
        fine_tuning.finish_weights(stored.run, stored.root, model, final.checkpoint / lora.FOLDER)
    model.save(final.checkpoint)
    backbone_folder = Inputs(stored.root, stored.cell).backbone
    for file in final.checkpoint.iterdir():  # a file that equals the backbone's is stored once
        same = backbone_folder / file.name
        if same.is_file() and filecmp.cmp(same, file, shallow=False):
            links.place(same, file)
    write_atomic(final.config, stored.config_text())
    write_atomic(final.metrics, folder.metrics.read_bytes() if folder.metrics.exists() else b"")
    identity = {
        "run_key": stored.key,
        "data_fingerprint": stored.data_fingerprint,
        "weights_fingerprint": backbone.weights_fingerprint(final.checkpoint),
    }
    write_json(final.environment, {**identity, **facts, "device_seconds": device_time.sum_device_seconds(folder)})
    for path in folder.checkpoints():
        path.unlink()
