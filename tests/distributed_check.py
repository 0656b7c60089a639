"""What tests/train/test_distributed.py runs in each of two processes: every method's loss and gradients against one process.

B = 6 images, three a process, K negatives and P positives by the method's own views, L = 12 positions. Concepts are
spread unevenly, the first process has a single valid negative, the second one's texts are longer.
Gradients travel in messages of 4 KiB. Prints one JSON line a case; then of float32 weights under autocast in bfloat16,
plain and without frozen towers, and of two steps whose loss is scaled.
"""

import contextlib
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import open_clip
import torch
import torch.distributed as dist
from torch import Tensor, nn

from compclip.base import plugins
from compclip.config.sections import Lora, Train
from compclip.interface.method import load_method
from compclip.interface.views import Regions, Views
from compclip.model import lora
from compclip.train import accumulate, distributed, extras, fine_tuning, optimiser, process_group
from compclip.train.batch import (
    CAPTION,
    CONCEPT,
    NEGATIVE,
    NEGATIVE_IMAGES,
    POSITIVE,
    REGION_CROPS,
    REGION_TEXTS,
    REGIONS,
    Batch,
    Concepts,
    PictureBlock,
    TextBlock,
    map_tensors,
)
from compclip.train.extras import Extras, LossScale

B, L, END = 6, 12, 59
SHAPE = {"embed_dim": 16, "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
         "text_cfg": {"context_length": L, "vocab_size": 60, "width": 16, "heads": 1, "layers": 1}}  # fmt: skip
SMALL = {
    "codebook_clip": {"codes": 8, "code_width": 4}, "superclip": {"vocabulary": 60}, "flair": {"texts": 3},
    "fineclip": {"regions": 2},
    "fg_clip": {"contrast": "sigmoid", "regions": 2, "region_negatives": 2, "lambda_hard": 0.3, "lambda_rank": 0.2,
                "lambda_texts": 0.1, "map_regions": True},
    "il_clip": {"codes": 8, "code_width": 4}, "llip": {"tokens": 3},
}  # fmt: skip
# Every method with its defaults, smaller heads, and what some have beside them.
CASES = [*((name, SMALL.get(name, {}), 0) for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS),
         ("clic", {}, 1), ("fsc_clip", {"lambda_global": 0.0, "attention": "softmax"}, 0),
         ("c2lip", {"concepts": "encoded"}, 0),
         ("hard_positives", {"negatives_in_contrastive": False, "hard_positives": "swap"}, 0),
         *(("hybrid", {"negatives": "negclip+bigram", "place": "contrast+s_neg+global+local", "concepts": "pooled",
                       "hard_positives": "swap", "steps": "composites+single"}, step) for step in (0, 1))]  # fmt: skip
NAMES = [f"{name}-{number}-{'-'.join(map(str, changes.values()))}" for name, changes, number in CASES]
LORA = "lora"  # both towers but for their adapters
FROZEN = (frozenset(), frozenset({"image"}), frozenset({"text"}), frozenset({LORA}))
IN_EVERY_KIND = ("fsc_clip", "hybrid")  # patches, tokens, concepts, composites
# plain; tokens; a bias; a teacher; composites; regions; heads; memory
IN_BFLOAT16 = ("finetune", "fsc_clip", "c2lip", "degla", "clic", "fg_clip", "llip", "ahnpl")
BFLOAT16_CASES = [i for i, (name, _, _) in enumerate(CASES) if name in IN_BFLOAT16]


def list_frozen(case_number: int) -> tuple[frozenset, ...]:
    """Nothing frozen, and one other kind, which the next case has not: a third of the cases each."""
    if CASES[case_number][0] in IN_EVERY_KIND:
        return FROZEN
    return FROZEN[0], FROZEN[1 + case_number % 3]


def list_micro(case_number: int, frozen: frozenset) -> tuple[int, ...]:
    """In parts where a tower is frozen, else the whole batch; both for the methods with everything."""
    if frozen:
        return (2,)
    return (0, 2) if CASES[case_number][0] in IN_EVERY_KIND else (0,)


# Of all rows at once or in parts, in turn: which of both is tested by itself.
PLAIN_OR_IN_PARTS = [
    (i, micro) for i, case in enumerate(CASES) for micro in ((0, 2) if case[0] in IN_EVERY_KIND else (i % 2 * 2,))
]
FROZEN_CASES = [(i, frozen) for i in range(len(CASES)) for frozen in list_frozen(i)]


