"""The model of a run as it is saved: plain weights, an adapter merged, averaged with the backbone.

The folder is in open_clip's format; a file that equals the backbone's is stored once.
"""

from __future__ import annotations

import copy
import filecmp
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compclip.base import links, messages
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, hash_file, read_bytes, write_atomic, write_sealed
from compclip.base.shared_folders import make_folder
from compclip.interface.method import load_method
from compclip.model import lora
from compclip.runs.run_folder import METRICS_HASH, Inputs
from compclip.train import checkpoint, distributed, fine_tuning
from compclip.train.recorder import OnStep, do_nothing, recording

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_folder import RunFolder
    from compclip.runs.run_store import StoredRun


def save_model(run: Run, root: Path, model: ClipModel, checkpoint: Path) -> None:
    """Write the model of a run: with the adapter merged and the weights averaged, where it asks for that."""
    is_trained = model.head is not None or any(p.requires_grad for p in model.clip.parameters())
    if load_method(run.method_name).TRAINS and is_trained:
        fine_tuning.finish_weights(run, root, model, checkpoint / lora.FOLDER)
    model.save(checkpoint)


def link_equal_files(checkpoint: Path, inputs: Inputs) -> None:
    """Link the files of a checkpoint that equal the backbone's to those."""
    for file in checkpoint.iterdir():
        backbone_file = inputs.backbone / file.name
        if backbone_file.is_file() and filecmp.cmp(backbone_file, file, shallow=False):
            links.link_or_copy(backbone_file, file)


# The model of a run that is not finished, as its newest checkpoint has it; nothing is trained.


def load_model(run: Run, root: Path, folder: RunFolder) -> tuple[ClipModel, int, int]:
    """Return the model as it would be saved, the steps that it has had, and those of the whole run.

    Raises UserError where the run has no checkpoint that can be read, or its data are not there.
    """
    method = load_method(run.method_name)
    if not method.TRAINS:
        raise UserError(f"{folder.path}: its method trains nothing; wait until it is finished")
    inputs = Inputs(root, run.cell)
    model = fine_tuning.load_backbone(inputs.backbone, run.train, distributed.process_device())
    sampler = fine_tuning.build_sampler(run, method, model, inputs)
    state = fine_tuning.start_state(run, method, model)
    header = checkpoint.read(folder.path, state.model.clip, state.adamw, extra_parts=state.extras)
    if not header:
        raise UserError(f"{folder.path}: no checkpoint that can be read yet; try again")
    fine_tuning.leave_training(state.model, run.train)
    return state.model, header["step"], fine_tuning.total_steps(run.train, sampler.per_epoch)


# Weights at shares of a training, each a finished run's folder: store/<run key>/snapshots/<share>/final/.
#
# The training does not notice: a copy of the model is finished and saved, and torch's generators are put back.


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
        run = self.run
        final = self.run.folder.snapshot(share).final
        run.folder.check()
        links.remove(final.environment)
        links.remove(final.path)
        with torch.random.fork_rng():
            finished = replace(model, clip=copy.deepcopy(model.clip), head=copy.deepcopy(model.head))
            fine_tuning.leave_training(finished, run.run.train)
            save_model(run.run, run.root, finished, final.checkpoint)
        link_equal_files(final.checkpoint, Inputs(run.root, run.cell))
        write_atomic(final.config, run.config_text())
        metrics = self.work / run.folder.metrics.name
        write_atomic(final.metrics, read_bytes(metrics) if metrics.is_file() else b"")
        facts = {"run_key": run.key, "data_fingerprint": run.data_fingerprint, "step": step, "steps": steps}
        facts |= {"weights_fingerprint": fingerprint(final.checkpoint), METRICS_HASH: hash_file(final.metrics)}
        write_sealed(final.environment, facts)


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
        save_model(run.run, run.root, model, work / "checkpoint")
        if fingerprint(work / "checkpoint") != run.folder.final.facts().get("weights_fingerprint"):
            messages.warn(
                f"{run.folder.path}: its snapshots are of a second training, which ended with other weights than the "
                "first; the curve and its end are two runs of the same settings"
            )
        links.remove(work)
