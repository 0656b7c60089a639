"""All checks of a device, in their order, and the file that tells of them."""

from __future__ import annotations

import functools
import os
import platform
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from compclip.base.files import write_json
from compclip.doctor import drawn_samples, full_step, gradient_accuracy
from compclip.doctor.check_rows import (
    HEADS,
    SKIPPED,
    CheckRow,
    anonymise,
    catch_errors,
)
from compclip.doctor.full_step import StepJob
from compclip.runs import gpus
from compclip.train import job

MODEL = "ViT-B-32"  # whose step is timed
BATCHES = {"cuda": 256, "cpu": 8}  # of its step


def run_checks(device: str, methods: Sequence[str], minutes: float) -> Iterator[CheckRow]:
    """Yield the rows of all checks; one that fails by an error leaves the others alone.

    None is begun after so many minutes.
    """
    end = time.monotonic() + 60 * minutes
    precision = "float32" if device == "cpu" else "bf16"
    step = StepJob("finetune", MODEL, BATCHES[device], precision, torch.get_num_threads())
    small = drawn_samples.SMALL
    checks: dict[str, Callable[[], Iterable[CheckRow]]] = {}
    checks["step"] = functools.partial(full_step.check_step, step, device)
    for method in methods:
        checks[f"gradients {method}"] = functools.partial(gradient_accuracy.check_gradients, [method], device, small)
    checks[gradient_accuracy.CHECK_NAME] = functools.partial(gradient_accuracy.check_processes, methods, device, small)
    for name, check in checks.items():
        if time.monotonic() < end:
            yield from catch_errors(name, check)
        else:
            yield CheckRow(name, state=SKIPPED, reason=f"the {minutes:g} minutes are over")


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


def write_report(path: Path, device: str, rows: Sequence[CheckRow], seconds: float) -> None:
    """Write what was found, and on which machine."""
    write_json(path, {
        "device": device,
        "seconds": round(seconds),
        "environment": describe_machine(device),
        "checks": [dict(zip(HEADS, map(anonymise, row.cells()), strict=True)) for row in rows],
    })  # fmt: skip
