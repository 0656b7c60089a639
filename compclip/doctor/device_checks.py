"""All checks of a device, in their order, and the file that tells of them."""

from __future__ import annotations

import functools
import os
import platform
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from compclip.base.files import write_json
from compclip.doctor import drawn_samples, full_step, gradient_accuracy, resumed_run, several_processes, transfer_rates
from compclip.doctor.check_rows import HEADS, CheckRow, TimeBudget, anonymise, catch_errors
from compclip.doctor.full_step import StepJob
from compclip.runs import gpus
from compclip.train import job

# How much of the time may be over when a check ends; what is not reached then is skipped.
SHARES = {"gradients": 0.5, "resumed": 0.65, "processes": 0.8, "step": 0.95}
BATCHES = {"cuda": 256, "cpu": 8}  # of the whole model's step


@dataclass(frozen=True)
class DeviceSettings:
    """What is checked, where and for how long. `resumed`: methods whose run is stopped and resumed."""

    device: str
    methods: tuple[str, ...]
    minutes: float = 3.0
    model: str = "ViT-B-32"
    batch: int = 0  # 0: that of BATCHES
    resumed: tuple[str, ...] = ("finetune", "degla")
    folder: Path = Path(".")
    small: Mapping[str, Any] = field(default_factory=lambda: drawn_samples.SMALL)

    @property
    def step_job(self) -> StepJob:
        """The whole model's step."""
        precision = "float32" if self.device == "cpu" else "bf16"
        return StepJob("finetune", self.model, self.batch or BATCHES[self.device], precision, torch.get_num_threads())


def run_checks(settings: DeviceSettings) -> Iterator[CheckRow]:
    """Yield the rows of all checks; one that fails by an error leaves the others alone."""
    budget = TimeBudget(60 * settings.minutes)
    device, small = settings.device, settings.small
    checks: dict[str, Callable[..., Iterable[CheckRow]]] = {
        "reading": functools.partial(transfer_rates.check_reading, settings.folder),
        "decoding": transfer_rates.check_decoding,
        "copying to the device": functools.partial(transfer_rates.check_copying, device),
        "gradients": functools.partial(
            gradient_accuracy.check_gradients, settings.methods, device, small, budget, SHARES["gradients"]
        ),
        "resumed": functools.partial(
            resumed_run.check_resumed, settings.resumed, device, small, budget, SHARES["resumed"]
        ),
        "processes": functools.partial(
            several_processes.check_processes, settings.methods, device, small, budget, SHARES["processes"]
        ),
        "step": functools.partial(full_step.check_step, settings.step_job, device, budget, SHARES["step"]),
    }
    for name, check in checks.items():
        yield from catch_errors(name, check)


def describe_machine(device: str) -> dict[str, Any]:
    """Return versions, driver and cards: nothing of the user."""
    facts = job.describe_environment(device)
    cards = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    facts |= {
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cudnn": torch.backends.cudnn.version(),
        "architectures": torch.cuda.get_arch_list(),
        "visible": os.environ.get(gpus.VISIBLE),
        "cards": [
            {"name": c.name, "memory_gib": round(c.total_memory / 2**30, 1), "capability": f"{c.major}.{c.minor}"}
            for c in cards
        ],
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


def write_report(path: Path, settings: DeviceSettings, rows: Sequence[CheckRow], seconds: float) -> None:
    """Write what was found, and on which machine."""
    write_json(path, {
        "device": settings.device,
        "seconds": round(seconds),
        "environment": describe_machine(settings.device),
        "checks": [dict(zip(HEADS, map(anonymise, row.cells()), strict=True)) for row in rows],
    })  # fmt: skip
