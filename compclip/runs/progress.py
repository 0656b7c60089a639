"""How far a run is, and how long it was worked on, by the files of whoever trains it in store/<run key>/.

metrics.jsonl has the logged steps. lives/ has a file for each process that held the run, which it touches with the time
of its beginning plus the seconds since, by a clock that nobody sets: of a killed process no more than one heartbeat is
lost. A process that comes to an end writes its seconds down, so that a copy of the folder knows them too.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.base.messages import format_percent
from compclip.base.shared_folders import make_folder
from compclip.runs import gpus
from compclip.runs.run_folder import REPLACED, SHARE, VALIDATION, RunFolder

if TYPE_CHECKING:
    from compclip.runs.run_store import StoredRun
from collections.abc import Iterable

TAIL_BYTES = 4096
LONG_TAIL_BYTES = 1 << 20  # in which the last validation is looked for
AGAIN = "train the run again"
# What a logged step says of the clock: the only fields in which two runs of one key differ, but for points of a
# validation that took too long.
CLOCK = ("time", "samples_per_second", "matrix_share", "data_wait")
_own_lives: dict[Path, tuple[float, float]] = {}  # of this process: when each began, by the files' and our own clock


@dataclass(frozen=True)
class Progress:
    """The last logged step."""

    step: int
    steps: int
    loss: float
    samples_per_second: float
    eta_s: float
    validation: str = ""  # the last one, in words

    def line(self) -> str:
        """Format the step as the trainer prints it, and the last validation."""
        speed = f"{self.samples_per_second:.0f} samples/s  ETA {self.eta_s:.0f} s"
        validation = f"  validation {self.validation}" if self.validation else ""
        return f"step {self.step}/{self.steps}  loss {self.loss:.4f}  {speed}{validation}"


def read_progress(log: Path, train: Mapping[str, Any]) -> Progress | None:
    """Read the last step of a metrics.jsonl; None before the first is logged. Raises UserError for a damaged one."""
    row = last_row(log)
    if row is None:
        return None
    try:
        # as train.total_steps, from the share of an epoch that the step is
        steps = train["max_steps"] or max(1, round(train["epochs"] * round(row["step"] / row["epoch"])))
        step = int(row["step"])
        loss = float(row["loss"])
        speed = float(row["samples_per_second"])
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{log}: its last line is no step's ({error!r}); {AGAIN}") from error
    samples_left = max(0, steps - step) * train["batch_size"]
    return Progress(step, steps, loss, speed, samples_left / speed if speed else 0.0, _read_validation(log))


def _read_validation(log: Path) -> str:
    """Describe the last validation of a metrics.jsonl; "" where its end has none."""
    complete = read_tail(log, LONG_TAIL_BYTES).rpartition(b"\n")[0]
    before, mark, behind = complete.rpartition(f'"{VALIDATION}'.encode())
    if not mark:
        return ""
    line = before.rpartition(b"\n")[2] + mark + behind.partition(b"\n")[0]
    return describe_validation(files.parse_json(line.decode(errors="replace"), str(log), AGAIN))


def describe_validation(row: Mapping[str, Any]) -> str:
    """Say what a logged step measured of held-out pictures, `1.234, R@1 43.2 %` of both ways; "" for nothing."""
    if f"{VALIDATION}loss" not in row:
        return ""
    recalls = [row[f"{VALIDATION}{way}_recall_at_1"] for way in ("i2t", "t2i")]
    return f"{row[f'{VALIDATION}loss']:.3f}, R@1 {50 * sum(recalls):.1f} %"


def last_row(log: Path) -> Any:
    """Return the last complete line, parsed; None where there is none yet. One that is being written is left out."""
    lines = read_tail(log, TAIL_BYTES).split(b"\n")[:-1]
    return files.parse_json(lines[-1].decode(errors="replace"), str(log), AGAIN) if lines else None


def find_stall(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the first of the last logged steps whose gradients are exactly 0, None where there are none.

    Such a training learns nothing any more, as where all pictures, or all texts, have one vector.
    """
    stalled = list(itertools.takewhile(lambda row: row.get("grad_norm") == 0, reversed(rows)))
    return stalled[-1]["step"] if stalled else None


def describe_faults(folder: RunFolder) -> str:
    """Say by a run's last logged step that it has stopped learning, and which samples it lacked; else nothing."""
    row = (last_row(folder.progress) if folder.progress else None) or {}
    text = f"; its gradient is 0 at step {row['step']}: it learns nothing any more" if find_stall([row]) else ""
    share = row.get(SHARE + REPLACED)
    return f"{text}; {describe_replaced(share)}" if share else text


def describe_replaced(share: float) -> str:
    """Say what share of a run's samples gave way to others."""
    return f"in place of {format_percent(share)} of its samples others were trained: their pictures cannot be read"


