"""Texts that others released, joined to captions: `data.<name>.texts`.

A text of `variation` is a record of GNM-CLIP's list, as JSON: {"itm_score": [0.9], "captions": ["a red dog"]}.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import parse_json
from compclip.config.released_lists import VARIATION, BalancedTexts, MemberText, Texts, TextSection
from compclip.data import images
from compclip.data.sample import ImageLocation, Sample
from compclip.prepare import caption_join, file_listing
from compclip.text.annotation import SEPARATOR
from compclip.text.caption_cleaning import clean_caption

MAX_BYTES = 1 << 16  # of a text in a tar
TextSections = Mapping[str, TextSection]
TextLists = Mapping[str, caption_join.CaptionJoin | MemberText]


def describe_lists(cfg: TextSections) -> dict[str, list]:
    """Return what decides the texts of each kind: the section, and the files of its list with their sizes and times."""
    return {
        kind: [vars(section), list(file_listing.iterate_files(section.file)) if isinstance(section, Texts) else []]
        for kind, section in cfg.items()
    }


def open_lists(cfg: TextSections) -> TextLists:
    """Return the lists by kind; balanced texts have none. Raises UserError as `caption_join.open_list`."""
    return {
        kind: caption_join.open_list(texts) if isinstance(texts, Texts) else texts
        for kind, texts in cfg.items()
        if not isinstance(texts, BalancedTexts)
    }


def find_texts(
    lists: TextLists, samples: Sequence[Sample]
) -> tuple[dict[str, list[tuple[str, ...]]], dict[str, str], Counter]:
    """Return the lists' texts by kind for every caption of the samples, metadata for the shard, and counts.

    The metadata are the rows of the lists that were used. Captions with and without texts of a kind are counted.
    """
    texts = {}
    metadata = {}
    counts = Counter[str]()
    for kind, source in lists.items():
        if isinstance(source, MemberText):
            member = source.member.lower()
            texts[kind] = [_read_member(sample, member) for sample in samples for _ in sample.captions]
        else:
            matches = source.find_texts(samples)
            texts[kind] = matches.texts
            metadata.update(caption_join.pack_row_numbers(matches.rows, _metadata_key(kind)))
        if kind == VARIATION:
            texts[kind] = [tuple(map(pack_variation, records)) for records in texts[kind]]
            counts[f"{VARIATION}_damaged"] += sum(not packed for records in texts[kind] for packed in records)
        else:
            cleaning = Counter[str]()
            texts[kind] = [_clean_texts(list_texts, cleaning) for list_texts in texts[kind]]
            counts.update({name.replace("captions", kind): number for name, number in cleaning.items() if number})
        counts.update(count_texts(kind, texts[kind]))
    return texts, metadata, counts


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
    cleaned = (clean_caption(text, counts) for text in texts)
    return tuple(dict.fromkeys(text for text in cleaned if text))


def count_text_rows(cfg: TextSections, shards: Iterable[Path]) -> Counter:
    """Return what became of the rows of a data set's lists in all its shards: `negative_matched`, …"""
    paths = list(shards)
    counts = Counter[str]()
    for kind, section in cfg.items():
        if isinstance(section, Texts):
            key = _metadata_key(kind)
            rows = caption_join.open_list(section).count_matches(caption_join.read_row_numbers(p, key) for p in paths)
            counts.update({name.replace("captions", kind, 1): number for name, number in rows.items()})
    return counts


def _metadata_key(kind: str) -> str:
    return f"{caption_join.ROWS}: {kind}"
