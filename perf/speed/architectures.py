"""Every method on real architectures and real photographs: does a cell start, train, evaluate, and at what cost?

    python -m perf.speed.architectures [--steps 10] [--methods finetune] [--models PE-Core-B-16-short] [--data FOLDER]

Makes a project in a temporary folder with randomly initialised backbones and runs the ordinary commands in it, each in
a process of its own, one cell at a time: prepare, pretrain, train, evaluate. FOLDER (default ../shared/data) holds
`coco/` and `sugarcrepe/` in their official layouts. Loss and accuracy of random weights mean nothing; that there are
some does. Tokenizers of hubs are replaced by the stand-in, so that nothing is fetched. The benchmark is the records of
SugarCrepe's swap_obj.json whose photographs are there: texts of the others would be encoded for nothing.

A model whose name ends in `-short` is that of open_clip with one layer a tower, all else as large as it is; of a
vocabulary from a hub, 32,000 words. What a method reads from lists (negative texts and pictures) is here what belongs
to the next photographs.

Takes half a minute a cell, over an hour for all; needs COCO's and SugarCrepe's files.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, entry
from compclip.base.files import read_json, write_atomic, write_json
from compclip.base.safe_names import SafeName
from compclip.config.cell import Cell
from compclip.interface.method import load_method
from compclip.runs import run_folder
from compclip.runs.run_folder import Published

METHODS = [name for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS]
WHOLE = ("ViT-B-32-quickgelu", "ViT-B-16-quickgelu", "ViT-B-16-SigLIP", "ViT-L-14-quickgelu")
SHORT, LAYERS, WORDS = "-short", 1, 32000
SHORTENED = (
    "ViT-B-32",  # DataComp's, GELU
    "ViT-L-14-CLIPA",
    "ViT-L-14-CLIPS",
    "EVA02-B-16",
    "EVA02-L-14",
    "ViT-B-16-SigLIP",
    "ViT-B-16-SigLIP2",
    "PE-Core-B-16",
    "PE-Core-L-14-336",
    "ViT-H-14-worldwide-quickgelu",  # MetaCLIP 2
)
MODELS = (*WHOLE, *(name + SHORT for name in SHORTENED))
# CLIPS' config is in its repository: towers as CLIPA's, longer texts (the length is from memory, not from the file).
CLIPS = ("ViT-L-14-CLIPA", {"context_length": 80, "tokenizer_mode": "clips", "tokenizer_kwargs": None})
OPTIONS: dict[str, Any] = {
    "clic": {"train": {"trainable": "text"}},
    "ce_clip": {"words": "wordnet"},
    "ahnpl": {"words": "wordnet"},
    "fg_clip": {"region_negatives": 2},
}
PRELOADED = ["timm", "open_clip", "compclip.train.job", "compclip.evaluate.score", "compclip.evaluate.result_store"]
SUBSET = "swap_obj"
METRIC = f"sugarcrepe/{SUBSET}"
BESIDE = "beside.jsonl"
PARAMS = """
grid: {{methods: [{methods}], backbones: [{models}], data: [coco], seeds: [0]}}
train: {{max_steps: {steps}, batch_size: {batch_size}, lr: 1.0e-5, warmup_steps: 1, threads: 1, log_every_steps: 1}}
methods: {tables}
backbones:
{backbones}
data:
  coco:
    source: coco
    path: {at}/coco/annotations/captions_val2017.json
    images: {at}/coco/val2017
    captioner: none
    captions: {{file: beside.jsonl, on: image, column: caption}}
    relatives: true
    texts:
      negative: {{file: beside.jsonl, on: image, column: [text_1, text_2]}}
      paraphrase: {{file: beside.jsonl, on: image, column: caption}}
      absent: {{file: beside.jsonl, on: image, column: caption}}
    negative_images: {{file: beside.jsonl, on: image, column: [image_1, image_2], images: {at}/coco/val2017}}
    regions: {{file: beside.jsonl, on: image, column: regions, negatives: negatives}}
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
    backbones = [f"  {m}: {{model: {_name_or_config_file(root, m)}, weights: random, tokenizer: clip}}" for m in models]
    write_atomic(
        root / "params.yaml",
        PARAMS.format(
            methods=", ".join(methods),
            models=", ".join(models),
            steps=steps,
            batch_size=batch_size,
            backbones="\n".join(backbones),
            at=data.resolve(),
            tables=json.dumps({m: OPTIONS.get(m, {}) for m in methods}),
        ),
    )
    records = read_json(data / "sugarcrepe" / f"{SUBSET}.json")
    write_json(
        root / "sugarcrepe" / f"{SUBSET}.json",
        {k: v for k, v in records.items() if (data / "coco" / "val2017" / v["filename"]).is_file()},
    )
    write_atomic(root / BESIDE, format_negatives(read_json(data / "coco" / "annotations" / "captions_val2017.json")))
    command(root, "compclip.prepare.shard_stages", "--data", "coco")
    command(root, "compclip.prepare.shard_stages", "--data", "coco", "--annotate")


def format_negatives(coco: dict[str, Any]) -> str:
    """A list of what is beside each photograph: the next two, what is said about them, and regions."""
    captions = {a["image_id"]: a["caption"] for a in coco["annotations"]}
    captioned = [(image["file_name"], captions[image["id"]]) for image in coco["images"] if image["id"] in captions]
    rows = []
    for index, (name, caption) in enumerate(captioned):
        (image_1, text_1), (image_2, text_2) = (captioned[(index + step) % len(captioned)] for step in (1, 2))
        neighbours = {"image_1": image_1, "image_2": image_2, "text_1": text_1, "text_2": text_2}
        two_sentences = f"{caption.rstrip('. ')}. {text_1}"  # for methods of long captions
        regions = list_regions(caption, [text_1, text_2])
        rows.append({"image": name, "caption": two_sentences, "regions": regions, **neighbours})
    return "\n".join(map(json.dumps, rows)) + "\n"