def read_tail(path: Path, count: int) -> bytes:
    """Return the last bytes of a file, at most `count`; none where it is not there."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - count))
            return file.read()
    except OSError:
        return b""


@dataclass
class Follower:
    """Prints a run's progress when it moved, not more often than every `every_s` seconds."""

    run: StoredRun
    every_s: float = 10.0
    _printed_step: int = field(default=-1, init=False)
    _when: float = field(default=float("-inf"), init=False)

    def __call__(self) -> None:
        """Print the progress if the step changed."""
        if time.monotonic() - self._when < self.every_s:
            return
        progress = read_progress(self.run.folder.metrics, self.run.resolved["train"])
        if progress and progress.step != self._printed_step:
            print(f"{self.run.cell.name}: {progress.line()}", flush=True)
            self._printed_step = progress.step
            self._when = time.monotonic()


def begin_life(folder: RunFolder, devices: int) -> Path:
    """Write a file that says a process began to work on so many devices; return its path."""
    path = folder.lives / f"{uuid.uuid4().hex}.json"
    make_folder(folder.lives)
    path.touch(exist_ok=False)
    started = path.stat().st_mtime
    _own_lives[path] = started, time.monotonic()
    project = str(Path.cwd())  # jobs, too, work in their project's root
    gpu = bool(gpus.explain_request()[0])
    process = {"host": socket.gethostname(), "pid": os.getpid()}
    write_json(path, {"started": started, "devices": devices, "gpu": gpu, "project": project, **process})
    touch_life(path)
    return path


def touch_life(path: Path) -> None:
    """Touch the file: this process, which began it, still works."""
    started, began = _own_lives[path]
    now = started + time.monotonic() - began
    with contextlib.suppress(OSError):
        os.utime(path, (now, now), follow_symlinks=False)


def end_life(path: Path) -> None:
    """Write the seconds that the process worked; where that fails the work is done all the same."""
    touch_life(path)
    with contextlib.suppress(OSError, UserError):
        life = read_mapping(path)
        write_json(path, {**life, "seconds": _seconds(path, life)})
    del _own_lives[path]


def read_lives(folder: RunFolder) -> dict[Path, dict[str, Any]]:
    """Return what each process noted that worked on a run, in order, but what is half-written or not ours."""
    lives = {}
    for path in folder.lives.glob("*.json"):
        with contextlib.suppress(UserError):
            life = read_mapping(path)
            if isinstance(life.get("started"), (int, float)) and isinstance(life.get("devices"), int):
                lives[path] = life
    return dict(sorted(lives.items(), key=lambda item: item[1]["started"]))


def sum_device_seconds(folder: RunFolder) -> float:
    """Sum seconds x devices over all processes of a run, killed and requeued ones and this one included."""
    total = 0.0
    for path, life in read_lives(folder).items():
        if path in _own_lives:
            touch_life(path)
        total += _seconds(path, life) * life["devices"]
    return round(total, 3)


def _seconds(path: Path, life: dict[str, Any]) -> float:
    if isinstance(life.get("seconds"), (int, float)):
        return life["seconds"]
    return max(0.0, path.stat().st_mtime - life["started"])


def read_device_seconds(folder: RunFolder) -> float:
    """Return the same, or what environment.json says where the finished run was adopted from published files."""
    lived = sum_device_seconds(folder)
    return lived or float(folder.final.facts().get("device_seconds", 0.0))


# Hours that runs took: GPU-hours, or process-hours of those on a CPU, whatever their threads. They are never added.

GPU_HOURS = "GPU-hours"
PROCESS_HOURS = "process-hours"


def is_on_gpu(facts: Mapping[str, Any]) -> bool:
    """Return whether a finished run computed on a GPU, by its environment.json."""
    return "peak_device_memory_mib" in facts


def ran_on_gpu(folder: RunFolder) -> bool:
    """Return whether a run computes on a GPU: by its facts when it is finished, until then by who works on it."""
    facts = folder.final.facts()
    if facts:
        return is_on_gpu(facts)
    return any(life.get("gpu") for life in read_lives(folder).values())


def format_hours(device_seconds: float, on_gpu: bool) -> str:
    """Format the hours of a run, as `1.50 GPU` or `0.02 CPU`."""
    return f"{device_seconds / 3600:.2f} {'GPU' if on_gpu else 'CPU'}"


def format_sum(spent: Iterable[tuple[float, bool]]) -> str:
    """Format the sum of (device-seconds, whether on GPUs): `3.50 GPU-hours and 0.20 process-hours`, or one of them."""
    seconds: dict[str, float] = {}
    for device_seconds, on_gpu in spent:
        if device_seconds:
            name = GPU_HOURS if on_gpu else PROCESS_HOURS
            seconds[name] = seconds.get(name, 0.0) + device_seconds
    names = [name for name in (GPU_HOURS, PROCESS_HOURS) if name in seconds]
    return " and ".join(f"{seconds[name] / 3600:.2f} {name}" for name in names)
