"""One run from its backbone to its finished files, in a process of its own: `python -m compclip.train.job KEY`.

Reads run.yaml in the run's folder of the store, where whoever sent it wrote it. Killed, the same command goes on from
the last complete checkpoint. The code is whatever `compclip` this process imports.
"""

from __future__ import annotations

import os
import platform
import resource
import socket
import subprocess
import sys
import time
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch

from compclip.base import messages
from compclip.base.errors import UserError, entry
from compclip.base.files import fingerprint, hash_file, write_atomic, write_sealed
from compclip.base.shared_folders import read_user
from compclip.data import column_hashes
from compclip.interface.method import load_method
from compclip.runs import gpus, key_parts, lock, progress, run_store
from compclip.runs.progress import Follower
from compclip.runs.run_folder import METRICS_HASH, REPLACED, Inputs
from compclip.runs.run_store import StoredRun
from compclip.train import distributed, fine_tuning, optimiser, process_group, saved_model, validation, view_shares
from compclip.train.recorder import OnStep, do_nothing, recording, sum_over_processes

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

PACKAGES = ("torch", "open_clip_torch", "numpy", "pyarrow", "omegaconf")  # whose versions environment.json has


def hold_and_complete(run: StoredRun) -> None:
    """Train a run unless it is finished; of several processes the first one holds the lock."""
    with process_group.session() as here:
        if here.rank:
            complete_run(run)
            return
        with lock.hold(run.folder, Follower(run), here.world):
            complete_run(run)


def complete_run(run: StoredRun, on_step: OnStep = do_nothing) -> None:
    """Train and write the finished files, unless the run is finished; `on_step` looks at the model on the way.

    A finished run that lacks snapshots is trained again for these. Every process of the run calls this; the first one
    holds its lock.
    """
    process = distributed.current_process()
    trains = load_method(run.run.method_name).TRAINS
    finished, complete = distributed.broadcast_first(
        (run.adopt_if_finished(), run.adopt_if_complete()) if process.rank == 0 else (False, False)
    )
    if trains and not complete and process.rank == 0:
        column_hashes.check_files(Inputs(run.root, run.cell).data)
    if finished:
        if not complete:
            saved_model.train_again(run, on_step)
        return
    if run.shares:
        on_step = saved_model.SnapshotWriter(run, run.folder.path, on_step)
    started = time.monotonic()
    if process.rank == 0:
        key_parts.write_parts(run.folder, key_parts.describe_key(run.run, run.root))
    validator = validation.open_validator(run, process.world) if trains and process.rank == 0 else None
    with recording(run.run, run.folder.path, on_step, validator) as recorder:
        model = fine_tuning.fine_tune(run.run, run.root, recorder)
    counts = sum_over_processes(recorder.counts)
    if process.rank == 0:
        facts: dict[str, Any] = optimiser.count_parameters(model.clip)
        if model.head is not None:
            facts["trained_parameters"] += sum(p.numel() for p in model.head.parameters())
        if not trains:
            facts["trained_parameters"] = 0
        facts |= describe_environment(distributed.process_device()) | describe_author()
        if validator:
            facts["validation"] = validator.describe()
        facts |= {
            "arithmetic": recorder.arithmetic,
            "processes": process.world,
            "dropped": counts["dropped"],
            "seconds": round(time.monotonic() - started, 3),
        }
        shares = view_shares.shares(counts)
        if REPLACED in shares:
            messages.warn(f"{run.cell.name}: {progress.describe_replaced(shares[REPLACED])}; see docs/data.md")
        _write_files(run, model, facts | {"view_shares": shares})


def _write_files(run: StoredRun, model: ClipModel, facts: dict[str, Any]) -> None:
    """Write the run's files; environment.json comes last and marks them complete."""
    folder = run.folder
    final = run.folder.final
    folder.check()  # once more: training takes hours
    saved_model.save_model(run.run, run.root, model, final.checkpoint)
    saved_model.link_equal_files(final.checkpoint, Inputs(run.root, run.cell))
    write_atomic(final.config, run.config_text())
    write_atomic(final.metrics, folder.metrics.read_bytes() if folder.metrics.exists() else b"")
    identity = {
        "run_key": run.key,
        "data_fingerprint": run.data_fingerprint,
        "weights_fingerprint": fingerprint(final.checkpoint),
        METRICS_HASH: hash_file(final.metrics),
    }
    write_sealed(final.environment, {**identity, **facts, "device_seconds": progress.sum_device_seconds(folder)})
    for path in folder.checkpoints():
        path.unlink()


def describe_environment(device: str) -> dict[str, Any]:
    """Return versions, device, threads, git commit and peak memory (MiB) of this process."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "cuda": torch.version.cuda or "",
        "driver": gpus.read_driver(),
        "device": torch.cuda.get_device_name(device) if device != "cpu" else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "git_commit": _describe_commit(),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    if device != "cpu":
        facts["peak_device_memory_mib"] = round(torch.cuda.max_memory_allocated(device) / 2**20)
    return facts


def _describe_commit() -> str:
    """Return the checked-out commit, with `+` where tracked files differ; "" outside a repository."""
    try:
        head = _run_git("rev-parse", "HEAD")
        changes = _run_git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changes else "")


def _run_git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()


def describe_author() -> dict[str, Any]:
    """Return user, host, parent process and git branch of this process; what is not known is ""."""
    try:
        branch = _run_git("rev-parse", "--abbrev-ref", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        branch = ""
    return {
        "user": read_user(os.getuid()),
        "host": socket.gethostname(),
        "started_by": os.getppid(),
        "git_branch": branch,
    }


def parse_key(argv: list[str]) -> str:
    """Return the only argument of a job. Raises UserError for more, or for none."""
    if len(argv) != 1:
        raise UserError(f"job: {len(argv)} arguments; give one run key, whose folder is in the store")
    return argv[0]


def main(argv: list[str]) -> int:
    """Train one run, up to its checkpoint."""
    hold_and_complete(run_store.load_sent_run(parse_key(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
