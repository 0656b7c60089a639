"""Pictures beside samples, as their negatives: joined from a list, or members of the samples' own tars.

A sample's pictures keep their places: one that is missing, cannot be read, or is left out for a benchmark's sake is an
empty name, so that the others go on belonging to the texts that were stored with them.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from compclip.config.pictures import NegativeImages
from compclip.data import entering, images, joined, look, within
from compclip.data.place import Place
from compclip.data.sample import GONE, Negative, Sample
from compclip.text.rows import Strings, numbers

COLUMN = "negatives"
TYPE = pa.list_(pa.struct([("image", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]))
Beside = Callable[[Sequence[Sample], Counter], list[Sample]]


@contextlib.contextmanager
def opened(cfg: NegativeImages | None) -> Iterator[Beside]:
    """Gives what puts negative images beside samples; nothing where there is no `cfg`.

    Counted: samples with some and without any, missing and unreadable pictures. Raises UserError for a list that is
    missing or another one, and for a picture that lies outside of `cfg.images`.
    """
    if cfg is None:
        yield lambda samples, counts: list(samples)
    elif cfg.member:
        yield partial(_beside, lambda samples: [_members(sample, cfg.member.lower()) for sample in samples])
    else:
        with joined.opened(cfg.listed) as listed:
            yield partial(_beside, partial(_named, cfg, listed))


def counted(cfg: NegativeImages | None) -> Counter:
    """The rows of a data set's list, and those that are of no use by reason; nothing where it names none."""
    if cfg is None or cfg.member:
        return Counter()
    with joined.opened(cfg.listed) as listed:
        return Counter({name.replace("captions", "negative_images", 1): n for name, n in listed.counts.items()})


def files(cfg: NegativeImages | None) -> Iterator[str]:
    """All that a sample's negative images depend on, besides the files that hold its own picture."""
    for root in (cfg.file, cfg.images) if cfg and cfg.file else ():
        yield from (file.path for file in look.files(root))


def _members(sample: Sample, name: str) -> list[Negative]:
    return [Negative(sample.image, one.offset, one.length) for one in sample.members if one.name == name]


def _named(cfg: NegativeImages, listed: joined.Joined, samples: Sequence[Sample]) -> list[list[Negative]]:
    keys = [joined.keys(sample, cfg.on) for sample in samples]
    found = iter(listed.of([key for own in keys for key in own]))
    names = [dict.fromkeys(name for _ in own for name in next(found) or ()) for own in keys]
    paths = [[os.path.join(cfg.images, name) for name in own] for own in names]
    if not cfg.images_outside:
        within.check(((s.id, p) for s, own in zip(samples, paths, strict=True) for p in own), cfg.images, cfg.file)
    return [[Negative(path) for path in own] for own in paths]


def _beside(find: Callable[[Sequence[Sample]], list[list[Negative]]], samples: Sequence[Sample], counts: Counter):
    found = find(samples)
    with ThreadPoolExecutor(entering.THREADS) as pool:
        looked = pool.map(_looked, [one for own in found for one in own])
        kept = [tuple(_counted(next(looked), counts) for _ in own) for own in found]
    counts["negative_images_samples"] += sum(map(bool, kept))
    counts["negative_images_without"] += len(kept) - sum(map(bool, kept))
    return [replace(sample, negatives=own) for sample, own in zip(samples, kept, strict=True)]


def _looked(one: Negative) -> Negative | str:
    """The picture with its checksum, or why there is none."""
    try:
        return replace(one, head=entering.seen(one.picture)[2])
    except images.ImageError as error:
        return error.reason
    except OSError:  # gone since
        return "missing"


def _counted(found: Negative | str, counts: Counter) -> Negative:
    if isinstance(found, Negative):
        return found
    counts[f"negative_images_{found}"] += 1
    return GONE


# --- in the shards that training reads ------------------------------------------------------------------------


def column(samples: Sequence[Sample]) -> dict[str, pa.Array]:
    """The column of some samples; none where no sample has negative images."""
    if not any(sample.negatives for sample in samples):
        return {}
    places = [[{"image": n.image, "offset": n.offset, "length": n.length} for n in s.negatives] for s in samples]
    return {COLUMN: pa.array(places, TYPE)}


class Places:
    """Where the negative images of a shard's samples are, by row. ValueError or another one of a column of others."""

    def __init__(self, listed: pa.ListArray) -> None:
        values = listed.values
        if values.offset:
            raise ValueError("a part of a column")
        self._ends, self._size = numbers(listed.offsets), len(values)
        self._images = Strings(values.field("image"))
        self._numbers = [numbers(values.field(name)) for name in ("offset", "length")]

    def __getitem__(self, row: int) -> tuple[Place, ...]:
        low, high = self._ends[row : row + 2].tolist()
        if not 0 <= low <= high <= self._size:
            raise ValueError("a list outside of its column")
        names = self._images.all(np.arange(low, high))
        offsets, lengths = (numbers[low:high].tolist() for numbers in self._numbers)
        return tuple(Place(name.decode(), *at) for name, *at in zip(names, offsets, lengths, strict=True))
