"""Count the words of a data set's captions, so that WordNet's rule replaces words by words that captions have.

Most of WordNet's words are in no caption: a text that holds one is told from a caption by that alone.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from compclip.data.shard_files import SAMPLES, Manifest
from compclip.prepare.shard_writer import load_samples

SHARDS = 64  # of which the captions are read: at even distances where a data set has more
_WORD = re.compile(r"[a-z]+")


def list_files(folder: Path, samples: Manifest) -> list[str]:
    """Return the shards of samples in data/<name>/ whose captions are read."""
    shards = samples.shards[:: max(1, -(-len(samples.shards) // SHARDS))]
    return [str(folder / SAMPLES / f"{shard.name}.arrow") for shard in shards]


@functools.lru_cache(maxsize=1)
def read_vocabulary(files: tuple[str, ...], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many captions of some shards have."""
    return count_words((c for f in files for s in load_samples(Path(f)) for c in s.captions), captions)


def count_words(texts: Iterable[str], captions: int) -> frozenset[str]:
    """Return the words, in lower case, that at least so many of the texts have."""
    counts = Counter[str]()
    for text in texts:
        counts.update(set(_WORD.findall(text.lower())))
    return frozenset(word for word, number in counts.items() if number >= captions)
