"""A drawn batch of features, as a model would give it; every tensor is a leaf with a gradient.

B images, K negatives, P positives, J negative images, N patches, T tokens, M concepts, D dim, W width of
an image token.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.config import validation
from compclip.interface.features import Features, NamedRows, change_rows
from compclip.interface.method import load_method
from compclip.interface.views import Views, Widths

D, W = 8, 12


def configured(name: str, **changes):
    """A method's Config with other parameters, or constants of its paper."""
    kind = load_method(name).Config
    constants = {key: changes.pop(key) for key in validation.list_constants(kind) if key in changes}
    return type("Config", (kind,), constants)(**changes)


def drawn(name: str, cfg, step: int = 0, B: int = 4, M: int = 5, fill: str = "some", seed: int = 0) -> Features:
    """Features with as many negatives, positives and negative images as a method asks for, and what it keeps beside."""
    method = load_method(name)
    views = method.views(cfg, step)
    K = views.negative_texts
    P = views.positive_texts
    sizes = {"K": K or 1, "P": P, "J": views.negative_images}
    f = with_regions(make(B=B, M=M, fill=fill, seed=seed, **sizes), views, fill, seed)
    g = torch.Generator().manual_seed(seed)
    start = {k: torch.rand(v.shape, generator=g, dtype=torch.float64) for k, v in method.memory(cfg).items()}
    f = replace(f, memory=start)
    if method.teacher(cfg):
        of_teacher = make(B=B, M=M, fill=fill, seed=seed + 100, **sizes)
        f = replace(f, teacher=detached(with_regions(of_teacher, views, fill, seed + 100)))
    if views.target:
        lengths = torch.randint(2, 7, (B, 1), generator=g)
        ids = torch.randint(0, 30, (B, 6), generator=g)
        f = with_named(f, target=NamedRows(ids.masked_fill(torch.arange(6) >= lengths, -1)))
    if views.raw_captions:
        raw_BW = torch.randn(B, W, generator=g, dtype=torch.float64).requires_grad_()
        f = with_named(f, raw_captions=NamedRows(raw_BW, tower="text"))
    if heads := method.heads(cfg, Widths(joint=D, context=6, vocabulary=30, image_token=W, raw_text=W)):
        f = replace(f, heads=heads.double())
        if tokens := getattr(heads, "options", {}).get("tokens"):  # class tokens in the place of patches
            patch_BKW = torch.randn(B, tokens, W, generator=g, dtype=torch.float64)
            f = replace(f, patch_BND=patch_BKW.requires_grad_())
    return f


def with_regions(f: Features, views: Views, fill: str, seed: int) -> Features:
    """The same with regions, their texts and crops where views ask for them."""
    if not views.regions:
        return f
    R = min(views.regions.count, 3)
    B, C, g = len(f.image_BD), views.regions.texts, torch.Generator().manual_seed(seed + 7)

    def unit(*shape: int) -> Tensor:
        drawn = torch.randn(*shape, D, generator=g, dtype=torch.float64)
        return F.normalize(drawn, dim=-1).requires_grad_()

    there = {"all": torch.ones(B, R), "none": torch.zeros(B, R)}.get(fill, torch.rand(B, R, generator=g)) > 0.4
    false_texts = there[..., None] & ((torch.rand(B, R, C, generator=g) > 0.3) | (fill == "all"))
    texts = there[..., None] if C == 1 else torch.cat([there[..., None].expand(B, R, 2), false_texts[..., 2:]], dim=2)
    crops = {"region_crops": NamedRows(unit(B, R), there, "image")} if views.regions.crops else {}
    regions, region_texts = NamedRows(unit(B, R), there, "image"), NamedRows(unit(B, R, C), texts, "text")
    return with_named(f, **crops, regions=regions, region_texts=region_texts)


def with_named(f: Features, **blocks: NamedRows) -> Features:
    return replace(f, named={**f.named, **blocks})


def detached(f: Features) -> Features:
    """The same without slopes."""
    bare = replace(f, scale=f.scale.detach(), bias=f.bias.detach())
    return change_rows(bare, lambda _name, tensor, _kind: tensor.detach())


def make(B: int = 4, K: int = 3, P: int = 3, M: int = 5, fill: str = "some", seed: int = 0, J: int = 0) -> Features:
    """Float64 features; masks hold some, all or none of the negatives, positives and negative images."""
    generator, N, T = torch.Generator().manual_seed(seed), 5, 6

    def raw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    def unit(*shape: int) -> Tensor:
        return F.normalize(raw(*shape).detach(), dim=-1).requires_grad_()

    def mask(*shape: int) -> Tensor:
        drawn = torch.rand(*shape, generator=generator) < 0.6
        return {"all": torch.ones_like(drawn), "none": torch.zeros_like(drawn)}.get(fill, drawn)

    def words(*shape: int) -> Tensor:
        return torch.arange(T) < torch.randint(1, T + 1, (*shape, 1), generator=generator)

    batch_features = Features(
        image_BD=unit(B, D), text_BD=unit(B, D), negative_BKD=unit(B, K, D), mask_BK=mask(B, K),
        positive_BPD=unit(B, P, D), positive_mask_BP=mask(B, P), concept_MD=unit(M, D),
        owner_M=torch.randint(B, (M,), generator=generator),
        scale=torch.tensor(5.0, dtype=torch.float64).requires_grad_(),
        bias=torch.tensor(-2.0, dtype=torch.float64).requires_grad_(), patch_BND=raw(B, N, D), token_BTD=raw(B, T, D),
        token_mask_BT=words(B), negative_token_BKTD=raw(B, K, T, D), negative_token_mask_BKT=words(B, K),
    )  # fmt: skip
    if not J:
        return batch_features
    return with_named(batch_features, negative_images=NamedRows(unit(B, J, D), mask(B, J), "image"))


@pytest.fixture
def features() -> Callable[..., Features]:
    return make
