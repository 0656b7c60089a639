"""Train a few steps of a run, leave no file, and compare their numbers with recorded ones (`compclip carry`)."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.base.shared_folders import make_folder
from compclip.interface.method import load_method
from compclip.interface.views import Step
from compclip.train import checkpoint, fine_tuning, first_steps, optimiser, saved_model
from compclip.train.fine_tuning import InfiniteLoss, Observer, StepNumbers, TrainingState

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.interface.views import Views
    from compclip.train.batch import Batch

Row = Mapping[str, Any]
ABSENT = "not there"
WORK = Path(".work")  # below a project's root


class TrialOver(Exception):
    """As many steps were trained as were asked for."""


@dataclass(frozen=True)
class TrialResult:
    """Rows of the steps as `first_steps.describe_step` has them, and the finished weights of a trial to the end."""

    rows: Sequence[Row]
    steps: int  # of the whole run
    per_epoch: int
    weights_fingerprint: str


@dataclass(frozen=True)
class Difference:
    """Where two trainings part first."""

    step: int
    name: str
    recorded: Any
    computed: Any

    def __str__(self) -> str:
        old, new = (value[:12] if isinstance(value, str) else value for value in (self.recorded, self.computed))
        return f"step {self.step}, {self.name}: recorded {old}, now {new}"


@dataclass
class Trial(Observer):
    """Notes the numbers of `count` steps from the start, or of all steps from the checkpoint in `kept_state`."""

    count: int
    kept_state: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list, init=False)
    steps: int = field(default=0, init=False)
    per_epoch: int = field(default=1, init=False)

    def start(self, state: TrainingState, steps: int, per_epoch: int) -> int:
        """Restore the checkpoint, if there is one to begin from. Raises UserError for one that cannot be read."""
        self.state, self.steps, self.per_epoch = state, steps, per_epoch
        if not self.kept_state:
            return 0
        header = checkpoint.read(self.kept_state, state.model.clip, state.adamw, extra_parts=state.extras)
        if not header:
            raise UserError(f"{self.kept_state}: the code of now cannot read it; train the run again")
        return header["step"]

    def after_step(self, step: int, batch: Batch, views: Views, numbers: StepNumbers | None, lr: float) -> None:
        """Note the step. Raises TrialOver after the last one that was asked for."""
        if numbers:
            self.rows.append(first_steps.describe_step(step + 1, numbers, lr, self.state))
        if not self.kept_state and step + 1 == self.count < self.steps:
            raise TrialOver


def run_trial(run: Run, root: Path, count: int, kept_state: Path | None = None) -> TrialResult:
    """Train `count` steps from the start, or from a kept checkpoint to the end; a whole run is finished as well.

    Raises UserError where the loss is not finite.
    """
    trial = Trial(count, kept_state)
    try:
        model = fine_tuning.fine_tune(run, root, trial)
    except TrialOver:
        return TrialResult(trial.rows, trial.steps, trial.per_epoch, "")
    except InfiniteLoss as error:
        raise UserError(f"step {error.args[0] + 1}: the loss is no longer finite; train the run again") from error
    make_folder(root / WORK)
    with tempfile.TemporaryDirectory(dir=root / WORK, prefix="carry-") as folder:
        finished = Path(folder) / "checkpoint"
        saved_model.save_model(run, root, model, finished)
        return TrialResult(trial.rows, trial.steps, trial.per_epoch, fingerprint(finished))


def find_difference(recorded: Iterable[Row], computed: Sequence[Row], tolerance: float) -> Difference | None:
    """Return where recorded rows, of first_steps.json or of metrics.jsonl, part from computed ones of the same steps.

    `tolerance` is relative, of numbers; hashes are compared only where it is 0.
    """
    rows = {row["step"]: row for row in computed}
    for old in sorted((row for row in recorded if row["step"] in rows), key=lambda row: row["step"]):
        new = rows[old["step"]]
        old_numbers, new_numbers = _list_numbers(old, new), _list_numbers(new, new)
        hashes = [name for name in first_steps.HASHES if tolerance == 0 and name in old and name in new]
        for name in (*dict.fromkeys([*new_numbers, *old_numbers]), *hashes):
            source, target = (old, new) if name in hashes else (old_numbers, new_numbers)
            before, after = source.get(name, ABSENT), target.get(name, ABSENT)
            if not _are_equal(before, after, tolerance):
                return Difference(old["step"], name, before, after)
    return None


def _list_numbers(row: Row, like: Row) -> dict[str, Any]:
    """Return the numbers of a row by name; metrics.jsonl has terms beside the others, and says more."""
    terms = row["terms"] if "terms" in row else {name: row[name] for name in like["terms"] if name in row}
    loss = row.get("loss", sum(terms.values()) if terms else ABSENT)
    rest = {name: row[name] for name in ("grad_norm", "logit_scale") if name in row}
    return {"lr": row.get("lr", ABSENT), **terms, "loss": loss, **rest}


def _are_equal(before: Any, after: Any, tolerance: float) -> bool:
    if isinstance(before, str) or isinstance(after, str) or tolerance == 0:
        return before == after
    return math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def find_rate_difference(run: Run, logged: Iterable[Row], steps: int, per_epoch: int) -> Difference | None:
    """Return the first logged step whose learning rate is another one now, of all that metrics.jsonl has."""
    method = load_method(run.method_name)
    for row in logged:
        step = Step(row["step"] - 1, per_epoch)
        rate = optimiser.learning_rate(step, steps, run.train) * method.phase(run.method, step).rate
        if row["lr"] != rate:
            return Difference(row["step"], "lr", row["lr"], rate)
    return None
