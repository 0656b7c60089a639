"""The scenes world's own captioner: dense captions of several sentences, told from the exact layout."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from compclip.base.errors import UserError
from compclip.data.sample import Sample
from compclip.data.scenes import grammar
from compclip.data.scenes.generate import read_layouts


def caption(samples: list[Sample], data, cfg) -> tuple[list[Sample], Counter]:
    """Replace the captions of every sample by a dense one; counts samples whose layout is not known."""
    path = Path(data.path).with_name("layouts.jsonl")
    if not path.is_file():
        raise UserError(f"{path}: not there; the captioner 'scenes' needs the layouts of the scenes world")
    layouts, counts, made = read_layouts(path), Counter(), []
    for sample in samples:
        name = Path(sample.image).stem
        if name not in layouts:
            counts["no_layout"] += 1
            continue
        rng = np.random.default_rng((1, zlib.crc32(name.encode())))
        made.append(replace(sample, captions=(grammar.dense(rng, layouts[name]),)))
    return made, counts
