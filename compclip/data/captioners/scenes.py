"""The scenes world's own captioner: dense captions of several sentences, told from the exact layout."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base.errors import UserError
from compclip.data.captioners import Caption
from compclip.data.sample import Sample
from compclip.data.scenes import grammar
from compclip.data.scenes.generate import read_layouts

if TYPE_CHECKING:
    from compclip.config.sections import Data
    from compclip.data.scenes.layout import Scene


@contextmanager
def opened(data: Data, cfg: Any) -> Iterator[Caption]:
    """A captioner that knows the layouts beside the captions. Raises UserError where there are none."""
    path = Path(data.path).with_name("layouts.jsonl")
    if not path.is_file():
        raise UserError(f"{path}: not there; the captioner 'scenes' needs the layouts of the scenes world")
    layouts = read_layouts(path)
    yield lambda samples, shard: told(samples, layouts)


def told(samples: list[Sample], layouts: dict[str, Scene]) -> tuple[list[Sample], Counter]:
    """Replace the captions of every sample by a dense one; counts samples whose layout is not known."""
    counts, made = Counter(), []
    for sample in samples:
        name = Path(sample.image).stem
        if name not in layouts:
            counts["no_layout"] += 1
            continue
        rng = np.random.default_rng((1, zlib.crc32(name.encode())))
        made.append(replace(sample, captions=(grammar.dense(rng, layouts[name]),)))
    return made, counts
