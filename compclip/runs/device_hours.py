"""Hours that runs took: GPU-hours, or process-hours of those on a CPU, whatever their threads. They are never added."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.runs.run_folder import RunFolder

GPU_HOURS, PROCESS_HOURS = "GPU-hours", "process-hours"


def is_on_gpu(facts: Mapping[str, Any]) -> bool:
    """Return whether a finished run computed on a GPU, by its environment.json."""
    return "peak_device_memory_mib" in facts


def ran_on_gpu(folder: RunFolder) -> bool:
    """Return whether a run computes on a GPU: by its facts when it is finished, until then by who works on it."""
    if facts := folder.final.facts():
        return is_on_gpu(facts)
    for path in folder.lives.glob("*.json"):
        with contextlib.suppress(OSError, UserError):  # being written, or not by us
            if read_mapping(path).get("gpu"):
                return True
    return False


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