def list_regions(caption: str, negatives: list[str]) -> list[dict[str, Any]]:
    """Return two halves of a picture as its regions."""
    boxes = ([0, 0, 0.5, 1], [0.5, 0, 1, 1])
    return [{"box": box, "caption": caption, "negatives": negatives} for box in boxes]


def config(name: str) -> dict[str, Any]:
    """open_clip's config of a model with one layer a tower. Raises UserError for one that it does not know."""
    import open_clip

    source, changed = CLIPS if name == "ViT-L-14-CLIPS" else (name, {})
    if (cfg := open_clip.get_model_config(source)) is None:
        raise UserError(f"model {name}{SHORT}: open_clip knows no {name}")
    vision, text = cfg["vision_cfg"], cfg["text_cfg"] | {"layers": LAYERS} | changed
    if text.get("hf_tokenizer_name"):
        text["vocab_size"] = min(text["vocab_size"], WORDS)
    timm = vision.get("timm_model_name")
    vision |= {"timm_model_name": _timm_name(timm)} if timm else {"layers": LAYERS}
    return cfg | {"vision_cfg": vision, "text_cfg": text}


def _name_or_config_file(root: Path, name: str) -> str:
    """What params.yaml calls a model: its name, or the config file that is written here."""
    if not name.endswith(SHORT):
        return name
    write_json(root / f"{name}.json", config(name.removesuffix(SHORT)))
    return f"{name}.json"


def _timm_name(name: str) -> str:
    return f"{name}{SHORT}".replace("-", "_")


def _register() -> None:
    """Have timm know its towers of one layer; it has no other way to be told of a depth by open_clip."""
    import open_clip
    import timm
    from timm.models import register_model

    configs = [open_clip.get_model_config(name) for name in SHORTENED if name != "ViT-L-14-CLIPS"]
    for name in {cfg["vision_cfg"].get("timm_model_name") for cfg in configs} - {None}:

        def short(_name: str = name, **options: Any) -> Any:
            return timm.create_model(_name, depth=LAYERS, **options)

        short.__name__ = _timm_name(name)
        register_model(short)


def measure(root: Path, method: str, model: str) -> Row:
    """Train and evaluate one cell, read its published files, and remove them: those of a ViT-L take gigabytes."""
    cell = Cell(method, model, "coco", 0)
    command(root, "compclip.train", "--cell", cell.name)
    command(root, "compclip.evaluate", "--cell", cell.name)
    published = Published(root, cell)
    log = [json.loads(line) for line in published.trained.metrics.read_text().splitlines()]
    result = read_json(run_folder.result_path(published.results, SafeName("sugarcrepe", "benchmark")))
    seconds = (log[-1]["time"] - log[0]["time"]) / max(1, len(log) - 1)
    peak_gib = read_json(published.trained.environment)["peak_memory_mib"] / 1024
    for path in (published.trained.path, published.results, root / "store"):
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
    """Run a module's command in the project, offline, in a process of its own that need not import everything anew.

    Raises UserError with its last words where it fails.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_inside, args=(root, module, args))
    process.start()
    process.join()
    if process.exitcode:
        output = (root / "said.txt").read_text(errors="replace").strip()[-600:]
        raise UserError(f"{module} {' '.join(args)}: ended with {process.exitcode}: {output}")


def _inside(root: Path, module: str, args: tuple[str, ...]) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    os.chdir(root)
    with open("said.txt", "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    if any(root.glob(f"*{SHORT}.json")):
        _register()
    sys.argv = [module, *args]
    command_module = importlib.import_module(module)
    command_module = (
        command_module if hasattr(command_module, "main") else importlib.import_module(f"{module}.__main__")
    )
    sys.exit(entry(command_module.main))


def table(rows: list[Row]) -> str:
    """One line a cell."""
    lines = [
        f"{'method':<15} {'architecture':<34} {'batch':>5} {'s/step':>7} {'first loss':>10} {'last loss':>10} "
        f"{METRIC:>20} {'n':>3} {'peak GiB':>9}"
    ]
    lines += [
        f"{r.method:<15} {r.model:<34} {r.batch_size:>5} {r.seconds_per_step:>7.2f} {r.first_loss:>10.4f} "
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
    with tempfile.TemporaryDirectory(prefix="architectures-") as folder:
        root = Path(folder)
        make(root, args.data, args.methods, args.models, args.steps, args.batch_size)
        for model in args.models:
            rows += _measured(root, model, args.methods)
    print(table(rows))
    return int(len(rows) < len(args.models) * len(args.methods))


def _measured(root: Path, model: str, methods: list[str]) -> list[Row]:
    """A model's cells; of one that fails, why."""
    command(root, "compclip.model", "--backbone", model)
    rows = []
    for method in methods:
        try:
            rows.append(_print_row(measure(root, method, model)))
        except UserError as error:
            print(f"{method:<15} {model:<34} failed: {error}", flush=True)
    shutil.rmtree(root / "models" / model)
    return rows


def _print_row(row: Row) -> Row:
    print(table([row]).splitlines()[1], flush=True)
    return row


if __name__ == "__main__":
    sys.exit(entry(main))
