"""Training speed of every method on a full-size model: samples/s, share of time without data.

    python -m perf.speed.throughput [--model ViT-B-32-quickgelu] [--batch 256] [--workers 16] [--steps 60] [--methods …]

Makes a project in a temporary folder: drawn JPEGs of 640x480 that cost as much to decode as COCO's, captions that every
rule has something to say of, random weights, and runs `compclip.train` on it, one method after another; bf16 on a GPU,
float32 elsewhere. Speed is read from the run's own log, between its first third and its end, so that start-up does not
count. Texts and pictures that a method reads from lists are those of the next pictures. `--project FOLDER` keeps the
project and takes what is there: captions annotated on a machine with spaCy serve on one without. `compclip doctor
--gpu` measures a step of plain fine-tuning without its data.

Takes a minute a method on a GPU; needs a GPU for numbers that mean something.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from compclip.base import plugins
from compclip.base.errors import UserError, entry
from compclip.base.files import read_json, write_atomic, write_json
from compclip.config.cell import Cell
from compclip.doctor import gradient_accuracy
from compclip.interface.method import load_method
from compclip.runs.run_folder import Published
from perf.speed.architectures import BESIDE, OPTIONS, list_regions

METHODS = [name for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS]
COLOURS, ANIMALS = ("brown", "white", "black", "grey"), ("dog", "horse", "cat", "bird")
PEOPLE, THINGS = ("woman", "man", "boy", "girl"), ("umbrella", "bottle", "book", "apple")
VERBS, PLACES = ("sits", "stands", "sleeps", "jumps"), ("on", "under", "behind", "near")
FURTHER = " The floor is dark."
NEGATIVES = 4  # stored texts of a photograph, of which two are of negative pictures
PHOTOGRAPH = (640, 480)  # width and height, as most of COCO's
DIFFERENT = 256  # photographs; more of them would take minutes to draw
PARAMS = """
grid: {{methods: [{methods}], backbones: [model], data: [photos], seeds: [0]}}
train: {{max_steps: {steps}, batch_size: {batch}, lr: 1.0e-6, precision: {precision}, threads: {threads},
         workers: {workers}, log_every_steps: {every}, checkpoint_every_steps: 0,
         checkpoint_every_min: 0}}
methods: {{{tables}}}
backbones: {{model: {{model: {model}, weights: random, tokenizer: clip}}}}
data:
  photos:
    source: karpathy
    path: train.json
    images: photos
    captioner: none
    relatives: true
    texts:
      negative: {{file: beside.jsonl, on: image, column: [text_1, text_2, text_3, text_4]}}
      paraphrase: {{file: beside.jsonl, on: image, column: paraphrase}}
      absent: {{file: beside.jsonl, on: image, column: paraphrase}}
    negative_images: {{file: beside.jsonl, on: image, column: [image_1, image_2], images: photos}}
    regions: {{file: beside.jsonl, on: image, column: regions, negatives: negatives}}
benchmarks: {{}}
evaluate: {{benchmarks: []}}
"""


def make(root: Path, args: argparse.Namespace) -> float:
    """The project, but for what is there; gives the pictures' mean size in KiB."""
    write_params(root, args)
    if not (root / "train.json").is_file():
        write_captions(root, args.batch * args.pool)
    draw = functools.cache(encode_photograph)
    for index, image in enumerate(read_json(root / "train.json")["images"]):
        path = root / "photos" / image["filename"]
        if not path.is_file():
            write_atomic(path, draw(index % DIFFERENT))
    if not (root / "data" / "photos" / "manifest.json").is_file():
        command(root, "prepare.shard_stages", "--data", "photos")
        command(root, "prepare.shard_stages", "--data", "photos", "--annotate")
    if not (root / "models" / "model").is_dir():
        command(root, "model", "--backbone", "model")
    sizes = [path.stat().st_size for path in (root / "photos").iterdir()]
    return sum(sizes) / len(sizes) / 1024


