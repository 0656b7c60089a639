"""Predicted peak memory of a training step beside that of the same step really run here, on the CPU in float32.

    python -m perf.speed.predicted_memory [--methods finetune ...] [--batches 8 32] [--model ViT-B-32]

`compclip doctor --gpu` does this for one method on a GPU. Measured is here, in a process of its own, by how much
anonymous memory grew from before the model was built to the peak. Tensors of 64 KiB and more have pages of their own,
which go back when they are freed: else the measure would be glibc's heap. Both sides have fused attention, which keeps
no matrix of weights: the prediction that of a GPU for float32, the CPU its own. Beside them stands what torch's
MemTracker says of the same steps on fake tensors.

Takes half a minute a method and batch; needs 8 GB of memory for a ViT-B-32.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from compclip.base.errors import entry
from compclip.doctor import device_checks
from compclip.doctor.device_checks import TOLERANCE, StepJob
from compclip.interface.method import load_method
from compclip.runs.gpus import VISIBLE
from compclip.train.simulated_step import FIRST_STEPS
from compclip.train.throughput import count_turns

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives")
# the first argument of a process that asks torch's tracker, or measures
TRACK = "track"
MEASURE = "measure"
EVERY_S = 0.002
LARGE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_TRIM_THRESHOLD_": str(1 << 16), "MALLOC_ARENA_MAX": "1"}


def main(argv: list[str]) -> int:
    """Print predicted and measured peaks; 1 where they differ by more than the doctor tolerates."""
    if argv[:1] in ([TRACK], [MEASURE]):
        job = StepJob(**json.loads(argv[1]))
        print(track_peak(job) if argv[0] == TRACK else measure_peak(job))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--batches", nargs="+", type=int, default=(8, 32))
    parser.add_argument("--model", default="ViT-B-32")
    args = parser.parse_args(argv)
    worst = 0.0
    heads = f"{'method':<16}{'batch':>6}{'measured MiB':>14}{'predicted MiB':>15}{'off':>8}"
    print(heads + f"{'MemTracker MiB':>16}{'off':>8}")
    for job in (StepJob(method, args.model, batch) for method in args.methods for batch in args.batches):
        measured = int(run_apart(MEASURE, job).stdout.split()[-1]) / 2**20
        predicted = device_checks.predict_apart(job)["peak_bytes"] / 2**20
        worst = max(worst, abs(predicted / measured - 1))
        row = f"{job.method:<16}{job.batch:>6}{measured:>14.0f}{predicted:>15.0f}{predicted / measured - 1:>+8.1%}"
        print(row + describe_tracked(job, measured), flush=True)
    print(f"largest difference of ours: {worst:.1%}")
    return 1 if worst > TOLERANCE else 0


def run_apart(action: str, job: StepJob) -> subprocess.CompletedProcess[str]:
    """Track or measure a step in a process of its own, without GPUs."""
    command = [sys.executable, "-m", "perf.speed.predicted_memory", action, json.dumps(asdict(job))]
    return subprocess.run(command, env={**os.environ, **LARGE, VISIBLE: ""}, capture_output=True, text=True)


def describe_tracked(job: StepJob, measured: float) -> str:
    """Return the columns of torch's tracker; the last line of its error where it gives none."""
    process = run_apart(TRACK, job)
    if process.returncode:
        return "  " + (process.stderr.strip().splitlines() or ["nothing"])[-1][:100]
    tracked = int(process.stdout.split()[-1]) / 2**20
    return f"{tracked:>16.0f}{tracked / measured - 1:>+8.1%}"


def measure_peak(job: StepJob) -> int:
    """Return by how many bytes this process's memory grew over a run's first steps on the CPU."""
    torch.set_num_threads(job.threads)
    run = job.build_run()
    device_checks.warm_libraries("cpu")
    watch = PeakWatch()
    watch.start()
    take_step = device_checks.open_step(run, "cpu")
    for number in range((FIRST_STEPS + 1) * count_turns(load_method(job.method), run.method)):
        take_step(number)
    return watch.stop()


class PeakWatch(threading.Thread):
    """Looks at this process's anonymous memory, again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.peak_bytes = read_anonymous_bytes()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Look until `stopped` is set."""
        while not self.stopped.wait(EVERY_S):
            self.peak_bytes = max(self.peak_bytes, read_anonymous_bytes())

    def stop(self) -> int:
        """Return by how much the memory grew."""
        self.stopped.set()
        self.join()
        return self.peak_bytes - self.start_bytes


def read_anonymous_bytes() -> int:
    """Return this process's anonymous memory."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


def track_peak(job: StepJob) -> int:
    """Return the peak of bytes that torch's MemTracker says of a run's first steps on fake tensors of the CPU."""
    tracker = MemTracker()
    with FakeTensorMode(allow_non_fake_inputs=True), tracker:
        take_step = device_checks.open_step(job.build_run(), "cpu")
        for number in range(FIRST_STEPS + 1):
            take_step(number)
            tracker.reset_mod_stats()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


if __name__ == "__main__":
    sys.exit(entry(main))
