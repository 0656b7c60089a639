"""Every method on real architectures and real photographs: does a cell start, train, evaluate, and at what cost?

    python -m perf.architectures [--steps 10] [--methods finetune clic] [--models ViT-B-32-quickgelu] [--data FOLDER]

Makes a project in a temporary folder with randomly initialised backbones and runs the ordinary commands in it, each in
a process of its own, one cell at a time: prepare, pretrain, train, evaluate. FOLDER (default ../shared/data) holds
`coco/` and `sugarcrepe/` in their official layouts. Loss and accuracy of random weights mean nothing; that there are
some does. SigLIP's tokenizer is replaced by the stand-in, so that nothing is fetched. The benchmark is the records of
SugarCrepe's swap_obj.json whose photographs are there: texts of the others would be encoded for nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from compclip.base import plugins
from compclip.base.errors import UserError, entry
from compclip.base.files import read_json, write_atomic, write_json
from compclip.config.sections import Cell
from compclip.runs import folder
from compclip.runs.folder import Published

METHODS = [name for name in plugins.names(plugins.METHODS) if plugins.find(plugins.METHODS, name).TRAINS]
MODELS = ("ViT-B-32-quickgelu", "ViT-B-16-quickgelu", "ViT-B-16-SigLIP", "ViT-L-14-quickgelu")
SUBSET = "swap_obj"
METRIC = f"sugarcrepe/{SUBSET}"
PARAMS = """
grid: {{methods: [{methods}], backbones: [{models}], data: [coco], seeds: [0]}}
train: {{max_steps: {steps}, batch_size: {batch_size}, lr: 1.0e-5, warmup_steps: 1, threads: 1, log_every_steps: 1}}
methods: {{{tables}}}
backbones:
{backbones}
data:
  coco: {{source: coco, path: {at}/coco/annotations/captions_val2017.json, images: {at}/coco/val2017, captioner: none}}
benchmarks: {{sugarcrepe: {{path: sugarcrepe, images: {at}/coco/val2017, split: swap_obj}}}}
evaluate: {{benchmarks: [sugarcrepe], batch_size: 16, threads: 1}}
"""


@dataclass(frozen=True)
class Row:
    """What one cell showed."""

    method: str
    model: str
    batch_size: int
    seconds_per_step: float
    first_loss: float
    last_loss: float
    metric: float
    scored: int
    peak_gib: float


def make(root: Path, data: Path, methods: list[str], models: list[str], steps: int, batch_size: int) -> None:
    """The project: parameters, annotated photographs."""
    backbones = "\n".join(f"  {m}: {{model: {m}, weights: random, tokenizer: clip}}" for m in models)
    write_atomic(
        root / "params.yaml",
        PARAMS.format(
            methods=", ".join(methods),
            models=", ".join(models),
            steps=steps,
            batch_size=batch_size,
            backbones=backbones,
            at=data.resolve(),
            tables=", ".join(f"{m}: {{train: {{trainable: text}}}}" if m == "clic" else f"{m}: {{}}" for m in methods),
        ),
    )
    records = read_json(data / "sugarcrepe" / f"{SUBSET}.json")
    write_json(
        root / "sugarcrepe" / f"{SUBSET}.json",
        {k: v for k, v in records.items() if (data / "coco" / "val2017" / v["filename"]).is_file()},
    )
    command(root, "compclip.data.prepare", "--data", "coco")
    command(root, "compclip.data.prepare", "--data", "coco", "--annotate")


def measure(root: Path, method: str, model: str) -> Row:
    """Train and evaluate one cell, read its published files, and remove them: those of a ViT-L take gigabytes."""
    cell = Cell(method, model, "coco", 0)
    command(root, "compclip.train", "--cell", cell.name)
    command(root, "compclip.evaluate", "--cell", cell.name)
    made = Published(root, cell)
    log = [json.loads(line) for line in made.trained.metrics.read_text().splitlines()]
    result = read_json(folder.result(made.results, "sugarcrepe"))
    seconds = (log[-1]["time"] - log[0]["time"]) / max(1, len(log) - 1)
    peak_gib = read_json(made.trained.environment)["peak_memory_mib"] / 1024
    for path in (made.trained.path, made.results, root / "store"):
        shutil.rmtree(path)
    return Row(
        method,
        model,
        log[0]["samples"],
        round(seconds, 2),
        log[0]["loss"],
        log[-1]["loss"],
        result["metrics"][METRIC.partition("/")[2]],
        result["counts"]["scored"],
        round(peak_gib, 1),
    )


def command(root: Path, module: str, *args: str) -> None:
    """Run a module's command in the project, offline. Raises UserError with its last words where it fails."""
    code = Path(__file__).resolve().parent.parent
    env = {**os.environ, "PYTHONPATH": str(code), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-m", module, *args], cwd=root, env=env, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{module} {' '.join(args)}: ended with {done.returncode}: {done.stderr.strip()[-600:]}")


def table(rows: list[Row]) -> str:
    """One line a cell."""
    lines = [
        f"{'method':<15} {'architecture':<20} {'batch':>5} {'s/step':>7} {'first loss':>10} {'last loss':>10} "
        f"{METRIC:>20} {'n':>3} {'peak GiB':>9}"
    ]
    lines += [
        f"{r.method:<15} {r.model:<20} {r.batch_size:>5} {r.seconds_per_step:>7.2f} {r.first_loss:>10.4f} "
        f"{r.last_loss:>10.4f} {r.metric:>20.4f} {r.scored:>3} {r.peak_gib:>9.1f}"
        for r in rows
    ]
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Print a line as each cell ends, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    args = parser.parse_args(argv)
    if not (args.data / "coco").is_dir() or not (args.data / "sugarcrepe").is_dir():
        print(f"skipped: {args.data} has no coco and sugarcrepe folders; give theirs with --data")
        return 0
    rows = []
    with tempfile.TemporaryDirectory(prefix="architectures-") as made:
        root = Path(made)
        make(root, args.data, args.methods, args.models, args.steps, args.batch_size)
        for model in args.models:
            command(root, "compclip.model", "--backbone", model)
            rows += [_shown(measure(root, method, model)) for method in args.methods]
            shutil.rmtree(root / "models" / model)
    print(table(rows))
    return 0


def _shown(row: Row) -> Row:
    print(table([row]).splitlines()[1], flush=True)
    return row


if __name__ == "__main__":
    sys.exit(entry(main))
