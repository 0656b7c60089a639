"""How many computed text tokens are useful, and what a step costs, with `train.text_groups` of 1 and of more.

    python -m perf.speed.text_groups [--methods finetune clic] [--groups 1 4] [--batch 64] [--data FOLDER] [--steps 2]

Makes a project in a temporary folder of the photographs in FOLDER/coco (default ../shared/data). The model has the text
tower of a ViT-B/32 with two layers beside a tiny image tower, and random weights. Useful are the positions up to a
text's end token, of texts that are there. Times are CPU seconds of gradients on one thread, the least of the steps, in
which all ways take turns; differences are the largest of any gradient to one group, over the largest gradient.

Takes 2 minutes; needs COCO's photographs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from compclip.base.errors import entry
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.interface.method import load_method
from compclip.interface.views import Step, Views
from compclip.model import backbone
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import Inputs
from compclip.train import accumulate, encode, extras, fine_tuning, loader
from compclip.train.batch import Batch
from perf.speed import architectures

METHODS = ("finetune", "negclip", "fsc_clip", "c2lip", "clic", "hard_positives")
MODEL = {
    "embed_dim": 512,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 64, "layers": 1, "head_width": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 512, "heads": 8, "layers": 2},
}


def count_tokens(batch: Batch, groups: int) -> tuple[int, int]:
    """Return the useful positions of a batch's texts, and those that are computed in so many groups."""
    finest = encode.plan_groups(batch, 77)
    plan = encode.plan_groups(batch, groups)
    text_count = sum(block.ids.shape[:-1].numel() for block in batch.texts.values())
    blocks = [(text_count, batch.text_BL.shape[1])] if plan is None else zip(plan.counts, plan.positions, strict=True)
    useful = zip(finest.counts, finest.positions, strict=True) if finest else [(text_count, batch.text_BL.shape[1])]
    return sum(n * length for n, length in useful), sum(n * length for n, length in blocks)


class Case:
    """A method's first batch, and its gradients with so many groups."""

    def __init__(self, root: Path, name: str, model: ClipModel) -> None:
        run = grid.resolve(read.load_params(str(root / "params.yaml"), []), f"{name}-tiny-coco-0")
        method = load_method(run.method_name)
        sampler = fine_tuning.build_sampler(run, method, model, Inputs(root, run.cell))
        step = Step(0, sampler.per_epoch)
        self.views: Views = method.views(run.method, step)
        with loader.open_batches(sampler, lambda _: self.views, model, range(1), 0) as batches:
            self.batch = next(batches)
        self.loss = functools.partial(method.loss, cfg=run.method, step=step)
        self.extras, self.clip = extras.create_extras(method, run.method, model, 0), model.clip

    def measure(self, groups: int) -> tuple[float, list[Tensor]]:
        """Return CPU seconds of a step's gradients, and the gradients."""
        self.clip.zero_grad(set_to_none=True)
        step = accumulate.GradientComputer(
            self.clip, frozenset(), contextlib.nullcontext, 0, self.extras, text_groups=groups
        )
        started = time.process_time()
        step.compute_gradients(self.batch, self.views, self.loss)
        seconds = time.process_time() - started
        return seconds, [p.grad.clone() for p in self.clip.parameters() if p.grad is not None]


def compare(case: Case, groups: int, dtype: torch.dtype) -> float:
    """Return the largest difference of a gradient to that of one group, over the largest number of any gradient."""
    case.clip.to(dtype)
    (_, expected), (_, slopes) = case.measure(1), case.measure(groups)
    case.clip.float()
    largest = max(slope.abs().max().item() for slope in expected)
    return max((a - b).abs().max().item() for a, b in zip(slopes, expected, strict=True)) / largest


def main(argv: list[str]) -> int:
    """Print a row a method and number of groups."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--groups", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="text-groups-") as folder:
        root = Path(folder)
        architectures.make(root, args.data.resolve(), args.methods, ["tiny"], 1, args.batch)
        write_json(root / "model.json", MODEL)
        os.chdir(root)
        print(f"{'method':<16}{'groups':>7}{'useful':>8}{'CPU s':>8}{'float32':>10}")
        for name in args.methods:
            case = Case(root, name, backbone.create(str(root / "model.json"), seed=0))
            seconds: dict[int, list[float]] = {groups: [] for groups in args.groups}
            for _ in range(args.steps):
                for groups, times in seconds.items():
                    times.append(case.measure(groups)[0])
            for groups, times in seconds.items():
                useful, computed = count_tokens(case.batch, groups)
                off = compare(case, groups, torch.float32) if groups > 1 else 0.0
                print(f"{name:<16}{groups:>7}{useful / computed:8.0%}{min(times):8.2f}{off:10.1e}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
