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
from compclip.model import model_config, tokenizers, weight_files
from compclip.model.clip_model import CONFIG

T = TypeVar("T")
BUDGET = 2 << 30  # bytes of weights that an evaluation holds at once


def group_by_inputs(requests: Sequence[T], checkpoint: Callable[[T], str], budget: int = BUDGET) -> list[list[T]]:
    """Group requests whose checkpoints take equal inputs, as many together as the budget holds weights of.

    `checkpoint` gives a request's reference. Only folders in open_clip's format are compared; others stand alone.
    """
    alike: dict[str, list[T]] = {}
    for request in requests:
        alike.setdefault(_input_key(checkpoint(request)), []).append(request)
    groups: list[list[T]] = []
    for requests in alike.values():
        room = 0
        for request in requests:
            size = _weights_size(checkpoint(request))
            if not room or size > room:
                groups.append([])
                room = budget
            groups[-1].append(request)
            room = max(0, room - size)
    return groups


def count_copies(clip: nn.Module, budget: int = BUDGET) -> int:
    """Return how many models of this size fit into the budget, at least one."""
    return max(1, budget // max(1, sum(t.nbytes for t in clip.state_dict().values())))


def _input_key(ref: str) -> str:
    """Return a text that is equal for checkpoints that take the same pixels and tokens; a damaged one stands alone."""
    folder = Path(ref)
    if not (folder / CONFIG).is_file():
        return ref
    try:
        config = model_config.read_config(folder / CONFIG)
    except UserError:
        return ref
    model = {k: v for k, v in config["model_cfg"].items() if k != "init_logit_bias"}
    files = [folder / name for name in tokenizers.FILES if (folder / name).is_file()]
    preparation = [config.get("preprocess_cfg"), config.get("tokenizer"), fingerprint(*files) if files else ""]
    return json.dumps([model, *preparation], sort_keys=True)


def _weights_size(ref: str) -> int:
    """Return the bytes of a folder's weights; another reference counts as the whole budget."""
    with contextlib.suppress(UserError):
        return weight_files.find_weights(Path(ref)).stat().st_size
    return BUDGET
