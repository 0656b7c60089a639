"""Texts that others released, joined to captions: `data.<name>.texts`.

A text of `variation` is a record of GNM-CLIP's list, as JSON: {"itm_score": [0.9], "captions": ["a red dog"]}.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from compclip.base.errors import UserError
from compclip.base.files import parse_json
from compclip.base.path_lists import iterate_files
from compclip.config.released_lists import VARIATION, MemberText, NegativeImages, Texts, TextSection
from compclip.data import images
from compclip.data.sample import NO_IMAGE, ImageLocation, NegativeImage, Sample
from compclip.prepare import caption_join, image_folder, sample_cleaning
from compclip.text.annotation import SEPARATOR
from compclip.text.caption_cleaning import clean_caption

MAX_BYTES = 1 << 16  # of a text in a tar
TextSections = Mapping[str, TextSection]
TextLists = Mapping[str, caption_join.CaptionJoin | MemberText]


def describe_lists(cfg: TextSections) -> dict[str, list]:
    """Return what decides the texts of each kind: the section, and the files of its list with their sizes and times."""
    deciding = {}
    for kind, section in cfg.items():
        deciding[kind] = [vars(section), list(iterate_files(section.file)) if isinstance(section, Texts) else []]
    return deciding


def open_lists(cfg: TextSections) -> TextLists:
    """Return the lists by kind; balanced texts have none. Raises UserError as `caption_join.open_list`."""
    lists: dict[str, caption_join.CaptionJoin | MemberText] = {}
    for kind, section in cfg.items():
        if isinstance(section, Texts):
            lists[kind] = caption_join.open_list(section)
        elif isinstance(section, MemberText):
            lists[kind] = section
    return lists


def find_texts(lists: TextLists, samples: Sequence[Sample]) -> tuple[dict[str, list[tuple[str, ...]]], Counter]:
    """Return the lists' texts by kind for every caption of the samples, and how many captions have some."""
    texts: dict[str, list[tuple[str, ...]]] = {}
    counts = Counter[str]()
    for kind, source in lists.items():
        if isinstance(source, MemberText):
            member = source.member.lower()
            texts[kind] = []
            for sample in samples:
                texts[kind] += [_read_member(sample, member)] * len(sample.captions)
        else:
            texts[kind] = source.find_texts(samples)
        if kind == VARIATION:
            texts[kind] = [tuple(map(pack_variation, records)) for records in texts[kind]]
            counts[f"{VARIATION}_damaged"] += sum(records.count("") for records in texts[kind])
        else:
            cleaning = Counter[str]()
            texts[kind] = [_clean_texts(list_texts, cleaning) for list_texts in texts[kind]]
            counts.update(_count_as(kind, +cleaning))
        counts.update(count_texts(kind, texts[kind]))
    return texts, counts


def pack_variation(record: str) -> str:
    """Return the mean score and the captions of an edited picture, joined by tabs; "" for what is no such record.

    It keeps its place, so that the others go on belonging to their pictures.
    """
    try:
        content = parse_json(record, "")
        captions = content["captions"]
        scores = content["itm_score"]
        texts = [clean_caption(caption) for caption in captions] if isinstance(captions, list) else []
        score = math.fsum(scores) / len(scores)
    except (UserError, LookupError, TypeError, AttributeError, ZeroDivisionError, OverflowError, ValueError):
        return ""
    return SEPARATOR.join([repr(score), *texts]) if math.isfinite(score) and texts and all(texts) else ""


def count_texts(kind: str, texts: Sequence[Sequence[str]]) -> Counter:
    """Return how many captions have texts of a kind, and how many have none."""
    matched = sum(map(bool, texts))
    return Counter({f"captions_with_{kind}": matched, f"captions_without_{kind}": len(texts) - matched})


def _read_member(sample: Sample, name: str) -> tuple[str, ...]:
    """Return the text of a member of a sample's tar; nothing where it is missing, empty, or cannot be read."""
    location = next((ImageLocation(sample.image, m.offset, m.length) for m in sample.members if m.name == name), None)
    try:
        content = images.read_bytes(location, MAX_BYTES) if location else b""
    except images.ImageError:
        return ()
    return (content.decode(errors="replace"),)


