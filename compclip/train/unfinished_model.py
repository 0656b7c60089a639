"""The model of a run that is not finished, as its newest checkpoint has it; nothing is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from compclip.base.errors import UserError
from compclip.train import checkpoint, fine_tuning, saved_model
from compclip.train.fine_tuning import Observer, TrainingState

if TYPE_CHECKING:
    from pathlib import Path

    from compclip.config.grid import Run
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_folder import RunFolder


class StateRestored(Exception):
    """The state is read and no step is to be taken. Arguments: the model, steps done, steps in all."""


class StateReader(Observer):
    """Ends a training where it would begin, with the newest checkpoint of a folder restored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, state: TrainingState, steps: int, per_epoch: int) -> int:
        """Raise StateRestored. Raises UserError where no checkpoint can be read."""
        header = checkpoint.read(self.folder, state.model.clip, state.adamw, extra_parts=state.extras)
        if not header:
            raise UserError(f"{self.folder}: no checkpoint that can be read yet; try again")
        raise StateRestored(state.model, header["step"], steps)


def load_model(run: Run, root: Path, folder: RunFolder) -> tuple[ClipModel, int, int]:
    """Return the model as it would be saved, the steps that it has had, and those of the whole run.

    Raises UserError where the run has no checkpoint that can be read, or its data are not there.
    """
    threads = torch.get_num_threads()
    try:
        fine_tuning.fine_tune(run, root, StateReader(folder.path))
    except StateRestored as restored:
        model, step, steps = restored.args
    else:
        raise UserError(f"{folder.path}: its method trains nothing; wait until it is finished")
    finally:
        torch.set_num_threads(threads)
    saved_model.leave_training(model, run.train)
    return model, step, steps
