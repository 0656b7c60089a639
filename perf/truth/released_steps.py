"""A whole step of methods beside the released programs', float64.

    python -m perf.truth.released_steps METHOD=FOLDER …

FOLDER is a clone of the program that experiments/log/2026-11.md names. Its code is run (`step_programs.py` here): give
clones that you trust. Both sides get the same picture files, captions, negatives and weights of a tiny model. Each
makes a batch by its own loader's functions, encodes it, computes its loss and all slopes. A line for each
method: the largest relative differences of pictures, of terms and of a parameter's slope, and whether tokens are equal.
Without arguments the methods are listed. Exit code 2 for a method that has no comparison, or no folder.

B pictures, K negatives.

Takes 5 seconds a method; needs clones of the released programs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_mapping, write_json
from compclip.interface.method import load_method
from compclip.model import backbone, clip_model
from compclip.model.clip_model import ClipModel
from compclip.train import extras
from compclip.train.batch import Batch, View
from compclip.train.encode import encode_features
from compclip.train.loader import collate

CHILD = Path(__file__).with_name("step_programs.py")
SIDE = 224  # written into CLIC's program
CONFIG: dict[str, Any] = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": SIDE, "patch_size": 56, "width": 32, "layers": 2, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
SIZES = ((64, 48), (40, 72), (56, 56), (90, 50))  # of the pictures
CAPTIONS = (
    "A Cat sleeps on a red mat.",
    "two dogs near the tall white wall, and a ball!",
    "A man in a blue shirt holds an old umbrella",
    "Some birds fly above the sea.  The sky is grey",
)
NEGATIVES = (
    ("A mat sleeps on a red Cat.", "A Dog sleeps on a red mat.", "on a A Cat red sleeps mat."),
    (
        "two walls near the tall white dog, and a ball!",
        "two cats near the tall white wall, and a ball!",
        "near the two dogs wall, and tall white a ball!",
    ),
    (
        "A shirt in a blue man holds an old umbrella",
        "A man in a green shirt holds an old umbrella",
        "in a A man blue umbrella shirt holds an old",
    ),
    (
        "Some sea fly above the birds.  The sky is grey",
        "Some fish fly above the sea.  The sky is grey",
        "sea. the Some",
    ),
)
FURTHER = [(f"{caption.split()[1]} one", f"{caption.split()[1]} two.") for caption in CAPTIONS]
NEAR = (2, 0, 3, 1)  # a near picture of each


@dataclass(frozen=True)
class Step:
    """Pictures as the model takes them, tokens, the loss's terms, and slopes by parameter."""

    picture_B3HW: Tensor
    token_AL: Tensor
    terms: dict[str, Tensor]
    slopes: dict[str, Tensor]
    texts: tuple[str, ...] = ()  # of CLIC's program, which draws partners


def draw_pictures(folder: Path) -> list[str]:
    """Write a picture of each size, smooth as a photograph is."""
    rng, paths = np.random.default_rng(0), []
    for number, size in enumerate(SIZES):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8))
        paths.append(str(folder / f"{number}.png"))
        coarse.resize(size, Image.Resampling.BICUBIC).save(paths[-1])
    return paths


def open_model(folder: Path, config: dict[str, Any]) -> ClipModel:
    """Return a tiny model of random weights, gains and biases too; its config is written into the folder."""
    write_json(folder / "tiny.json", config)
    model = backbone.create(str(folder / "tiny.json"), seed=1)
    generator = torch.Generator().manual_seed(1)
    shake(model.clip, generator)
    return model


