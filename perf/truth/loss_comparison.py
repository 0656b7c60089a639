"""What comparisons of our losses with released programs share: their files as modules, drawn batches, and slopes.

B images, K negatives, D dim. Everything is in float64.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from compclip.base.files import read_text
from compclip.interface.features import Features
from compclip.interface.method import load_method

B = 6
UNITS = ("image_BD", "text_BD", "positive_BPD", "regions", "region_texts", "region_crops")
Names = tuple[str, ...]
Compared = tuple[Tensor, Tensor, Features, Names]  # our value, theirs, the batch, and what slopes are compared of


def load_module(path: Path, text: Callable[[str], str] = lambda source: source) -> Any:
    """Run a file of a release in float64 as a module of its own; `text` cuts out what is needed."""
    source = text(read_text(path)).replace(".float()", ".double()").replace("torch.float32", "torch.float64")
    module = ModuleType(path.stem)
    sys.modules.setdefault("wandb", module_from_spec(ModuleSpec("wandb", None)))  # accelerate asks for its spec
    sys.modules[path.stem] = module  # dataclasses look their module up
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def total(name: str, f: Features, cfg: Any) -> Tensor:
    """Return our loss, its terms summed."""
    return torch.stack(list(load_method(name).loss(f, cfg, 0).values())).sum()


def compute_slopes(value: Tensor, f: Features, names: Names) -> list[Tensor]:
    """Return slopes by name; of unit vectors the part that does not change their length."""
    leaves = [f.named[name].values if name in f.named else operator.attrgetter(name)(f) for name in names]
    slopes = torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True)
    full_slopes = [torch.zeros_like(x) if slope is None else slope for x, slope in zip(leaves, slopes, strict=True)]
    return [
        slope - (slope * x.detach()).sum(-1, keepdim=True) * x.detach() if name in UNITS else slope
        for name, x, slope in zip(names, leaves, full_slopes, strict=True)
    ]
