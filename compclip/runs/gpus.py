"""The GPUs that this process may use; where one is asked for and none is seen, nothing computes on a CPU in silence."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.lazy_torch import torch

VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_GPU = ("", "-1", "NoDevFiles")  # the last is SLURM's
# `gpus` of the profile that a job was sent with, in the job's environment.
PROFILE_GPUS = "COMPCLIP_GPUS"
CORES = "COMPCLIP_CORES"  # of a process that trains beside others on its machine
SLURM_COUNTS = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
SLURM_CORES = "SLURM_CPUS_PER_TASK"
DEVICES = Path("/dev")
DRIVER = Path("/proc/driver/nvidia/version")


def list_gpus() -> list[str]:
    """Return the ids by which CUDA numbers the GPUs of this process: what `CUDA_VISIBLE_DEVICES` says, else all.

    Device files do not say them: a container with /dev/nvidia3 alone calls it 0. torch counts where there is one: it is
    imported then, which takes seconds.
    """
    visible = os.environ.get(VISIBLE)
    if visible is not None:
        return [name for name in map(str.strip, visible.split(",")) if name not in NO_GPU]
    if not _list_device_files():
        return []
    return [str(index) for index in range(torch.cuda.device_count())]


def _list_device_files() -> list[Path]:
    return sorted([*DEVICES.glob("nvidia[0-9]*"), *DEVICES.glob("dxg")])  # the last is that of WSL


def explain_request() -> tuple[str, str]:
    """Return why this process is to compute on a GPU, and how to ask for a CPU; two empty texts where nothing does."""
    if os.environ.get(PROFILE_GPUS, "0") not in ("", "0"):
        reason = f"{PROFILE_GPUS}={os.environ[PROFILE_GPUS]} (gpus of the profile or allocation) asks for a GPU"
        return reason, "set gpus: 0 in the profile"
    to_cpu = f"set {VISIBLE}="
    if os.environ.get(VISIBLE) is not None:
        ids = list_gpus()
        return (f"{VISIBLE}={','.join(ids)} asks for a GPU", to_cpu) if ids else ("", "")
    for name in SLURM_COUNTS:
        if os.environ.get(name, "0") not in ("", "0"):
            return f"{name}={os.environ[name]} asks for a GPU", to_cpu
    files = _list_device_files()
    return (f"{files[0]} is there", to_cpu) if files else ("", "")


def describe_allocation(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a job of SLURM has, its cores and whether it has GPUs, in the variables of compclip."""
    variables = {CORES: environment[SLURM_CORES]} if SLURM_CORES in environment else {}
    counts = [environment[name] for name in SLURM_COUNTS if environment.get(name, "0") not in ("", "0")]
    if counts and VISIBLE not in environment:
        variables[PROFILE_GPUS] = counts[0]
    return variables


def require_requested() -> None:
    """Raise UserError where a GPU is asked for and torch sees none: a CPU would take days, in silence."""
    reason, to_cpu = explain_request()
    if reason and not torch.cuda.is_available():
        raise UserError(f"{reason}, and torch sees none: {describe_cuda()}; repair that, or {to_cpu} to use the CPU")


def choose_device() -> str:
    """Return `cuda`, or `cpu` where nothing asks for a GPU. Raises UserError where one is asked for and not seen."""
    require_requested()
    return "cuda" if torch.cuda.is_available() else "cpu"


def list_devices(device: str) -> list[str]:
    """Return the devices that a name stands for: `cuda` is every GPU that this process sees, others are themselves."""
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())] if device == "cuda" else [device]


def describe_cuda() -> str:
    """Return the driver, what torch is built for, and which devices are visible: what has to fit for CUDA to work."""
    build = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    visible = os.environ.get(VISIBLE)
    visible_text = "not set" if visible is None else f"{visible!r}"
    return f"driver {read_driver() or 'not loaded'}, torch {torch.__version__} built {build}, {VISIBLE} {visible_text}"


def read_driver() -> str:
    """Return the version of NVIDIA's driver, as 580.65.06; "" where none is loaded."""
    with contextlib.suppress(OSError):
        match = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", DRIVER.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[0]
    return ""