def model(bias: bool, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    clip = open_clip.CLIP(**SHAPE).to(dtype)
    if bias:
        clip.logit_bias = nn.Parameter(torch.tensor(-5.0, dtype=dtype))
    return clip


def prepare(method, cfg, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A tiny model with what a method needs of it."""
    clip = model(method.needs_bias(cfg), dtype)
    method.adapt(cfg, SimpleNamespace(clip=clip, model_cfg=dict(SHAPE), preprocess_cfg={}, transform=None), 0)
    return clip


def freeze(clip: nn.Module, frozen: frozenset) -> None:
    """Towers without gradients; the scale and the bias keep theirs."""
    for name, value in clip.named_parameters():
        tower = "image" if name.startswith("visual.") else "text"
        value.requires_grad_(tower not in frozen or name.startswith("logit"))


def adapt(clip: nn.Module) -> None:
    """Adapters in both towers, with updates other than zero, as the only trained numbers."""
    lora.inject(clip, Lora(rank=2, alpha=1), ("image", "text"))
    clip.double().requires_grad_(False)
    g = torch.Generator().manual_seed(2)
    for factor in lora.adapter_parameters(clip).values():
        factor.requires_grad_(True)
        factor.data.copy_(torch.randn(factor.shape, generator=g, dtype=torch.float64) / 4)


def kept_beside(method, cfg, clip: nn.Module) -> Extras:
    """What a method keeps beside the model.

    In float64 its teacher is another model, so that it has something to say.
    """
    method_extras = extras.create_extras(method, cfg, SimpleNamespace(clip=clip, model_cfg=SHAPE), 0)
    if clip.logit_scale.dtype == torch.float32:
        return method_extras
    if method_extras.heads:
        method_extras.heads.double()
    if method_extras.teacher:
        g = torch.Generator().manual_seed(3)
        for p in method_extras.teacher.parameters():
            p.add_(torch.randn(p.shape, generator=g, dtype=torch.float64) / 50)
    return method_extras


def batch(views: Views) -> Batch:
    """A batch as the views ask for it."""
    g = torch.Generator().manual_seed(1)
    K, P = views.negative_texts, views.positive_texts
    image = torch.randn(B, 3, 32, 32, generator=g, dtype=torch.float64)
    text, longer = _texts(g, B), _texts(g, B, low=9, high=11)
    text[3:] = longer[3:]
    mask = torch.rand(B, K, generator=g) < 0.6
    mask[:3] = False
    mask[1:2, :1] = True
    positive_mask = torch.rand(B, P, generator=g) < 0.5
    owner = torch.tensor([0, 2, 3, 3, 3, 4, 5, 5] if views.concepts else [], dtype=torch.long)
    span = torch.tensor([[1, 3]] * 4 + [[2, 5]] * 4)[: len(owner)]
    concepts = _texts(g, len(owner)) if views.concepts == "encoded" else torch.zeros(0, L, dtype=torch.long)
    texts = {
        CAPTION: TextBlock(text), NEGATIVE: TextBlock(_texts(g, B, K), mask),
        POSITIVE: TextBlock(_texts(g, B, P), positive_mask), CONCEPT: TextBlock(concepts),
    }  # fmt: skip
    counts = tuple(owner.bincount(minlength=B).tolist())
    full_batch = Batch(image_B3HW=image, texts=texts, concepts=Concepts(span, owner, counts))
    if views.target:
        ids = _texts(g, B)
        full_batch = replace(full_batch, target_BL=ids.masked_fill(ids == 0, -1))
    if views.regions:
        full_batch = _add_regions(full_batch, g, views.regions)
    if not (J := views.negative_images):
        return full_batch
    negative_image = torch.randn(B, J, 3, 32, 32, generator=g, dtype=torch.float64)
    there = torch.rand(B, J, generator=g) < 0.6
    pictures = {NEGATIVE_IMAGES: PictureBlock(there, negative_image), **full_batch.pictures}
    return replace(full_batch, pictures=pictures)


def in_float32(batch: Batch) -> Batch:
    """The batch as a model in float32 takes it."""
    return map_tensors(batch, lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)


def change_texts(batch: Batch, name: str, **changes: object) -> Batch:
    """The batch with something else said of one of its blocks of texts."""
    return replace(batch, texts={**batch.texts, name: replace(batch.texts[name], **changes)})


def _add_regions(batch: Batch, g: torch.Generator, asked: Regions) -> Batch:
    """The batch with boxes in the pictures, of which some are not there, with texts, and as pictures."""
    R, C = asked.count, asked.texts
    low, size = torch.rand(B, R, 2, generator=g) / 2, torch.rand(B, R, 2, generator=g) / 4 + 0.2
    there = torch.rand(B, R, generator=g) < 0.6
    there[1] = False
    texts = there[..., None] & (torch.rand(B, R, C, generator=g) < 0.8)
    texts[..., :2] = there[..., None]
    block = TextBlock(_texts(g, B, R, C), texts)
    pictures = {REGIONS: PictureBlock(there, box_BJ4=torch.cat([low, low + size], dim=2))}
    if asked.crops:
        crops = torch.randn(B, R, 3, 32, 32, generator=g, dtype=torch.float64)
        pictures[REGION_CROPS] = PictureBlock(there, crops)
    return replace(batch, texts={**batch.texts, REGION_TEXTS: block}, pictures=pictures)


def _texts(g: torch.Generator, *shape: int, low: int = 3, high: int = 9) -> Tensor:
    words = torch.randint(1, 50, (*shape, L), generator=g)
    end = torch.randint(low, high, shape, generator=g)[..., None]
    place = torch.arange(L)
    return torch.where(place < end, words, torch.where(place == end, END, 0))


def run(
    case: tuple,
    rows: tuple[int, int] | None,
    frozen: frozenset = frozenset(),
    micro: int = 0,
    groups: int = 1,
    change: Callable[[Batch, Views], Batch] = lambda batch, _views: batch,
    autocasts: bool = False,
) -> tuple[dict, dict]:
    """Terms and gradients of a case on some rows of the batch (all: None), which `change` may have changed.

    In float64, or with float32 weights and `autocasts` in bfloat16.
    """
    name, changes, number = case
    method = load_method(name)
    cfg = method.Config(**changes)
    views = method.views(cfg, number)
    clip = prepare(method, cfg, torch.float32 if autocasts else torch.float64)
    full_batch = change(batch(views), views)
    full_batch = in_float32(full_batch) if autocasts else full_batch
    beside = kept_beside(method, cfg, clip)
    adapt(clip) if LORA in frozen else freeze(clip, frozen)
    cast = functools.partial(torch.autocast, "cpu", torch.bfloat16) if autocasts else contextlib.nullcontext
    step = accumulate.GradientComputer(clip, frozen - {LORA}, cast, micro, beside, groups)
    loss = functools.partial(method.loss, cfg=cfg, step=number)
    terms = step.compute_gradients(full_batch.rows(*rows) if rows else full_batch, views, loss)
    return terms, {n: p.grad for n, p in [*clip.named_parameters(), *beside.parameters()]}


def difference(a: tuple[dict, dict], b: tuple[dict, dict]) -> dict[str, float | list]:
    """The largest difference of any term and of any gradient, and the parameters only one of them has a gradient for."""
    (terms, slopes), (other_terms, other_slopes) = a, b
    assert terms.keys() == other_terms.keys()
    both = [n for n in slopes if slopes[n] is not None and other_slopes[n] is not None]
    least = 1e-3 * torch.stack([slopes[n].norm() for n in both]).norm()  # some slopes are zeros but for rounding
    return {"terms": max((terms[n] - other_terms[n]).abs().item() for n in terms),
            "gradients": max((slopes[n] - other_slopes[n]).abs().max().item() for n in both),
            "relative_terms": max(((terms[n] - other_terms[n]).abs() / terms[n].abs().clamp(min=1)).item() for n in terms),
            "relative_gradients": max(((slopes[n] - other_slopes[n]).norm() / slopes[n].norm().clamp(min=least)).item() for n in both),
            "one_sided": [n for n in slopes if (slopes[n] is None) != (other_slopes[n] is None)],
            "compared": len(both)}  # fmt: skip


def assert_equal(whole: tuple[dict, dict], other: tuple[dict, dict]) -> None:
    """Terms and gradients agree to 1e-10, and both have the same ones."""
    differences = difference(whole, other)
    assert differences["terms"] < 1e-10 and differences["gradients"] < 1e-10
    assert differences["one_sided"] == []


@contextlib.contextmanager
def gathered_rows() -> Iterator[list[int]]:
    """Give a list of how many numbers a row has of all that processes gather meanwhile."""
    sizes, gather = [], distributed.gather_rows

    def count(rows: Tensor, counts: tuple[int, ...]) -> Tensor:
        sizes.append(rows[0].numel() if len(rows) else 0)
        return gather(rows, counts)

    distributed.gather_rows = count
    try:
        yield sizes
    finally:
        distributed.gather_rows = gather


@functools.cache
def run_whole_batch(case_number: int, frozen: frozenset = frozenset()) -> tuple[dict, dict]:
    """Terms and gradients of a case on all rows: one process's, with which all others are compared."""
    return run(CASES[case_number], None, frozen)


@functools.cache
def run_whole_bfloat16() -> dict[int, tuple[dict, dict]]:
    """The same of some cases in bfloat16."""
    return {i: run(CASES[i], None, autocasts=True) for i in BFLOAT16_CASES}


def main(argv: list[str]) -> int:
    """Every case, plain, and cached with frozen towers; then some in bfloat16."""
    from tests import distributed_check  # whose caches are filled before a copy of the test's process begins

    torch.set_num_threads(1)
    distributed.BUCKET_BYTES = 4096
    expected_in_bfloat16 = distributed_check.run_whole_bfloat16()
    expected = {case: distributed_check.run_whole_batch(*case) for case in FROZEN_CASES}
    with process_group.session() as here, gathered_rows() as sizes:
        row_range = (3 * here.rank, 3 * here.rank + 3)
        for (i, frozen), one in expected.items():
            for micro in list_micro(i, frozen):
                sizes.clear()
                differences = difference(one, run(CASES[i], row_range, frozen, micro)) | {"largest_row": max(sizes)}
                print(json.dumps({"case": i, "frozen": sorted(frozen), "micro": micro, **differences}), flush=True)
        _compare_sums(row_range)
        _compare_bfloat16(expected_in_bfloat16, here.rank)
    return 0


class LaterSums:
    """A slow reference: a message for each gradient, after the backward pass."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = [p for p in module.parameters() if p.requires_grad]

    def watch_backward(self) -> contextlib.AbstractContextManager:
        """Do nothing."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Sum what any process has."""
        for p in self.parameters:
            if distributed.are_set_anywhere(p.grad is not None)[0]:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(p.grad)


def _compare_sums(row_range: tuple[int, int]) -> None:
    """Two methods' gradients by `LaterSums`, bit by bit, and how many sums start while a backward pass runs."""
    started, start = [], distributed.GradientSums._start_next

    def note_start(sums: distributed.GradientSums) -> None:
        started.append(torch._C._current_graph_task_id() != -1)
        start(sums)

    for name, frozen, micro in itertools.product(("fsc_clip", "c2lip"), (FROZEN[0], FROZEN[-1]), (0, 2)):
        case = next(case for case in CASES if case[0] == name)
        with mock.patch.object(distributed, "GradientSums", LaterSums):
            _, expected = run(case, row_range, frozen, micro)
        started.clear()
        with mock.patch.object(distributed.GradientSums, "_start_next", note_start):
            _, slopes = run(case, row_range, frozen, micro)
        equal = all(slopes[n] is g is None or torch.equal(slopes[n], g) for n, g in expected.items())
        print(json.dumps({"case": "sums", "equal": equal, "started_in_backward": sum(started)}), flush=True)


def _compare_bfloat16(expected: dict, rank: int) -> None:
    for i, one in expected.items():
        differences = difference(one, run(CASES[i], (3 * rank, 3 * rank + 3), autocasts=True))
        print(json.dumps({"case": f"bfloat16 {i}", **differences}), flush=True)
    print(json.dumps({"case": "overflow", "steps": _step_past_overflow(rank)}), flush=True)


def _step_past_overflow(rank: int) -> list[dict[str, float]]:
    """Two steps with a scaled loss: in the first, one slope of the second process alone is infinite."""
    method, clip = load_method("finetune"), model(False, torch.float32)
    cfg = method.Config()
    views, scale_extras = method.views(cfg, 0), Extras(loss_scale=LossScale(torch.device("cpu")))
    rows = in_float32(batch(views).rows(3 * rank, 3 * rank + 3))
    computer = accumulate.GradientComputer(clip, frozenset(), contextlib.nullcontext, 0, scale_extras)
    adamw, step_rows = optimiser.adamw(clip, Train()), []
    for factor in (torch.inf if rank else 1.0, 1.0):
        before = {name: p.detach().clone() for name, p in clip.named_parameters()}
        hook = clip.visual.proj.register_hook(lambda slope, factor=factor: slope * factor)
        computer.compute_gradients(rows, views, functools.partial(method.loss, cfg=cfg, step=0))
        hook.remove()
        norm = fine_tuning.update(SimpleNamespace(clip=clip), adamw, 1e-3, Train(), scale_extras)
        moved = sum(int(not torch.equal(p, before[name])) for name, p in clip.named_parameters())
        adamw.zero_grad()
        numbers = {name: x.item() for name, x in vars(scale_extras.loss_scale).items()}
        step_rows.append({"norm": norm.item(), "moved": moved, **numbers})
    return step_rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
