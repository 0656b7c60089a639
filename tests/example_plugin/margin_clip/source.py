"""A folder of pictures and a text file: `picture<TAB>caption`, one a line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.files import read_text
from compclip.data import images
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data


def read(cfg: Data) -> tuple[list[Sample], Counter]:
    """A sample for each line with a tab; the others are counted."""
    rows = [line.split("\t", 1) for line in read_text(cfg.path).splitlines()]
    samples = [_sample(Path(cfg.images) / row[0], row[1], cfg.split) for row in rows if len(row) == 2]
    return samples, Counter(samples=len(samples), malformed_lines=len(rows) - len(samples))


def _sample(picture: Path, caption: str, split: str) -> Sample:
    return Sample(picture.stem, str(picture), (caption,), split, *images.size(picture))
