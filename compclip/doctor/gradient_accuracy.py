"""Each method's step on a device beside float64 on the CPU, and on all GPUs beside one: loss terms and gradients.

    python -m compclip.doctor.gradient_accuracy '{"methods": ["finetune"], "device": "cuda", "model_cfg": {}}'

is what each of several processes runs under torchrun; the first one prints a row of errors a method as JSON.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from compclip.base import environment_variables
from compclip.base.errors import entry
from compclip.config.sections import Train
from compclip.doctor.check_rows import FAILED, SKIPPED, STEP_TOLERANCES, CheckRow, catch_errors, judge_errors
from compclip.interface.method import Method, load_method
from compclip.interface.views import Regions, Step, Views
from compclip.model import clip_model, tokenizers
from compclip.model.clip_model import ClipModel
from compclip.runs.gpus import PROFILE_GPUS, VISIBLE
from compclip.train import accumulate, distributed, extras, fine_tuning, loader, process_group
from compclip.train.batch import TARGET, Batch, RegionView, View
from compclip.train.throughput import count_turns

BATCH = 8
SEED = 0
PER_EPOCH = 1000
TEACHER_NOISE = 0.02  # added to a teacher's weights, which else equals the model and has nothing to say
REASON = "differs from float64 on the CPU; try another build of torch or driver, and report it"


@dataclass(frozen=True)
class StepResult:
    """The terms of a loss and the gradients of all parameters by name, in float64 on the CPU."""

    terms: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]


def check_gradients(methods: Sequence[str], device: str, model_cfg: Mapping[str, Any]) -> Iterator[CheckRow]:
    """Yield a row for each method and precision."""
    model = build_model(model_cfg, SEED)
    with fine_tuning.set_arithmetic(Train()):  # no TF32
        for name in methods:
            yield from catch_errors(f"gradients {name}", compare_method(name, model, device))


def compare_method(name: str, model: ClipModel, device: str) -> Iterator[CheckRow]:
    """Yield the rows of one method: in each precision the largest errors of all steps that it takes in turn."""
    method = load_method(name)
    cfg = method.Config()
    steps = [Step(number, PER_EPOCH) for number in range(count_turns(method, cfg))]
    exact = [compute_step(method, step, model, "cpu", "float64") for step in steps]
    for precision in STEP_TOLERANCES:
        errors = []
        for step, reference in zip(steps, exact, strict=True):
            errors.append(measure_errors(compute_step(method, step, model, device, precision), reference))
        yield judge_errors(f"gradients {name}", precision, np.max(errors, axis=0), REASON)


def draw_batch(method: Method, step: Step, model: ClipModel, size: int) -> Batch:
    """Return a batch of drawn samples, as the loader makes it."""
    views = method.views(method.Config(), step)
    rows = draw_views(views, size, model.image_size, SEED + step)
    return loader.collate(rows, views, model)


def compute_step(
    method: Method, step: Step, model: ClipModel, device: str, precision: str, batch: Batch | None = None
) -> StepResult:
    """Return what the loss of a batch gives, a drawn one by default; the model is copied.

    `precision`: float64, float32, or bf16 (autocast over float32).
    """
    cfg = method.Config()
    dtype = torch.float64 if precision == "float64" else torch.float32
    copied = replace(model, clip=copy.deepcopy(model.clip), model_cfg=copy.deepcopy(model.model_cfg))
    extras.prepare_model(method, cfg, copied, SEED)
    copied.clip.to(device=device, dtype=dtype)
    extra_parts = _create_extras(method, copied, dtype)
    autocast: Callable[[], AbstractContextManager] = contextlib.nullcontext
    if precision == "bf16":
        autocast = functools.partial(torch.autocast, torch.device(device).type, torch.bfloat16)
    computer = accumulate.GradientComputer(copied.clip, frozenset(), autocast, 0, extra_parts)
    batch = batch or draw_batch(method, step, model, BATCH)
    loss = functools.partial(method.loss, cfg=cfg, step=step)
    terms = computer.compute_gradients(batch, method.views(cfg, step), loss)
    parameters = [*copied.clip.named_parameters(), *extra_parts.parameters()]
    gradients = {name: p.grad.cpu().double() for name, p in parameters if p.grad is not None}
    return StepResult({name: term.cpu().double() for name, term in terms.items()}, gradients)


def _create_extras(method: Method, model: ClipModel, dtype: torch.dtype) -> extras.Extras:
    """Return what a method keeps beside the model; its teacher is another model, so that it has something to say."""
    extra_parts = extras.create_extras(method, method.Config(), model, SEED)
    if extra_parts.heads:
        extra_parts.heads.to(dtype)
    if extra_parts.teacher:
        generator = torch.Generator().manual_seed(SEED)
        for parameter in extra_parts.teacher.parameters():
            parameter.add_(TEACHER_NOISE * torch.randn(parameter.shape, generator=generator).to(parameter))
    return extra_parts


def measure_errors(result: StepResult, reference: StepResult) -> tuple[float, float]:
    """Return the largest error of a term over the size of all terms, and the gradient's error over its norm.

    A parameter that only one of both has a gradient for has zeros in the other.
    """
    size = sum(abs(term.item()) for term in reference.terms.values())
    of_terms = max(abs(result.terms[name] - term).item() for name, term in reference.terms.items()) / size
    zero = torch.zeros((), dtype=torch.float64)
    squares = zero
    for name in reference.gradients.keys() | result.gradients.keys():
        difference = result.gradients.get(name, zero) - reference.gradients.get(name, zero)
        squares = squares + difference.square().sum()
    norm = torch.stack([gradient.square().sum() for gradient in reference.gradients.values()]).sum().sqrt()
    return of_terms, (squares.sqrt() / norm).item()


CPU_PROCESSES = 2
ROWS_EACH = 4  # of each process
LONGEST_S = 300  # without an answer for longer, processes wait for each other
ERROR = re.compile(r"(?:error|\w+Error): .+")  # a line in which a process says why it ended
CHECK_NAME = "all GPUs against one"


def check_processes(methods: Sequence[str], device: str, model_cfg: Mapping[str, Any]) -> Iterator[CheckRow]:
    """Yield a row for each method and precision; on a CPU two processes stand for two GPUs."""
    world = CPU_PROCESSES if device == "cpu" else torch.cuda.device_count()
    if world < 2:
        yield CheckRow(CHECK_NAME, state=SKIPPED, reason="one GPU is visible")
        return
    yield from run_processes({"methods": list(methods), "device": device, "model_cfg": dict(model_cfg)}, world)


def run_processes(job: Mapping[str, Any], world: int, seconds: float = LONGEST_S) -> Iterator[CheckRow]:
    """Have torchrun start the processes, wait so long at most, and yield the rows that they tell of."""
    environment = environment_variables.without_place(os.environ)
    if job["device"] == "cpu":
        environment |= {VISIBLE: "", PROFILE_GPUS: "0"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", "--module",
               __spec__.name, json.dumps(job)]  # fmt: skip
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends the others
        process.communicate()
        reason = f"no answer after {seconds:.0f} s: one process waits for another; look at NCCL_DEBUG=INFO"
        yield CheckRow(CHECK_NAME, state=FAILED, reason=reason)
        return
    if process.returncode:
        reasons = ERROR.findall(errors) or ["it said nothing"]
        yield CheckRow(CHECK_NAME, state=FAILED, reason=f"a process failed: {reasons[0]}")
        return
    for line in output.splitlines():
        if line.startswith("{"):  # NCCL_DEBUG prints lines of its own
            row = json.loads(line)
            name = f"{world} processes {row['method']}"
            yield judge_errors(name, row["precision"], row["errors"], "differs from one process; report it")


def main(argv: list[str]) -> int:
    """Compute each method's step as one of several processes, and alone; print how far both are apart."""
    job = json.loads(argv[0])
    here = process_group.read_process()
    model = build_model(job["model_cfg"])
    first = Step(0, 1)
    batches = {name: draw_batch(load_method(name), first, model, ROWS_EACH * here.world) for name in job["methods"]}
    cases = [(name, precision) for name in batches for precision in STEP_TOLERANCES]
    with fine_tuning.set_arithmetic(Train()), process_group.session():
        device = distributed.process_device()
        results = {}
        for name, precision in cases:
            share = len(batches[name]) // here.world
            rows = batches[name].rows(here.rank * share, (here.rank + 1) * share)
            results[name, precision] = compute_step(load_method(name), first, model, device, precision, rows)
    if here.rank == 0:  # alone, after the processes have parted
        for (name, precision), result in results.items():
            alone = compute_step(load_method(name), first, model, device, precision, batches[name])
            errors = measure_errors(result, alone)
            print(json.dumps({"method": name, "precision": precision, "errors": errors}), flush=True)
    return 0


