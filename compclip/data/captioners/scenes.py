"""The scenes world's own captioner: dense captions of several sentences, told from the exact layout."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.config.sections import Data
from compclip.data.captioners import Caption
from compclip.data.sample import Sample
from compclip.data.scenes import grammar
from compclip.data.scenes.generate import read_layouts

SIDE_BY_SIDE = True


def reads(data: Data, cfg: None) -> list[str]:
    """The layouts."""
    return [str(_path(data))]


@contextmanager
def opened(data: Data, cfg: None) -> Iterator[Caption]:
    """Replace the captions of every sample by a dense one; counts samples whose layout is not known."""
    if not _path(data).is_file():
        raise UserError(f"{_path(data)}: not there; the captioner 'scenes' needs the layouts of the scenes world")
    yield functools.partial(_caption, read_layouts(_path(data)))


def _path(data: Data) -> Path:
    return Path(data.path).with_name("layouts.jsonl")


def _caption(layouts: Mapping[str, Any], samples: list[Sample], shard: str) -> tuple[list[Sample], Counter]:
    counts, made = Counter[str](), []
    for sample in samples:
        name = Path(sample.image).stem
        if name not in layouts:
            counts["no_layout"] += 1
            continue
        made.append(replace(sample, captions=(grammar.joined(grammar.captioned(name, layouts[name])),)))
    return made, counts
