"""Predicted peak memory of a training step beside that of the same step really run here, on the CPU in float32.

    python -m perf.predicted_memory [--methods finetune ...] [--batches 8 32] [--model ViT-B-32]

Each step runs in a process of its own. Measured is by how much its anonymous memory grew from before the model was
built to the peak. Tensors of 64 KiB and more have pages of their own there, which go back when they are freed: else the
measure would be glibc's heap. Both sides have fused attention, which keeps no matrix of weights: the prediction that of
a GPU for float32, the CPU its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

from compclip.base.errors import entry
from compclip.config.grid import Cell, Run
from compclip.config.sections import Backbone, Data, Train
from compclip.interface.method import load_method
from perf.checkout import ROOT

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives")
EVERY_S = 0.002
THREADS = 2
LARGE = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_TRIM_THRESHOLD_": str(1 << 16), "MALLOC_ARENA_MAX": "1"}


def make_run(method: str, batch: int, model: str) -> Run:
    """A run of a method as it is configured by default."""
    train = Train(batch_size=batch, threads=THREADS)
    return Run(Cell(method, "b", "d", 0), load_method(method).Config(), train, Backbone(model=model), Data())


def predict(run: Run) -> float:
    """Return the predicted peak, in MiB."""
    from compclip.launch.card_costs import CostPredictor, find_card

    return CostPredictor(replace(find_card("h200-141gb"), memory_gib=1e6)).predict(run).configured.peak_bytes / 2**20


def anonymous_mib() -> float:
    """Return this process's anonymous memory."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


class PeakWatch(threading.Thread):
    """Looks at this process's anonymous memory, again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_mib = self.peak_mib = anonymous_mib()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Look until `stopped` is set."""
        while not self.stopped.wait(EVERY_S):
            self.peak_mib = max(self.peak_mib, anonymous_mib())

    def stop(self) -> float:
        """Return by how much the memory grew."""
        self.stopped.set()
        self.join()
        return self.peak_mib - self.start_mib


def measure(run: Run) -> float:
    """Return by how much memory grew over a run's first steps, in MiB."""
    import torch

    torch.set_num_threads(run.train.threads)
    layer = torch.nn.Linear(256, 256)  # what libraries make once, they make before
    layer(torch.ones(256, 256)).sum().backward()
    watch = PeakWatch()
    watch.start()
    take_steps(run)
    return watch.stop()


def take_steps(run: Run) -> None:
    """Train as `simulated_step` does, with contents, on the CPU."""
    import torch

    from compclip.interface.views import Step
    from compclip.launch.card_costs import count_turns
    from compclip.model import backbone, clip_model
    from compclip.model.clip_model import ClipModel
    from compclip.model.tokenizers import TokenLayout
    from compclip.train import accumulate, extras, fine_tuning, optimiser, simulated_step

    cfg, method = run.train, load_method(run.method_name)
    model_cfg = backbone.read_architecture(run.backbone.model)
    clip = clip_model.build_module(model_cfg)
    clip.layout = TokenLayout()
    model = ClipModel(clip, None, None, model_cfg, {}, "")
    if method.needs_bias(run.method):
        model.add_bias(run.method.init_bias)
    frozen = optimiser.freeze(clip, cfg, run.cell.seed)
    extra_parts = extras.create_extras(method, run.method, model, run.cell.seed)
    adamw = optimiser.adamw(clip, cfg, extra_parts.parameters())
    computer = accumulate.GradientComputer(
        clip, frozen, lambda: torch.autocast("cpu", enabled=False), cfg.micro_batch, extra_parts
    )
    turns = count_turns(method, run.method)
    clip.train()
    for number in range((simulated_step.FIRST_STEPS + 1) * turns):
        step = Step(number, simulated_step.PER_EPOCH)
        views = method.views(run.method, step)
        batch = simulated_step.build_batch(views, cfg.batch_size, model)
        adamw.zero_grad(set_to_none=True)
        computer.compute_gradients(batch, views, lambda f, step=step: method.loss(f, run.method, step))
        fine_tuning.update(model, adamw, cfg.lr, cfg, extra_parts)


def measure_apart(method: str, batch: int, model: str) -> float:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "perf.predicted_memory", "--one", method, str(batch), model]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | LARGE, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main(argv: list[str]) -> int:
    """Print predicted and measured peaks; 1 where they differ by more than 15 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--batches", nargs="+", type=int, default=(8, 32))
    parser.add_argument("--model", default="ViT-B-32")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "BATCH", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(make_run(args.one[0], int(args.one[1]), args.one[2]))))
        return 0
    worst = 0.0
    print(f"{'method':<16}{'batch':>6}{'predicted MiB':>15}{'measured MiB':>14}{'difference':>12}")
    for method in args.methods:
        for batch in args.batches:
            predicted = predict(make_run(method, batch, args.model))
            measured = measure_apart(method, batch, args.model)
            off = predicted / measured - 1
            worst = max(worst, abs(off))
            print(f"{method:<16}{batch:>6}{predicted:>15.0f}{measured:>14.0f}{off:>+12.1%}", flush=True)
    print(f"largest difference: {worst:.1%}")
    return 1 if worst > 0.15 else 0


if __name__ == "__main__":
    sys.exit(entry(main))
