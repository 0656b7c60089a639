"""Peak memory of one training step with and without gradient caching, as the batch grows.

    python perf/gradient_cache.py [--model ViT-B-32-quickgelu] [--micro 32] [--batches 64 128 ...] [--method negclip]

Random weights and a random batch, each step in a process of its own; `above` is the peak over what the process had
with model, batch and gradients in place, so that the batch's own pixels do not count (`batch` says what those are). On
a GPU the peak is the allocator's, else the process's.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import resource
import subprocess
import sys

import torch

from compclip.base import plugins
from compclip.model import backbone
from compclip.train import accumulate
from compclip.train.batch import Batch

TEXT = "a small red star above a large blue anchor and a green heart beside it"


def batch(model: backbone.Model, size: int, K: int, P: int) -> Batch:
    """Random pictures, one text many times, every negative valid."""
    side = model.image_size
    text_L = model.tokenize([TEXT])[0]
    ids = [text_L.expand(*shape, -1).contiguous() for shape in ((size,), (size, K), (size, P))]
    masks = [torch.ones(size, n, dtype=torch.bool) for n in (K, P)]
    return Batch(torch.randn(size, 3, side, side), ids[0], ids[1], masks[0], ids[2], masks[1],
                 torch.tensor([[1, 4]] * size), ids[0][:0], torch.arange(size))  # fmt: skip


def peak_mib(device: str) -> float:
    """So far."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def one(args: argparse.Namespace) -> dict:
    """A step's peak in this process."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(args.threads)
    model = backbone.create(args.model, device=device)
    method = plugins.find("compclip.methods", args.method)
    cfg = method.Config()
    views = method.views(cfg, 0)
    K, P = (1, views.composite - 1) if views.composite else (len(views.negatives), len(views.positives))
    made = batch(model, args.batches[0], K, P)
    for parameter in model.clip.parameters():
        parameter.grad = torch.zeros_like(parameter)
    step = accumulate.Step(model.clip, frozenset(), contextlib.nullcontext, args.micro)
    before = peak_mib(device)
    step.gradients(made, views, functools.partial(method.loss, cfg=cfg, step=0))
    return {"batch": args.batches[0], "micro": args.micro, "above_mib": round(peak_mib(device) - before),
            "batch_mib": round(made.image_B3HW.nbytes / 2**20)}  # fmt: skip


def main() -> int:
    """A table, and the ratio of the last row to the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="ViT-B-32-quickgelu")
    parser.add_argument("--method", default="negclip")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 128, 256, 512, 1024])
    parser.add_argument("--micro", type=int, default=32)
    parser.add_argument("--plain-up-to", type=int, default=256, help="larger plain batches are not tried")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args)))
        return 0
    found: dict[tuple[int, int], float] = {}
    print("batch  pixels MiB  cached MiB  plain MiB")
    for size in args.batches:
        for micro in (args.micro, 0):
            if micro or size <= args.plain_up_to:
                row = _child(args, size, micro)
                found[size, micro] = row["above_mib"]
        plain = found.get((size, 0), "-")
        print(f"{size:5}  {row['batch_mib']:10}  {found[size, args.micro]:10}  {plain:>9}", flush=True)
    first, last = args.batches[0], args.batches[-1]
    print(f"cached, batch {last} / batch {first}: {found[last, args.micro] / found[first, args.micro]:.2f}")
    return 0


def _child(args: argparse.Namespace, size: int, micro: int) -> dict:
    words = ["--one", "--model", args.model, "--method", args.method, "--batches", size, "--micro", micro,
             "--threads", args.threads]  # fmt: skip
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"batch {size}, micro {micro}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
