"""AdamW over the trainable towers, and the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

from compclip.base import lean
from compclip.model import lora

if TYPE_CHECKING:
    from compclip.config.sections import Train

TOWERS = {"all": ("image", "text"), "image": ("image",), "text": ("text",), "none": ()}


def tower(name: str) -> str:
    """Which part of an open_clip model a parameter belongs to: image, text, or scale (logit scale and bias)."""
    if name in ("logit_scale", "logit_bias"):
        return "scale"
    return "image" if name.startswith("visual.") else "text"


def freeze(clip: nn.Module, cfg: Train, seed: int = 0) -> frozenset[str]:
    """Take what is not trained out of the graph; gives the names of the frozen towers.

    With `lora` an adapter is added, and the backbone is frozen to its last number: only the adapter is trained, and a
    bias that the run adds.
    """
    if cfg.lora and not lora.adapter(clip):
        lora.inject(clip, cfg.lora, TOWERS[cfg.trainable], seed)
    trained, factors = set(TOWERS[cfg.trainable]), lora.adapter(clip)
    for name, parameter in clip.named_parameters():
        part = tower(name)
        whole = part in trained or name == "logit_bias" or (part == "scale" and cfg.train_logit_scale)
        added = name == "logit_bias" and getattr(clip, "bias_added", False)
        parameter.requires_grad_(name in factors or added if factors else whole)
    return frozenset({"image", "text"} - trained)


def counts(clip: nn.Module) -> dict[str, int]:
    """How many numbers are trained, and how many the plain model has."""
    own = [p.numel() for name, p in clip.named_parameters() if name not in lora.adapter(clip)]
    return {"trained_parameters": sum(p.numel() for p in clip.parameters() if p.requires_grad), "parameters": sum(own)}


class AdamW(torch.optim.AdamW):
    """torch's own, without the seconds in which it imports a compiler that nothing here asks for."""

    __init__ = lean.eager()(torch.optim.AdamW.__init__)
    load_state_dict = lean.eager()(torch.optim.AdamW.load_state_dict)
    state_dict = lean.eager()(torch.optim.AdamW.state_dict)
    step = lean.eager()(torch.optim.AdamW.step)
    zero_grad = lean.eager()(torch.optim.AdamW.zero_grad)


def adamw(clip: nn.Module, cfg: Train, beside: Iterable[tuple[str, nn.Parameter]] = ()) -> AdamW:
    """AdamW over the model and what is trained `beside` it; gains, biases and the logit scale are not decayed."""
    named = [(n, p) for n, p in [*clip.named_parameters(), *beside] if p.requires_grad]
    groups = [
        {"params": [p for n, p in named if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for n, p in named if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=cfg.lr, betas=(cfg.beta1, cfg.beta2), eps=cfg.eps, fused=True)


def learning_rate(step: int, steps: int, cfg: Train) -> float:
    """Linear from `lr_start` to `lr` over the warm-up, then half a cosine down to `lr_end` at the last step."""
    warmup = round(cfg.warmup_fraction * steps) if cfg.warmup_fraction else min(cfg.warmup_steps, steps)
    if step < warmup:
        return cfg.lr_start + (cfg.lr - cfg.lr_start) * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup - 1)
    return cfg.lr_end + (cfg.lr - cfg.lr_end) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def clamp_scale(clip: nn.Module, largest: float) -> None:
    """Keep exp(logit_scale) within [1, largest], where it is trained."""
    if clip.logit_scale.requires_grad:
        with torch.no_grad():
            clip.logit_scale.clamp_(0.0, math.log(largest))