# --- samples that need no data --------------------------------------------------------------------------------------
# Samples that need no data: drawn pictures and captions, and everything that a method's views ask for beside them.
#
# B samples, K negatives, P extra positives, J negative images, H height, W width.


SCALES = (4, 16, 64, 256, 512)  # cells along a side of the fields that make up a picture
FALL = 0.15  # how much less a finer field shows: such a photograph costs as much to decode as COCO's
PRESENT = 0.7  # share of the texts and pictures that a rule gave
COLOURS = ("red", "blue", "small", "old", "wooden", "bright", "empty", "striped")
THINGS = ("dog", "bicycle", "table", "window", "train", "bottle", "umbrella", "horse")
PLACES = ("on a beach", "near the station", "in the rain", "at night", "behind a fence", "under a bridge")
SMALL = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 64, "patch_size": 16, "width": 128, "layers": 2, "head_width": 64},
    "text_cfg": {"context_length": 32, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
}


def build_model(model_cfg: Mapping[str, Any], seed: int = 0) -> ClipModel:
    """Build a model with CLIP's tokenizer and random weights, on the CPU."""
    torch.manual_seed(seed)
    clip = clip_model.build_module(model_cfg)
    coder = _open_tokenizer(model_cfg["text_cfg"].get("context_length", 77))
    return clip_model.assemble(clip, dict(model_cfg), "drawn", {}, coder)