def _clean_texts(texts: Iterable[str], counts: Counter) -> tuple[str, ...]:
    """Return the different texts that are left of some, each clean."""
    return tuple(filter(None, dict.fromkeys(map(partial(clean_caption, counts=counts), texts))))


def count_text_rows(cfg: TextSections) -> Counter:
    """Return the number of rows of the lists, and of the unusable ones: `negative_rows`, `negative_damaged`, …"""
    counts = Counter[str]()
    for kind, section in cfg.items():
        if isinstance(section, Texts):
            counts.update(_count_as(kind, caption_join.open_list(section).counts))
    return counts


def _count_as(kind: str, counts: Mapping[str, int]) -> Counter:
    """Return the counts of a list of captions under the name of another kind of texts."""
    return Counter({name.replace("captions", kind, 1): number for name, number in counts.items()})


# --- pictures beside a sample ---------------------------------------------------------------------------------------
# Join negative images to samples, from a list or from members of the samples' own tars.
#
# A sample's negative images keep their positions: one that is missing, cannot be read, or is left out for a
# benchmark's sake has an empty name, so that the others go on belonging to the texts that were stored with them.


JoinImages = Callable[[Sequence[Sample], Counter], list[Sample]]


def open_joiner(cfg: NegativeImages | None) -> JoinImages:
    """Return the function that adds negative images to samples; it adds none without `cfg`.

    Counted: samples with and without negative images, missing and unreadable pictures. Raises UserError for a list
    that is missing or unusable, and for a picture outside of `cfg.images`.
    """
    if cfg is None:
        return lambda samples, counts: list(samples)
    if cfg.member:
        return partial(_join, partial(_find_members, cfg.member.lower()))
    return partial(_join, partial(_find_listed, cfg, caption_join.open_list(cfg)))


def count_rows(cfg: NegativeImages | None) -> Counter:
    """Return the number of a list's rows, and of the unusable ones by reason; nothing without a list."""
    if cfg is None or cfg.member:
        return Counter()
    return _count_as("negative_images", caption_join.open_list(cfg).counts)


def _find_members(name: str, samples: Sequence[Sample]) -> list[list[NegativeImage]]:
    groups = []
    for sample in samples:
        members = [member for member in sample.members if member.name == name]
        groups.append([NegativeImage(sample.image, member.offset, member.length) for member in members])
    return groups


def _find_listed(
    cfg: NegativeImages, image_list: caption_join.CaptionJoin, samples: Sequence[Sample]
) -> list[list[NegativeImage]]:
    keys_of_sample = [caption_join.sample_keys(sample, cfg.on) for sample in samples]
    names_of_key = iter(image_list.find(itertools.chain.from_iterable(keys_of_sample)))
    folder = image_folder.ImageFolder(cfg.images, cfg.file)
    groups = []
    for sample, keys in zip(samples, keys_of_sample, strict=True):
        names = itertools.chain.from_iterable(itertools.islice(names_of_key, len(keys)))
        paths = [os.path.join(cfg.images, name) for name in dict.fromkeys(names)]
        for path in () if cfg.images_outside else paths:
            folder.check(sample.id, path)
        groups.append(list(map(NegativeImage, paths)))
    return groups


def _join(
    find: Callable[[Sequence[Sample]], list[list[NegativeImage]]], samples: Sequence[Sample], counts: Counter
) -> list[Sample]:
    groups = find(samples)
    joined = []
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        measured = pool.map(_measure, itertools.chain.from_iterable(groups))
        for sample, group in zip(samples, groups, strict=True):
            negatives = []
            for negative, reason in itertools.islice(measured, len(group)):
                negatives.append(negative)
                if reason:
                    counts[f"negative_images_{reason}"] += 1
            counts["negative_images_samples" if negatives else "negative_images_without"] += 1
            joined.append(replace(sample, negatives=tuple(negatives)))
    return joined


def _measure(image: NegativeImage) -> tuple[NegativeImage, str]:
    """Return the picture with its checksum and "", or none and the reason why it cannot be used."""
    try:
        return replace(image, head=sample_cleaning.read_image_header(image.picture)[2]), ""
    except images.ImageError as error:
        return NO_IMAGE, error.reason
