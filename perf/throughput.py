"""Training speed of every method on a full-size model: samples/s, share of the matrix rate, share of time without data.

    python perf/throughput.py [--model ViT-B-32-quickgelu] [--batch 256] [--workers 16] [--steps 60] [--methods ...]

Makes a project in a temporary folder: JPEGs of 256² pixels and the captions of the embedded world, random weights, and
runs `compclip.train` on it, one method after another; bf16 on a GPU, float32 elsewhere. Speed is read from the run's
own log, between its first third and its end, so that start-up does not count.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from compclip.base import plugins
from compclip.base.files import read_json, write_atomic, write_json
from compclip.config.cell import Cell
from compclip.config.sections import World
from compclip.data.scenes import generate
from compclip.runs.folder import Published

METHODS = [name for name in plugins.names(plugins.METHODS) if plugins.find(plugins.METHODS, name).TRAINS]
SIDE = 256
PARAMS = """
grid: {{methods: [{methods}], backbones: [model], data: [photos], seeds: [0]}}
train: {{max_steps: {steps}, batch_size: {batch}, lr: 1.0e-6, precision: {precision}, threads: {threads},
         workers: {workers}, log_every_steps: {every}, checkpoint_every_steps: 1000000}}
methods: {{{tables}}}
backbones: {{model: {{model: {model}, weights: random, tokenizer: clip}}}}
data: {{photos: {{source: karpathy, path: train.json, images: photos, captioner: none}}}}
benchmarks: {{}}
evaluate: {{benchmarks: []}}
"""


def photograph(index: int) -> bytes:
    """A JPEG with structure at all scales, about as many bytes as a real photograph of this size."""
    rng = np.random.default_rng(index)
    pixels = np.zeros((SIDE, SIDE, 3))
    for scale in (4, 16, 64, 256):
        field = rng.normal(size=(scale, scale, 3)) * 40 * (4 / scale) ** 0.5
        planes = [Image.fromarray(field[..., c]).resize((SIDE, SIDE), Image.Resampling.BICUBIC) for c in range(3)]
        pixels += np.stack([np.asarray(plane) for plane in planes], axis=-1)
    out = io.BytesIO()
    Image.fromarray(np.clip(pixels + 128, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def make(root: Path, args: argparse.Namespace) -> float:
    """The project; gives the pictures' mean size in KiB."""
    count = max(args.batch * args.pool, args.batch)
    generate.generate(World(train=count, retrieval=2, records=2, per_class=1, processes=args.threads), root / "world")
    document = read_json(root / "world" / "train.json")
    sizes = []
    for index, image in enumerate(document["images"]):
        image["filename"] = f"{index:06d}.jpg"
        content = photograph(index)
        sizes.append(len(content))
        write_atomic(root / "photos" / image["filename"], content)
    write_json(root / "train.json", document)
    tables = ", ".join(f"{m}: {{train: {{trainable: text}}}}" if m == "clic" else f"{m}: {{}}" for m in args.methods)
    precision = "bf16" if torch.cuda.is_available() else "float32"
    write_atomic(
        root / "params.yaml",
        PARAMS.format(
            methods=", ".join(args.methods),
            steps=args.steps,
            batch=args.batch,
            precision=precision,
            tables=tables,
            threads=args.threads,
            workers=args.workers,
            every=max(1, args.steps // 12),
            model=args.model,
        ),
    )
    for step in (["data.prepare", "--data", "photos"], ["data.prepare", "--data", "photos", "--annotate"],
                 ["model", "--backbone", "model"]):  # fmt: skip
        command(root, *step)
    return sum(sizes) / len(sizes) / 1024


def command(root: Path, module: str, *args: str) -> None:
    """One of compclip's commands in the project; its output is shown when it fails."""
    done = subprocess.run([sys.executable, "-m", f"compclip.{module}", *args], cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{module} {' '.join(args)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def measure(root: Path, method: str, batch: int) -> dict[str, float]:
    """Train a cell and read its log."""
    cell = Cell(method, "model", "photos", 0)
    command(root, "train", "--cell", cell.name)
    trained = Published(root, cell).trained
    rows = [json.loads(line) for line in trained.metrics.read_text().splitlines()]
    early, late = rows[len(rows) // 3], rows[-1]
    speed = (late["step"] - early["step"]) * batch / (late["time"] - early["time"])
    facts = read_json(trained.environment)
    shutil.rmtree(trained.path)
    shutil.rmtree(root / "store")
    share = late["matrix_share"] * speed / late["samples_per_second"]
    return {"speed": speed, "share": share, "wait": late["data_wait"], "loss": late["loss"],
            "peak_mib": facts.get("peak_device_memory_mib", 0)}  # fmt: skip


def main() -> int:
    """A row a method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="ViT-B-32-quickgelu")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pool", type=int, default=20, help="batches that an epoch has")
    args = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {args.threads} threads"
    with tempfile.TemporaryDirectory(prefix="throughput-") as folder:
        size = make(Path(folder), args)
        print(f"{args.model}, batch {args.batch}, {args.workers} workers, {device}; JPEGs of {size:.0f} KiB")
        print(f"{'method':16}{'samples/s':>10}{'of matrix rate':>16}{'waiting':>9}{'loss':>8}{'device MiB':>12}")
        for method in args.methods:
            m = measure(Path(folder), method, args.batch)
            print(
                f"{method:16}{m['speed']:10.1f}{m['share']:16.1%}{m['wait']:9.1%}{m['loss']:8.3f}{m['peak_mib']:12.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
