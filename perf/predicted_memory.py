"""Predicted peak memory of a training step beside that of the same step really run here, on the CPU in float32.

    python -m perf.predicted_memory [--methods finetune ...] [--batches 8 32] [--model ViT-B-32]

`compclip doctor --gpu` does this for one method on a GPU; `compclip/doctor/full_step.py` says how a CPU's peak is
measured. Both sides have fused attention, which keeps no matrix of weights: the prediction that of a GPU for float32,
the CPU its own. Beside them stands what torch's MemTracker says of the same steps on fake tensors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from compclip.base.errors import entry
from compclip.doctor import full_step
from compclip.doctor.full_step import TOLERANCE, StepJob
from compclip.train.simulated_step import FIRST_STEPS

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives")
TRACK = "track"  # the first argument of the process that asks torch's tracker


def main(argv: list[str]) -> int:
    """Print predicted and measured peaks; 1 where they differ by more than the doctor tolerates."""
    if argv[:1] == [TRACK]:
        print(track_peak(StepJob(**json.loads(argv[1]))))
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
        measured = full_step.run_apart("measure", job)["peak_bytes"] / 2**20
        predicted = full_step.run_apart("predict", job)["peak_bytes"] / 2**20
        worst = max(worst, abs(predicted / measured - 1))
        row = f"{job.method:<16}{job.batch:>6}{measured:>14.0f}{predicted:>15.0f}{predicted / measured - 1:>+8.1%}"
        print(row + describe_tracked(job, measured), flush=True)
    print(f"largest difference of ours: {worst:.1%}")
    return 1 if worst > TOLERANCE else 0


def describe_tracked(job: StepJob, measured: float) -> str:
    """Return the columns of torch's tracker; the last line of its error where it gives none."""
    command = [sys.executable, "-m", "perf.predicted_memory", TRACK, json.dumps(asdict(job))]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        return "  " + (process.stderr.strip().splitlines() or ["nothing"])[-1][:100]
    tracked = int(process.stdout.split()[-1]) / 2**20
    return f"{tracked:>16.0f}{tracked / measured - 1:>+8.1%}"


def track_peak(job: StepJob) -> int:
    """Return the peak of bytes that torch's MemTracker says of a run's first steps on fake tensors of the CPU."""
    tracker = MemTracker()
    with FakeTensorMode(allow_non_fake_inputs=True), tracker:
        take_step = full_step.open_step(job.build_run(), "cpu")
        for number in range(FIRST_STEPS + 1):
            take_step(number)
            tracker.reset_mod_stats()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


if __name__ == "__main__":
    sys.exit(entry(main))
