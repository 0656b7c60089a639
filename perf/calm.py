"""What two busy processes cost a training with two threads, and what threads that sleep while they wait change.

    python perf/calm.py [--threads 2] [--busy 2] [--seconds 10] [--rounds 3]

Trains the embedded world's architecture on noise in a process of its own: alone and beside busy processes, with waiting
threads asleep (`calm`) and as OpenMP has them by default (`spinning`), in turn. All processes stay on as many cores as
there are threads. The fair share of T threads beside B busy processes is T / (T + B) of what they do alone. Figures
are medians over the rounds; on a machine that does other work too, the ratios within one round say more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from compclip.base import calm

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = str(ROOT / "experiments" / "backbones" / "scenes.json")
BUSY = "while True: pass"
BATCH, TEXT = 64, "a crimson star stands above a big blue anchor"


def train(threads: int, seconds: float) -> float:
    """Samples a second of plain fine-tuning on noise."""
    import torch

    from compclip.model import backbone, towers
    from compclip.train import losses

    torch.set_num_threads(threads)
    model = backbone.create(ARCHITECTURE)
    pixels, ids = torch.randn(BATCH, 3, 64, 64), model.tokenize([TEXT] * BATCH)
    adamw = torch.optim.AdamW(model.clip.parameters(), fused=True)

    def step() -> None:
        adamw.zero_grad()
        images, texts = towers.image(model.clip, pixels)[0], towers.text(model.clip, ids)[0]
        losses.clip(images, texts, model.clip.logit_scale.exp()).backward()
        adamw.step()

    step()
    started, steps = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        step()
        steps += 1
    return steps * BATCH / (time.perf_counter() - started)


def measured(args: argparse.Namespace, busy: int, quiet: bool) -> float:
    """Samples a second of a training in a process of its own, beside some busy ones."""
    environment = {k: v for k, v in os.environ.items() if k not in (*calm.CHOICES, "OMP_NUM_THREADS")}
    environment |= calm.settings(environment) if quiet else {}
    beside = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        command = [sys.executable, __file__, "--child", "--threads", str(args.threads), "--seconds", str(args.seconds)]
        return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    finally:
        for process in beside:
            process.kill()
            process.wait()


def main() -> int:
    """A row a round, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(train(args.threads, args.seconds)))
        return 0
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    kinds = [(quiet, busy) for quiet in (True, False) for busy in (0, args.busy)]
    found: dict[tuple[bool, int], list[float]] = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        for quiet, busy in kinds:
            found[quiet, busy].append(measured(args, busy, quiet))
        print(f"round {number + 1}:", {k: round(v[-1], 1) for k, v in found.items()}, flush=True)
    share = args.threads / (args.threads + args.busy)
    for quiet, name in ((True, "calm"), (False, "spinning")):
        alone, beside = (statistics.median(found[quiet, busy]) for busy in (0, args.busy))
        print(
            f"{name:<9} alone {alone:6.0f} samples/s, beside {args.busy} busy processes {beside:6.0f}: "
            f"{beside / alone:.2f} of it (fair share {share:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
