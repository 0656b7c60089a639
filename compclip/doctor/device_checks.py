"""All checks of a device, in their order, and the file that tells of them.

The step of a whole model is one: how fast it is, and its peak memory beside the prediction. What is predicted takes
torch's slot for a device, so that it has a process of its own, which prints it:

    python -m compclip.doctor.device_checks '{"method": "finetune", "model": "ViT-B-32", "batch": 8}'

A CPU's peak is measured by perf/speed/predicted_memory.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from compclip.base import environment_variables
from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Train
from compclip.doctor import gradient_accuracy
from compclip.doctor.check_rows import HEADS, MEASURED, SKIPPED, CheckRow, anonymise, catch_errors, judge
from compclip.interface.method import load_method
from compclip.launch.cost_table import CostPredictor, find_card
from compclip.model import backbone
from compclip.runs import gpus
from compclip.train import simulated_step, throughput
from compclip.train.job import describe_environment

MODEL = "ViT-B-32"  # whose step is timed
BATCHES = {"cuda": 256, "cpu": 8}  # of its step
TOLERANCE = 0.15  # of a peak
WARM_STEPS = 3
TIMED_S = 4.0
GIB = 1 << 30
ROOM = 1.25  # times the predicted peak that has to be free


@dataclass(frozen=True)
class StepJob:
    """A step: a method as it is configured by default, an open_clip model or config file, and `train`'s options."""

    method: str
    model: str
    batch: int
    precision: str = "float32"
    threads: int = 2

    def build_run(self) -> Run:
        """Return a run that has such steps."""
        train = Train(batch_size=self.batch, threads=self.threads, precision=self.precision)  # type: ignore[arg-type]
        cell = Cell(self.method, "b", "d", 0)
        return Run(cell, load_method(self.method).Config(), train, Backbone(model=self.model), Data())


def run_checks(device: str, methods: Sequence[str]) -> Iterator[CheckRow]:
    """Yield the rows of all checks; one that fails by an error leaves the others alone."""
    precision = "float32" if device == "cpu" else "bf16"
    step = StepJob("finetune", MODEL, BATCHES[device], precision, torch.get_num_threads())
    yield from catch_errors("step", check_step(step, device))
    yield from gradient_accuracy.check_gradients(methods, device, gradient_accuracy.SMALL)
    processes = gradient_accuracy.check_processes(methods, device, gradient_accuracy.SMALL)
    yield from catch_errors(gradient_accuracy.CHECK_NAME, processes)


def end_in_time(rows: Iterable[CheckRow], minutes: float) -> Iterator[CheckRow]:
    """Yield rows of checks, one by one; none is begun after so many minutes."""
    end = time.monotonic() + 60 * minutes
    for row in rows:
        yield row
        if time.monotonic() > end:
            yield CheckRow("further checks", state=SKIPPED, reason=f"the {minutes:g} minutes are over")
            return


def describe_machine(device: str) -> dict[str, Any]:
    """Return versions, driver and cards: nothing of the user."""
    facts = describe_environment(device)
    cards = []
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        capability = f"{card.major}.{card.minor}"
        cards.append({"name": card.name, "memory_gib": round(card.total_memory / GIB, 1), "capability": capability})
    facts |= {
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1),
        "cudnn": torch.backends.cudnn.version(),
        "architectures": torch.cuda.get_arch_list(),
        "visible": os.environ.get(gpus.VISIBLE),
        "cards": cards,
    }
    return _map_texts(facts)


def _map_texts(value: Any) -> Any:
    if isinstance(value, str):
        return anonymise(value)
    if isinstance(value, dict):
        return {key: _map_texts(entry) for key, entry in value.items()}
    return [_map_texts(entry) for entry in value] if isinstance(value, list) else value


def name_report() -> Path:
    """Return the name of today's file about this machine."""
    host = re.sub(r"[^\w.-]", "_", anonymise(socket.gethostname()))
    return Path(f"compclip-doctor-{host}-{time.strftime('%Y-%m-%d')}.json")


def write_report(path: Path, device: str, rows: Sequence[CheckRow], seconds: float) -> None:
    """Write what was found, and on which machine."""
    write_json(path, {
        "device": device,
        "seconds": round(seconds),
        "environment": describe_machine(device),
        "checks": [dict(zip(HEADS, map(anonymise, row.cells()), strict=True)) for row in rows],
    })  # fmt: skip


