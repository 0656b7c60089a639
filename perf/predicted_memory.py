"""Predicted peak memory of a training step beside that of the same step really run here, on the CPU in float32.

    python -m perf.predicted_memory [--methods finetune ...] [--batches 8 32] [--model ViT-B-32]

`compclip doctor --gpu` does this for one method on a GPU; `compclip/doctor/full_step.py` says how a CPU's peak is
measured. Both sides have fused attention, which keeps no matrix of weights: the prediction that of a GPU for float32,
the CPU its own.
"""

from __future__ import annotations

import argparse
import sys

from compclip.base.errors import entry
from compclip.doctor import full_step
from compclip.doctor.full_step import TOLERANCE, StepJob

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives")


def main(argv: list[str]) -> int:
    """Print predicted and measured peaks; 1 where they differ by more than the doctor tolerates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--batches", nargs="+", type=int, default=(8, 32))
    parser.add_argument("--model", default="ViT-B-32")
    args = parser.parse_args(argv)
    worst = 0.0
    print(f"{'method':<16}{'batch':>6}{'predicted MiB':>15}{'measured MiB':>14}{'difference':>12}")
    for job in (StepJob(method, args.model, batch) for method in args.methods for batch in args.batches):
        predicted, measured = (
            full_step.run_apart(action, job)["peak_bytes"] / 2**20 for action in ("predict", "measure")
        )
        off = predicted / measured - 1
        worst = max(worst, abs(off))
        print(f"{job.method:<16}{job.batch:>6}{predicted:>15.0f}{measured:>14.0f}{off:>+12.1%}", flush=True)
    print(f"largest difference: {worst:.1%}")
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(entry(main))
