"""CPU time of a sample in the loader, for each method: decoding, scaling, texts, batching; beside open_clip's own.

    python -m perf.speed.loader [--methods finetune] [--resize torch] [--rounds 3] [--data FOLDER] [--short-side 256]

Makes a project in a temporary folder of the photographs in FOLDER/coco (default ../shared/data), with a tiny model
that takes pictures of 224², and reads whole batches in this process on one thread. The numbers are milliseconds of CPU,
the least of the rounds, in which all ways take turns. `open_clip` is its evaluation transform with its tokenizer and
torch's DataLoader at the same pictures. `--short-side` is `data.coco.short_side`. To see
another checkout's numbers, run this file with that checkout in PYTHONPATH.

Takes 3 minutes; needs COCO's photographs.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import open_clip
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.data import images
from compclip.data.prepared_dataset import PreparedDataset
from compclip.interface.method import load_method
from compclip.interface.views import Step
from compclip.model import backbone
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import Inputs
from compclip.train import fine_tuning, loader
from perf.speed import architectures

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives", "triplet_clip")
BATCH = 32
TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 224, "patch_size": 32, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}


class Captioned(Dataset):
    """Pictures and first captions, as open_clip's own dataset of a table reads them."""

    def __init__(self, data: PreparedDataset, model: ClipModel) -> None:
        self.data = data
        self.transform, self.tokenizer = model.transform, open_clip.SimpleTokenizer()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        picture = Image.open(io.BytesIO(images.read_bytes(self.data.sample(index).picture)))
        return self.transform(picture), self.tokenizer([self.data.annotation(index, 0).text])[0]


def open_reader(root: Path, method_name: str, resize: str, model: ClipModel) -> Callable[[], int]:
    """Return what reads all batches of an epoch of a method, and gives the number of samples."""
    overrides = ["train.resize=torch"] if resize == "torch" else []
    run = grid.resolve(read.load_params(str(root / "params.yaml"), overrides), f"{method_name}-tiny-coco-0")
    method = load_method(run.method_name)
    sampler = fine_tuning.build_sampler(run, method, model, Inputs(root, run.cell))

    def read_epoch() -> int:
        steps = range(sampler.per_epoch)
        with loader.open_batches(
            sampler, lambda step: method.views(run.method, Step(step, sampler.per_epoch)), model, steps, 0
        ) as batches:
            return sum(sampler.batch_size for _ in batches)

    return read_epoch


def measure(readers: dict[tuple[str, str], Callable[[], int]], rounds: int) -> dict[tuple[str, str], float]:
    """Return milliseconds of CPU a sample, the least of the rounds; every reader has its turn in each round."""
    times: dict[tuple[str, str], list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            started = time.process_time()
            samples = reader()
            times[name].append((time.process_time() - started) / samples * 1000)
    return {name: min(values) for name, values in times.items()}


def main(argv: list[str]) -> int:
    """Print a row a method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--resize", nargs="+", default=["pil", "torch"], choices=["pil", "torch"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--short-side", type=int, default=0)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="loader-") as folder:
        root = Path(folder)
        architectures.make(root, args.data.resolve(), args.methods, ["tiny"], 1, BATCH)
        section = f"data.coco.short_side={args.short_side}"
        architectures.command(root, "compclip.prepare.shard_stages", "--data", "coco", "--annotate", section)
        write_json(root / "tiny.json", TINY)
        model = backbone.create(str(root / "tiny.json"), seed=0)
        os.chdir(root)
        readers = {(m, r): open_reader(root, m, r, model) for m in args.methods for r in args.resize}
        theirs = DataLoader(Captioned(PreparedDataset(Path("data/coco")), model), batch_size=BATCH, drop_last=True)
        readers["open_clip", "pil"] = lambda: sum(len(pictures) for pictures, _ in theirs)
        numbers = measure(readers, args.rounds)
    print(f"{'ms of CPU a sample':<20}" + "".join(f"{way:>9}" for way in args.resize))
    for name in (*args.methods, "open_clip"):
        print(f"{name:<20}" + "".join(f"{numbers[name, way]:9.2f}" for way in args.resize if (name, way) in numbers))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
