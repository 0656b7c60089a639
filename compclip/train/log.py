"""metrics.jsonl as it is written, and the progress a person sees: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic
from compclip.base.shared_folders import open_plain

AGAIN = "remove the run and train it again"


class MetricsLog:
    """Appends one line a logging step; after a resume, lines behind the checkpoint are cut off first."""

    def __init__(self, path: Path, steps_done: int, steps: int, batch_size: int, per_epoch: int) -> None:
        self.path, self.steps, self.batch_size, self.per_epoch = path, steps, batch_size, per_epoch
        self.first, self.started = steps_done, time.perf_counter()
        self.bar: Any = None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=steps, initial=steps_done, unit="step", dynamic_ncols=True)
        lines = [line for i, line in enumerate(_read_lines(path), 1) if _parse_step(path, i, line) <= steps_done]
        write_atomic(path, "".join(line + "\n" for line in lines))

    def write(
        self,
        step: int,
        terms: dict[str, Tensor],
        lr: float,
        scale: float,
        norm: float,
        shares: dict[str, float] | None = None,
    ) -> None:
        """Append one line: each weighted term, their sum, learning rate, exp(logit_scale), gradient norm, speed.

        `shares`: of the device's matrix rate that is used, and of the time spent waiting for data.
        """
        values = {name: term.item() for name, term in terms.items()}
        speed = (step - self.first) * self.batch_size / (time.perf_counter() - self.started)
        row = {
            "step": step,
            "epoch": step / self.per_epoch,
            "samples": step * self.batch_size,
            "loss": sum(values.values()),
            **values,
            "lr": lr,
            "logit_scale": scale,
            "grad_norm": norm,
            "samples_per_second": round(speed, 1),
            **(shares or {}),
            "time": round(time.time(), 3),
        }
        with open_plain(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        self._print_progress(step, row["loss"], speed)

    def _print_progress(self, step: int, loss: float, speed: float) -> None:
        if self.bar:
            self.bar.set_postfix_str(f"loss {loss:.4f}, {speed:.0f} samples/s")
            self.bar.update(step - self.bar.n)
            return
        eta = (self.steps - step) * self.batch_size / speed
        print(f"step {step}/{self.steps}  loss {loss:.4f}  {speed:.0f} samples/s  ETA {eta:.0f} s", flush=True)

    def close(self) -> None:
        """Close the progress bar."""
        if self.bar:
            self.bar.close()


def _read_lines(path: Path) -> list[str]:
    """Return the complete lines of a log; a last line cut by a kill is left out."""
    if not path.exists():
        return []
    text = read_text(path)
    return text[: text.rfind("\n") + 1].splitlines()


def _parse_step(path: Path, number: int, line: str) -> int:
    """Return the step of a line. Raises UserError where it has none: the log cannot be continued then."""
    value = json_text.parse_json(line, str(path), AGAIN, number)
    if not isinstance(value, dict) or type(value.get("step")) is not int:
        raise UserError(f"{path}: line {number} has no 'step'; {AGAIN}")
    return value["step"]