# --- a step of a whole model


def check_step(job: StepJob, device: str) -> Iterator[CheckRow]:
    """Yield the rows of a step's rate and of its peak memory."""
    title = f"{job.model} {job.method} {job.precision}"
    name = f"step of {title}, batch {job.batch}"
    predicted = predict_apart(job)
    peak = predicted["peak_bytes"]
    if device != "cpu":
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if free < ROOM * peak:
            reason = f"it takes {peak / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free"
            yield CheckRow(name, state=SKIPPED, reason=reason)
            return
    seconds, measured_peak = time_steps(job, device, TIMED_S)
    rate = job.batch / seconds
    dtype = torch.float32 if job.precision == "float32" else torch.bfloat16
    share_of_rate = predicted["flops"] / seconds / throughput.matrix_rate(torch.device(device), dtype)
    value = f"{rate:.3g} samples/s, {share_of_rate:.0%} of the matrix rate"
    yield CheckRow(name, value, MEASURED)
    if device != "cpu":
        yield compare_peaks(f"peak memory of {title}", peak, measured_peak)


def compare_peaks(name: str, predicted: int, measured: int) -> CheckRow:
    """Return the row of a peak beside its prediction, both in bytes."""
    off = predicted / measured - 1
    value = f"{measured / 2**20:.0f} MiB, predicted {predicted / 2**20:.0f} ({off:+.1%})"
    reason = "the prediction is off, and so is `config cost`; report it with this file"
    return judge(name, value, f"{TOLERANCE:.0%}", abs(off) <= TOLERANCE, reason)


def time_steps(job: StepJob, device: str, timed_s: float) -> tuple[float, int]:
    """Return the seconds of a step, of some after the first, and on a GPU the peak of memory above what was in use."""
    torch.set_num_threads(job.threads)
    synchronize = torch.cuda.synchronize if device != "cpu" else lambda: None
    warm_libraries(device)
    bytes_before = 0
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        bytes_before = torch.cuda.memory_allocated()
    take_step = open_step(job.build_run(), device)
    for number in range(WARM_STEPS):
        take_step(number)
    synchronize()
    started = time.perf_counter()
    count = 0
    while not count or time.perf_counter() - started < timed_s:
        take_step(WARM_STEPS + count)
        count += 1
        synchronize()
    seconds = (time.perf_counter() - started) / count
    return seconds, torch.cuda.max_memory_allocated() - bytes_before if device != "cpu" else 0


def warm_libraries(device: str) -> None:
    """Have libraries make what they make once, forward and backward: it is no part of a step's memory."""
    layer = torch.nn.Linear(256, 256, device=device)
    for enabled in (False, True):
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=enabled):
            layer(torch.ones(256, 256, device=device)).sum().backward()


def open_step(run: Run, device: str) -> Callable[[int], None]:
    """Build what a run's steps need on a device; return what takes step `number`."""
    model_cfg = backbone.read_architecture(run.backbone.model)
    return simulated_step.open_step(run, load_method(run.method_name), model_cfg, device)


# --- in a process of its own ----------------------------------------------------------------------------------


def predict_apart(job: StepJob) -> dict[str, Any]:
    """Predict a step in a process of its own, without GPUs; return what it prints."""
    command = [sys.executable, "-m", "compclip.doctor.device_checks", json.dumps(asdict(job))]
    environment = environment_variables.without_place(os.environ) | {gpus.VISIBLE: ""}
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"exit code {process.returncode}: {lines[-1]}")
    return json.loads(process.stdout.splitlines()[-1])


def predict(job: StepJob) -> dict[str, Any]:
    """Return the predicted peak in bytes, and the operations of a step."""
    card = replace(find_card("h200-141gb"), memory_gib=1e6)
    cost = CostPredictor(card).predict(job.build_run()).configured
    return {"peak_bytes": cost.peak_bytes, "flops": cost.flops}


def main(argv: list[str]) -> int:
    """Print what a step is predicted to take, as JSON."""
    print(json.dumps(predict(StepJob(**json.loads(argv[0])))))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