def shake(module: nn.Module, generator: torch.Generator) -> None:
    """Move all parameters a little."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))


def prepare(name: str, options: dict[str, Any], model: ClipModel) -> None:
    """Give a model what a method needs of it, in place; its head and teacher are parts named `heads` and `teacher`."""
    method = load_method(name)
    cfg = method.Config(**options)
    extras.prepare_model(method, cfg, model, 0)
    added = extras.create_extras(method, cfg, model, 0)
    for module_name, module, seed in (("heads", added.heads, 2), ("teacher", added.teacher, 3)):
        if module is not None:
            shake(module, torch.Generator().manual_seed(seed))
            setattr(model.clip, module_name, module)


def squeeze(path: str, side: int = SIDE) -> Image.Image:
    """Return the whole picture as a square, as a random part that is all of it."""
    with Image.open(path) as picture:
        return picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)


def take_step(
    name: str, options: dict[str, Any], rows: list[View], model: ClipModel, frozen: frozenset[str] = frozenset()
) -> tuple[Batch, Step]:
    """Return our batch of some views, and our step on it, before which the same batch was seen once."""
    method = load_method(name)
    cfg = method.Config(**options)
    views = method.views(cfg, 0)
    batch = collate(rows, views, model)
    assert batch.statistics_23 is not None
    picture_B3HW = clip_model.normalise_pictures(batch.image_B3HW, batch.statistics_23)
    model.clip.double().train().zero_grad()
    boxes = batch.pictures.get("regions")
    if boxes and boxes.box_BJ4 is not None:
        doubled = replace(boxes, box_BJ4=boxes.box_BJ4.double())
        batch = replace(batch, pictures={**batch.pictures, "regions": doubled})
    heads = getattr(model.clip, "heads", None)
    f = replace(encode_features(model.clip, batch, views, frozen), heads=heads, memory=method.memory(cfg))
    if f.memory:
        f = replace(f, memory={name: value.detach() for name, value in method.remember(f, cfg).items()})
    if teacher := getattr(model.clip, "teacher", None):
        with torch.no_grad():
            f = replace(f, teacher=encode_features(teacher, batch, views))
    terms = method.loss(f, cfg, 0)
    torch.stack(list(terms.values())).sum().backward()
    slopes = {n: p.grad.clone() for n, p in model.clip.named_parameters() if p.grad is not None}
    return batch, Step(picture_B3HW, batch.text_BL, {n: term.detach() for n, term in terms.items()}, slopes)


def run_program(method: str, folder: Path, work: Path, paths: list[str], model: ClipModel) -> Step:
    """Return the step of the released program, of a process of its own."""
    shared_inputs = {
        "paths": paths,
        "captions": CAPTIONS,
        "negatives": NEGATIVES,
        "near": NEAR,
        "further": FURTHER,
        "model": read_mapping(work / "tiny.json"),
        "work": str(work),
        "state": model.clip.state_dict(),
    }
    torch.save(shared_inputs, work / "given.pt")
    names = [str(path) for path in (folder.resolve(), work / "given.pt", work / "step.pt")]
    subprocess.run([sys.executable, str(CHILD), method, *names], check=True)
    step = torch.load(work / "step.pt", weights_only=True)
    return Step(step["pictures"], step["tokens"], step["terms"], step["slopes"], tuple(step.get("texts", ())))


def relative_difference(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference of two tensors over the largest number of theirs."""
    return float((ours.double() - theirs.double()).abs().max() / theirs.abs().max().clamp_min(1e-12))


def compare(ours: Step, theirs: Step) -> str:
    """Return what differs, in one line."""
    T = ours.token_AL.shape[1]
    equal = torch.equal(ours.token_AL, theirs.token_AL[:, :T]) and not theirs.token_AL[:, T:].any()
    terms = [relative_difference(a, b) for a, b in zip(ours.terms.values(), theirs.terms.values(), strict=True)]
    alone = sorted(set(ours.slopes) ^ set(theirs.slopes))
    slope_of = {n: relative_difference(ours.slopes[n], theirs.slopes[n]) for n in set(ours.slopes) & set(theirs.slopes)}
    worst = max(slope_of, key=slope_of.__getitem__)
    pictures = relative_difference(ours.picture_B3HW, theirs.picture_B3HW)
    return (
        f"pictures {pictures:.1e}, tokens {'equal' if equal else 'DIFFER'}, terms {max(terms):.1e}, "
        f"slopes {slope_of[worst]:.1e} ({worst}; {len(slope_of)} parameters)"
        + (f", on one side alone: {', '.join(alone)}" if alone else "")
    )


def main(argv: Sequence[str]) -> int:
    """Print a line for each METHOD=FOLDER."""
    suffix = "_program.py"
    compared = sorted(file.name.removesuffix(suffix) for file in CHILD.with_name("steps").glob(f"*{suffix}"))
    for argument in argv:
        method, _, folder = argument.partition("=")
        if method not in compared:
            raise unknown("method", method, compared, "METHOD=FOLDER")
        if not folder or not Path(folder).is_dir():
            raise UserError(f"{argument}: no folder; give a clone of the program: {method}=FOLDER")
        with tempfile.TemporaryDirectory() as work:
            module = import_module(f"perf.truth.steps.{method}")
            config = getattr(module, "CONFIG", CONFIG) | getattr(module, "MODEL", {})
            paths, model = draw_pictures(Path(work)), getattr(module, "open_model", open_model)(Path(work), config)
            prepare(method, getattr(module, "OPTIONS", {}), model)
            theirs = run_program(method, Path(folder), Path(work), paths, model)
            print(f"{method}: {compare(module.step(paths, model, theirs), theirs)}", flush=True)
    if not argv:
        print("\n".join(compared))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
