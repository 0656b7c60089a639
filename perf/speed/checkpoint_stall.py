"""How long a training stands still for a checkpoint: written in line, and by a thread beside it, in one run.

    python -m perf.speed.checkpoint_stall [--model ViT-B-32] [--saves 3] [--folder DIR] [--threads 1]

An open_clip model with random weights and AdamW's state after one step. The ways take turns, another one first each
time, all into the same empty folder. `stand-still` is the time until the training goes on. `beside` makes small matrix
products, as a training makes its steps, until the file is whole: `slower` is what one takes against one without a save,
`longest` the longest of them. The thread shares Python's lock with them, and on a CPU the cores and the memory's rate.
The thread's first save also makes its memory.

Takes 3 minutes with a ViT-B-32; needs 4 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save
from torch import Tensor

from compclip.base.errors import entry
from compclip.base.files import write_atomic
from compclip.config.sections import Train
from compclip.train import checkpoint, optimiser
from compclip.train.checkpoint import CheckpointWriter

SIDE = 256  # of the small products
STALL = "stand-still"  # seconds until the training goes on


def collect_state(model: str) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint of a model behind its first step."""
    clip = open_clip.create_model(model, pretrained=None)
    adamw = optimiser.adamw(clip, Train())
    for parameter in clip.parameters():
        parameter.grad = torch.ones_like(parameter)
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    return checkpoint.collect_tensors(clip, adamw)


def write_as_before(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Write in line by safetensors' `save`, as it was until 2026-11-24."""
    write_atomic(folder / "step.safetensors", save(tensors, {"header": json.dumps({"step": 1})}))


def time_call(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def multiply_until(is_over: Callable[[], bool]) -> list[float]:
    """Return the seconds of each small product until something is over."""
    a = torch.ones(SIDE, SIDE)
    seconds = [time_call(lambda: a @ a)]
    while not is_over():
        seconds.append(time_call(lambda: a @ a))
    return seconds


def save_beside(writer: CheckpointWriter, tensors: dict[str, Tensor], usual: float) -> dict[str, float]:
    """Save by the thread; return what became of the training meanwhile."""
    started = time.perf_counter()
    stand_still = time_call(lambda: writer.save(1, tensors, {}))
    products = multiply_until(lambda: not (writer._thread and writer._thread.is_alive()))
    writer.finish()
    return {
        STALL: stand_still,
        "whole after": time.perf_counter() - started,
        "slower": statistics.mean(products) / usual,
        "longest": max(products),
    }


def main(argv: list[str]) -> int:
    """Print a row a save, and a row a way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="ViT-B-32")
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("--folder", help="on the disk that is to be measured")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tensors = collect_state(args.model)
    print(f"{args.model}: {sum(t.nbytes for t in tensors.values()) / 1e9:.2f} GB a checkpoint", flush=True)
    started = time.perf_counter()
    usual = statistics.mean(multiply_until(lambda: time.perf_counter() - started > 2))
    with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=args.folder) as name:
        folder = Path(name)
        writer = CheckpointWriter(folder)
        ways: list[tuple[str, Callable[[], dict[str, float]]]] = [
            ("in line, as before", lambda: {STALL: time_call(lambda: write_as_before(folder, tensors))}),
            ("in line, today", lambda: {STALL: time_call(lambda: checkpoint.write_tensors(folder, 1, tensors, {}))}),
            ("beside", lambda: save_beside(writer, tensors, usual)),
        ]
        stalls: dict[str, list[float]] = {way: [] for way, _ in ways}
        for number in range(args.saves):
            for way, save_once in ways[number % len(ways) :] + ways[: number % len(ways)]:
                numbers = save_once()
                stalls[way].append(numbers[STALL])
                print(f"{way:<20}", *(f"{key} {value:.3f} " for key, value in numbers.items()), flush=True)
                for path in folder.iterdir():
                    path.unlink()
    for way, seconds in stalls.items():
        middle = statistics.median(seconds)
        ratio = statistics.median(stalls["beside"]) / middle
        print(f"{way}: {STALL} {middle:.3f} s, {min(seconds):.3f} to {max(seconds):.3f}; beside / this {ratio:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
