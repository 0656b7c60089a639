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

import pyarrow as pa

from compclip.config.released_lists import NegativeImages
from compclip.data import images
from compclip.data.prepared_dataset import NEGATIVE_COLUMN, NEGATIVE_TYPE
from compclip.data.sample import NO_IMAGE, NegativeImage, Sample
from compclip.prepare import caption_join, file_listing, image_containment, sample_cleaning

JoinImages = Callable[[Sequence[Sample], Counter], list[Sample]]


@contextlib.contextmanager
def open_joiner(cfg: NegativeImages | None) -> Iterator[JoinImages]:
    """Gives what puts negative images beside samples; nothing where there is no `cfg`.

    Counted: samples with some and without any, missing and unreadable pictures. Raises UserError for a list that is
    missing or another one, and for a picture that lies outside of `cfg.images`.
    """
    if cfg is None:
        yield lambda samples, counts: list(samples)
    elif cfg.member:
        yield partial(_beside, lambda samples: [_members(sample, cfg.member.lower()) for sample in samples])
    else:
        with caption_join.open_list(cfg.names) as listed:
            yield partial(_beside, partial(_named, cfg, listed))


def count_rows(cfg: NegativeImages | None) -> Counter:
    """The rows of a data set's list, and those that are of no use by reason; nothing where it names none."""
    if cfg is None or cfg.member:
        return Counter()
    with caption_join.open_list(cfg.names) as listed:
        return Counter({name.replace("captions", "negative_images", 1): n for name, n in listed.counts.items()})


def iterate_inputs(cfg: NegativeImages | None) -> Iterator[str]:
    """All that a sample's negative images depend on, besides the files that hold its own picture."""
    for root in (cfg.file, cfg.images) if cfg and cfg.file else ():
        yield from (file.path for file in file_listing.iterate_files(root))


def _members(sample: Sample, name: str) -> list[NegativeImage]:
    return [NegativeImage(sample.image, one.offset, one.length) for one in sample.members if one.name == name]


def _named(
    cfg: NegativeImages, listed: caption_join.CaptionJoin, samples: Sequence[Sample]
) -> list[list[NegativeImage]]:
    keys = [caption_join.sample_keys(sample, cfg.on) for sample in samples]
    found = iter(listed.of([key for own in keys for key in own]))
    names = [dict.fromkeys(name for _ in own for name in next(found) or ()) for own in keys]
    paths = [[os.path.join(cfg.images, name) for name in own] for own in names]
    if not cfg.images_outside:
        image_containment.check_images(
            ((s.id, p) for s, own in zip(samples, paths, strict=True) for p in own), cfg.images, cfg.file
        )
    return [[NegativeImage(path) for path in own] for own in paths]


def _beside(find: Callable[[Sequence[Sample]], list[list[NegativeImage]]], samples: Sequence[Sample], counts: Counter):
    found = find(samples)
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        looked = pool.map(_looked, [one for own in found for one in own])
        kept = [tuple(_counted(next(looked), counts) for _ in own) for own in found]
    counts["negative_images_samples"] += sum(map(bool, kept))
    counts["negative_images_without"] += len(kept) - sum(map(bool, kept))
    return [replace(sample, negatives=own) for sample, own in zip(samples, kept, strict=True)]


def _looked(one: NegativeImage) -> NegativeImage | str:
    """The picture with its checksum, or why there is none."""
    try:
        return replace(one, head=sample_cleaning.read_image_header(one.picture)[2])
    except images.ImageError as error:
        return error.reason
    except OSError:  # gone since
        return "missing"


def _counted(found: NegativeImage | str, counts: Counter) -> NegativeImage:
    if isinstance(found, NegativeImage):
        return found
    counts[f"negative_images_{found}"] += 1
    return NO_IMAGE


def build_column(samples: Sequence[Sample]) -> dict[str, pa.Array]:
    """The column of some samples; none where no sample has negative images."""
    if not any(sample.negatives for sample in samples):
        return {}
    places = [[{"image": n.image, "offset": n.offset, "length": n.length} for n in s.negatives] for s in samples]
    return {NEGATIVE_COLUMN: pa.array(places, NEGATIVE_TYPE)}
