"""Which checkpoints take the same pixels and tokens, and how many of them memory holds at once.

Models that are fed alike share the work of reading, decoding and preparing pictures, and of tokenising texts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from torch import nn

from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.model import architecture, tokenizers
from compclip.model import weights as weights_files

T = TypeVar("T")
BUDGET = 2 << 30  # bytes of weights at once, which an evaluation may hold twice (`frozen.packing`)


def parts(wanted: Sequence[T], checkpoint: Callable[[T], str], budget: int = BUDGET) -> list[list[T]]:
    """What is wanted of some checkpoints, in parts that are fed alike and whose weights fit into the budget.

    A part has one at least. Only folders in open_clip's format are compared; other references are alone.
    """
    alike: dict[str, list[T]] = {}
    for one in wanted:
        alike.setdefault(_feed(checkpoint(one)), []).append(one)
    return [part for group in alike.values() for part in _within(group, checkpoint, budget)]


def copies(clip: nn.Module, budget: int = BUDGET) -> int:
    """How many models of this size fit into the budget, one at least."""
    return max(1, budget // max(1, sum(t.nbytes for t in clip.state_dict().values())))


def _feed(ref: str) -> str:
    """Equal for checkpoints that take the same pixels and tokens; a damaged one is alone."""
    folder = Path(ref)
    if not (folder / weights_files.CONFIG).is_file():
        return ref
    try:
        config = architecture.read(folder / weights_files.CONFIG)
    except UserError:
        return ref
    model = {k: v for k, v in config["model_cfg"].items() if k != "init_logit_bias"}
    coder = [folder / name for name in tokenizers.FILES if (folder / name).is_file()]
    rest = [config.get("preprocess_cfg"), config.get("tokenizer"), fingerprint(*coder) if coder else ""]
    return json.dumps([model, *rest], sort_keys=True)


def _within(group: list[T], checkpoint: Callable[[T], str], budget: int) -> list[list[T]]:
    """Consecutive parts of a group, each as long as its weights fit."""
    found: list[list[T]] = []
    room = 0
    for one in group:
        size = _size(checkpoint(one))
        if not found or size > room:
            found.append([])
            room = budget
        found[-1].append(one)
        room -= size
    return found


def _size(ref: str) -> int:
    """Bytes of a folder's weights; a reference of another kind, or without weights, fills the memory."""
    with contextlib.suppress(UserError):
        return weights_files.in_folder(Path(ref)).stat().st_size
    return BUDGET
