"""Weights at shares of a training, each a finished run's folder: store/<run key>/snapshots/<share>/final/.

The training does not notice: a copy of the model is finished and saved, and torch's generators are put back.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compclip.base import links, messages
from compclip.base.files import fingerprint, read_bytes, write_atomic, write_json
from compclip.base.shared_folders import make_folder
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, fine_tuning, saved_model
from compclip.train.recorder import OnStep, do_nothing, recording

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_store import StoredRun


def count_steps(share: float, steps: int) -> int:
    """Return after how many of `steps` steps a share of the training is over: none of the shares is its end."""
    return min(max(1, round(share * steps)), steps - 1)


@dataclass(frozen=True)
class SnapshotWriter:
    """Saves the model before the step at which a share of a run is over; `work` has the logged steps.

    A resumed run that comes by once more writes the snapshot anew: its later steps follow from these weights.
    """

    run: StoredRun
    work: Path
    on_step: OnStep = do_nothing

    def __call__(self, step: int, steps: int, model: ClipModel) -> None:
        """Save what is due, then call `on_step`."""
        for share in self.run.shares:
            if step == count_steps(share, steps):
                self.write(share, step, steps, model)
        self.on_step(step, steps, model)

    def write(self, share: float, step: int, steps: int, model: ClipModel) -> None:
        """Write the folder of one snapshot; environment.json comes last and marks it complete."""
        run, final = self.run, self.run.folder.snapshot(share).final
        run.folder.check()
        links.remove(final.environment)
        links.remove(final.path)
        with torch.random.fork_rng():
            finished = replace(model, clip=copy.deepcopy(model.clip), head=copy.deepcopy(model.head))
            saved_model.leave_training(finished, run.run.train)
            saved_model.save_model(run.run, run.root, finished, final.checkpoint)
        saved_model.link_equal_files(final.checkpoint, Inputs(run.root, run.cell))
        write_atomic(final.config, run.config_text())
        metrics = self.work / run.folder.metrics.name
        write_atomic(final.metrics, read_bytes(metrics) if metrics.is_file() else b"")
        facts = {"run_key": run.key, "data_fingerprint": run.data_fingerprint, "step": step, "steps": steps}
        write_json(final.environment, {**facts, "weights_fingerprint": fingerprint(final.checkpoint)})


def train_again(run: StoredRun, on_step: OnStep = do_nothing) -> None:
    """Train a finished run once more, for snapshots that it lacks; its own files stay as they are.

    On a CPU its end has the same bits. Where it has not, as on a GPU, a warning says that the snapshots are those of
    another training. Every process of the run calls this.
    """
    work = run.folder.again
    if distributed.current_process().rank == 0:
        make_folder(work)
    with recording(run.run, work, SnapshotWriter(run, work, on_step)) as recorder:
        model = fine_tuning.fine_tune(run.run, run.root, recorder)
    if distributed.current_process().rank == 0:
        saved_model.save_model(run.run, run.root, model, work / "checkpoint")
        if fingerprint(work / "checkpoint") != run.folder.final.facts().get("weights_fingerprint"):
            messages.warn(
                f"{run.folder.path}: its snapshots are of a second training, which ended with other weights than the "
                "first; the curve and its end are two runs of the same settings"
            )
        links.remove(work)