@functools.cache
def _open_tokenizer(context_length: int) -> tokenizers.ClipTokenizer:
    return tokenizers.ClipTokenizer(context_length)


def draw_picture(rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Return a picture [W, H] with structure at all scales."""
    pixels_HW3 = np.full((size[1], size[0], 3), 128.0)
    for scale in SCALES:
        if scale <= max(size):
            field_SS3 = rng.normal(size=(scale, scale, 3)) * 40 * (4 / scale) ** FALL
            for channel in range(3):
                plane = Image.fromarray(field_SS3[..., channel]).resize(size, Image.Resampling.BICUBIC)
                pixels_HW3[..., channel] += np.asarray(plane)
    return Image.fromarray(np.clip(pixels_HW3, 0, 255).astype(np.uint8))


def draw_text(rng: np.random.Generator) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a caption, and the characters of its two noun phrases."""
    first = f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"
    second = f"{rng.choice(COLOURS)} {rng.choice(THINGS)}"
    start = f"a {first} beside a "
    text = f"{start}{second} {' '.join(rng.choice(PLACES, int(rng.integers(1, 4)), replace=False))}"
    return text, ((2, 2 + len(first)), (len(start), len(start) + len(second)))


def draw_views(views: Views, size: int, side: int, seed: int) -> list[View]:
    """Return `size` views with pictures of `side` pixels and all that `views` asks for; some texts are missing."""
    rng = np.random.default_rng(seed)
    return [_draw_view(views, side, rng) for _ in range(size * (1 + views.neighbours))]


def _draw_view(views: Views, side: int, rng: np.random.Generator) -> View:
    caption, concepts = draw_text(rng)
    negatives = _draw_texts(rng, views.negative_texts)
    positives = _draw_texts(rng, views.positive_texts)
    picture = draw_picture(rng, (side, side))
    texts = {name: tuple(draw_text(rng)[0] for _ in range(count)) for name, count in views.named_texts.items()}
    concepts = concepts[: int(rng.integers(1, 3))] if views.concepts else ()
    pictures = tuple(_draw_or_none(rng, draw_picture(rng, (side, side))) for _ in range(views.negative_images))
    if views.target:
        texts[TARGET] = (draw_text(rng)[0],)
    regions: list[RegionView | None] = []
    wish = views.regions
    if wish:
        for _ in range(wish.count):
            regions.append(_draw_or_none(rng, _draw_region(wish, picture, rng)))
    return View(
        image=picture,
        caption=caption,
        negatives=negatives,
        positives=positives,
        concepts=concepts,
        negative_images=pictures,
        texts=texts,
        regions=tuple(regions),
    )


def _draw_region(wish: Regions, picture: Image.Image, rng: np.random.Generator) -> RegionView:
    low = rng.uniform(0, 0.5, 2)
    high = low + rng.uniform(0.1, 0.5, 2)
    false_texts = _draw_texts(rng, wish.negatives)
    texts = (draw_text(rng)[0], draw_text(rng)[0])[: 2 if false_texts else 1] + false_texts
    return RegionView((low[0], low[1], high[0], high[1]), texts, picture if wish.crops else None)


def _draw_texts(rng: np.random.Generator, count: int) -> tuple[str | None, ...]:
    """Return captions, of which some are missing."""
    return tuple([_draw_or_none(rng, draw_text(rng)[0]) for _ in range(count)])


def _draw_or_none(rng: np.random.Generator, value: Any) -> Any:
    return value if rng.random() < PRESENT else None


if __name__ == "__main__":
    sys.exit(entry(main))
