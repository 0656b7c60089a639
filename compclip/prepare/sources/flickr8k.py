"""Read Flickr8k and Flickr30k: captions.txt, the token files, and CLIP_benchmark's *_karpathy.txt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compclip.config.sections import Data
from compclip.data.caption_files import read_lines
from compclip.data.sample import Sample
from compclip.prepare.sources import make_samples


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the file. Lines that are not UTF-8 or have no caption are dropped and counted."""
    yield from make_samples(cfg, read_lines(cfg.path, counts, drops_damaged=True))
