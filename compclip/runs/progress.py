"""How far a run is, read from the files of whoever trains it: store/<run key>/metrics.jsonl."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import json_text
from compclip.base.errors import UserError

if TYPE_CHECKING:
    from compclip.runs.run_store import StoredRun

TAIL_BYTES = 4096
AGAIN = "train the run again"
# What a logged step says of the clock: the only fields in which two runs of one key differ.
CLOCK = ("time", "samples_per_second", "matrix_share", "data_wait")


@dataclass(frozen=True)
class Progress:
    """The last logged step."""

    step: int
    steps: int
    loss: float
    samples_per_second: float
    eta_s: float
    time: float

    def line(self) -> str:
        """Format the step as the trainer prints it."""
        return (
            f"step {self.step}/{self.steps}  loss {self.loss:.4f}  {self.samples_per_second:.0f} samples/s  "
            f"ETA {self.eta_s:.0f} s"
        )


def read_progress(log: Path, train: Mapping[str, Any]) -> Progress | None:
    """Read the last step of a metrics.jsonl; None before the first is logged. Raises UserError for a damaged one."""
    row = last_row(log)
    if row is None:
        return None
    try:
        return _parse_row(row, train)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{log}: its last line is no step's ({error!r}); {AGAIN}") from error


def _parse_row(row: Mapping[str, Any], train: Mapping[str, Any]) -> Progress:
    # as train.total_steps, from the share of an epoch that the step is
    steps = train["max_steps"] or max(1, round(train["epochs"] * round(row["step"] / row["epoch"])))
    step, loss, speed, when = int(row["step"]), *(float(row[key]) for key in ("loss", "samples_per_second", "time"))
    samples_left = max(0, steps - step) * train["batch_size"]
    return Progress(step, steps, loss, speed, samples_left / speed if speed else 0.0, when)


def last_row(log: Path) -> dict | None:
    """Return the last complete line; one that is being written is left out.

    Raises UserError for one that is no mapping.
    """
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return None
    if not lines:
        return None
    row = json_text.parse_json(lines[-1].decode(errors="replace"), str(log), AGAIN)
    if not isinstance(row, dict):
        raise UserError(f"{log}: its last line is no step's; {AGAIN}")
    return row


@dataclass
class Follower:
    """Prints a run's progress when it moved, not more often than every `every_s` seconds."""

    run: StoredRun
    every_s: float = 10.0
    _shown: int = field(default=-1, init=False)
    _when: float = field(default=float("-inf"), init=False)

    def __call__(self) -> None:
        """Print the progress if the step changed."""
        if time.monotonic() - self._when < self.every_s:
            return
        progress = read_progress(self.run.folder.metrics, self.run.resolved["train"])
        if progress and progress.step != self._shown:
            print(f"{self.run.cell.name}: {progress.line()}", flush=True)
            self._shown, self._when = progress.step, time.monotonic()
