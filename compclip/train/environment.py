"""What a result was made with: versions, device, commit, peak memory."""

from __future__ import annotations

import platform
import resource
import subprocess
from importlib import metadata

import torch

PACKAGES = ("torch", "open_clip_torch", "numpy", "pyarrow", "omegaconf")


def describe_environment(device: str) -> dict:
    """Return versions, device, threads, git commit and peak memory (MiB) of this process."""
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    on_device = {} if device == "cpu" else {"peak_device_memory_mib": torch.cuda.max_memory_allocated(device)}
    return {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name(device) if device != "cpu" else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "git_commit": commit(),
        "peak_memory_mib": round(peak_kib / 1024),
    } | {name: round(size / 2**20) for name, size in on_device.items()}


def commit() -> str:
    """Return the checked-out commit, with `+` where tracked files differ; "" outside a repository."""
    head = _git("rev-parse", "HEAD")
    return head + ("+" if head and _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*args: str) -> str:
    try:
        return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
