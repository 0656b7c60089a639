"""Caption pictures of the scenes world: dense captions of several sentences, from the exact layout."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from compclip.base.errors import UserError
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare.captioners import Caption
from compclip.scenes import grammar
from compclip.scenes.generate import read_joined, read_layouts
from compclip.scenes.layout import Scene

SIDE_BY_SIDE = True


def reads(data: Data, cfg: None) -> list[str]:
    """Return the file of layouts."""
    return [str(_path(data))]


@contextmanager
def opened(data: Data, cfg: None) -> Iterator[Caption]:
    """Give a captioner that replaces captions by a dense one; counts samples whose layout is unknown."""
    if not _path(data).is_file():
        raise UserError(f"{_path(data)}: not there; the captioner 'scenes' needs the layouts of the scenes world")
    yield functools.partial(_caption, read_layouts(_path(data)), read_joined(_path(data)))


def _path(data: Data) -> Path:
    return Path(data.path).with_name("layouts.jsonl")


def _caption(
    layouts: Mapping[str, Scene], joined: frozenset[str], samples: list[Sample], shard: str
) -> tuple[list[Sample], Counter]:
    counts = Counter[str]()
    captioned = []
    for sample in samples:
        name = Path(sample.image).stem
        if name not in layouts:
            counts["no_layout"] += 1
            continue
        sentences = grammar.dense_caption(name, layouts[name], name in joined)
        captioned.append(replace(sample, captions=(grammar.join_sentences(sentences),)))
    return captioned, counts