def encode_photograph(seed: int) -> bytes:
    """A JPEG of PHOTOGRAPH's size, with about as many bytes as a real photograph."""
    out = io.BytesIO()
    gradient_accuracy.draw_picture(np.random.default_rng(seed), PHOTOGRAPH).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_params(root: Path, args: argparse.Namespace) -> None:
    """The grid: every method on one backbone and one data set."""
    write_atomic(
        root / "params.yaml",
        PARAMS.format(
            methods=", ".join(args.methods),
            steps=args.steps,
            batch=args.batch,
            precision="bf16" if torch.cuda.is_available() else "float32",
            tables=", ".join(f"{method}: {json.dumps(OPTIONS.get(method, {}))}" for method in args.methods),
            threads=args.threads,
            workers=args.workers,
            every=max(1, args.steps // 12),
            model=args.model,
        ),
    )


def write_captions(root: Path, count: int) -> None:
    """Write two captions a photograph, of one and two sentences, for every rule, and what is beside each."""
    names = [f"{index:06d}.jpg" for index in range(count)]
    captions = [
        [draw_caption(np.random.default_rng((index, number))) + FURTHER * number for number in range(2)]
        for index in range(count)
    ]
    images = [
        {"filename": name, "split": "train", "sentences": [{"raw": text} for text in texts]}
        for name, texts in zip(names, captions, strict=True)
    ]
    rows = [list_neighbours(index, names, captions) for index in range(count)]
    write_atomic(root / BESIDE, "\n".join(map(json.dumps, rows)) + "\n")
    write_json(root / "train.json", {"images": images})


def list_neighbours(index: int, names: list[str], captions: list[list[str]]) -> dict[str, Any]:
    """Return a row of the list: texts and pictures of the next photographs, the second caption, and regions."""
    following = [(index + shift) % len(names) for shift in range(1, NEGATIVES + 1)]
    texts = {f"text_{number}": captions[neighbour][0] for number, neighbour in enumerate(following, 1)}
    pictures = {f"image_{number}": names[neighbour] for number, neighbour in enumerate(following[:2], 1)}
    regions = list_regions(captions[index][1], list(texts.values()))
    return {"image": names[index], "paraphrase": captions[index][1], **texts, **pictures, "regions": regions}


def draw_caption(rng: np.random.Generator) -> str:
    """Return a sentence with what rules exchange: adjectives, nouns, verbs, a number, prepositions, and "and"."""
    colours, objects = (rng.choice(words, 2, replace=False) for words in (COLOURS, THINGS))
    animal, person, verb, preposition = (rng.choice(words) for words in (ANIMALS, PEOPLE, VERBS, PLACES))
    scene = f"A {colours[0]} {animal} {verb} {preposition} a table"
    return f"{scene} while a {person} holds two {objects[0]}s and a {colours[1]} {objects[1]}."


def command(root: Path, module: str, *args: str) -> None:
    """One of compclip's commands in the project; its output is shown when it fails."""
    process = subprocess.run(
        [sys.executable, "-m", f"compclip.{module}", *args], cwd=root, capture_output=True, text=True
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(f"{module} {' '.join(args)}: exit code {process.returncode}: {lines[-1]}")


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
    return {"speed": speed, "wait": late["data_wait"], "loss": late["loss"],
            "peak_mib": facts.get("peak_device_memory_mib", 0)}  # fmt: skip


def main(argv: list[str]) -> int:
    """Print a row a method; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="ViT-B-32-quickgelu")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pool", type=int, default=20, help="batches that an epoch has")
    parser.add_argument("--project", type=Path, help="a folder that keeps the project (default: a temporary one)")
    args = parser.parse_args(argv)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {args.threads} threads"
    with contextlib.nullcontext(args.project) if args.project else tempfile.TemporaryDirectory() as folder:
        size = make(Path(folder), args)
        print(f"{args.model}, batch {args.batch}, {args.workers} workers, {device}; JPEGs of {size:.0f} KiB")
        print(f"{'method':16}{'samples/s':>10}{'waiting':>9}{'loss':>8}{'device MiB':>12}")
        failed = 0
        for method in args.methods:
            try:
                m = measure(Path(folder), method, args.batch)
            except UserError as error:
                failed += 1
                print(f"{method:16}{error}", flush=True)
                continue
            print(
                f"{method:16}{m['speed']:10.1f}{m['wait']:9.1%}{m['loss']:8.3f}{m['peak_mib']:12.0f}",
                flush=True,
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(entry(main))
