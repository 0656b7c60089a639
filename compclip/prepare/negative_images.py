"""Join negative images to samples, from a list or from members of the samples' own tars.

A sample's negative images keep their positions: one that is missing, cannot be read, or is left out for a benchmark's
sake has an empty name, so that the others go on belonging to the texts that were stored with them.
"""

from __future__ import annotations

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
from compclip.prepare import caption_join, file_listing, sample_cleaning

JoinImages = Callable[[Sequence[Sample], Counter], list[Sample]]


def open_joiner(cfg: NegativeImages | None) -> JoinImages:
    """Return the function that adds negative images to samples; it adds none without `cfg`.

    Counted: samples with and without negative images, missing and unreadable pictures. Raises UserError for a list
    that is missing or unusable, and for a picture outside of `cfg.images`.
    """
    if cfg is None:
        return lambda samples, counts: list(samples)
    if cfg.member:
        name = cfg.member.lower()
        return partial(_join, lambda samples: [
            [NegativeImage(s.image, m.offset, m.length) for m in s.members if m.name == name] for s in samples
        ])  # fmt: skip
    return partial(_join, partial(_find_listed, cfg, caption_join.open_list(cfg.names)))


def count_rows(cfg: NegativeImages | None) -> Counter:
    """Return the number of a list's rows, and of the unusable ones by reason; nothing without a list."""
    if cfg is None or cfg.member:
        return Counter()
    counts = caption_join.open_list(cfg.names).counts
    return Counter({name.replace("captions", "negative_images", 1): n for name, n in counts.items()})


def iterate_inputs(cfg: NegativeImages | None) -> Iterator[str]:
    """Give all files that a sample's negative images depend on, besides those that hold its own picture."""
    for root in (cfg.file, cfg.images) if cfg and cfg.file else ():
        yield from (file.path for file in file_listing.iterate_files(root))


def _find_listed(
    cfg: NegativeImages, image_list: caption_join.CaptionJoin, samples: Sequence[Sample]
) -> list[list[NegativeImage]]:
    keys = [caption_join.sample_keys(sample, cfg.on) for sample in samples]
    names = iter(image_list.find(key for sample in keys for key in sample).texts)
    names_of_sample = [dict.fromkeys(name for _ in sample for name in next(names)) for sample in keys]
    paths = [[os.path.join(cfg.images, name) for name in sample] for sample in names_of_sample]
    if not cfg.images_outside:
        pairs = ((sample.id, path) for sample, group in zip(samples, paths, strict=True) for path in group)
        sample_cleaning.check_images(pairs, cfg.images, cfg.file)
    return [[NegativeImage(path) for path in group] for group in paths]


def _join(
    find: Callable[[Sequence[Sample]], list[list[NegativeImage]]], samples: Sequence[Sample], counts: Counter
) -> list[Sample]:
    groups = find(samples)
    joined = []
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        measured = pool.map(_measure, [image for group in groups for image in group])
        for sample, group in zip(samples, groups, strict=True):
            results = [next(measured) for _ in group]
            counts.update(f"negative_images_{reason}" for reason in results if isinstance(reason, str))
            negatives = tuple(NO_IMAGE if isinstance(result, str) else result for result in results)
            counts["negative_images_samples" if negatives else "negative_images_without"] += 1
            joined.append(replace(sample, negatives=negatives))
    return joined


def _measure(image: NegativeImage) -> NegativeImage | str:
    """Return the picture with its checksum, or the reason why it cannot be used."""
    try:
        return replace(image, head=sample_cleaning.read_image_header(image.picture)[2])
    except images.ImageError as error:
        return error.reason


def build_column(samples: Sequence[Sample]) -> dict[str, pa.Array]:
    """Return the column of the samples' negative images; none where no sample has one."""
    if not any(sample.negatives for sample in samples):
        return {}
    locations = [[{"image": n.image, "offset": n.offset, "length": n.length} for n in s.negatives] for s in samples]
    return {NEGATIVE_COLUMN: pa.array(locations, NEGATIVE_TYPE)}
