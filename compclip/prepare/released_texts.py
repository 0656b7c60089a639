"""Join texts that others released to captions while shards are annotated: `data.<name>.texts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.json_text import replace_lone
from compclip.config.released_lists import MemberText, Texts
from compclip.data import images
from compclip.data.sample import ImageLocation, Sample
from compclip.prepare import caption_join, file_listing

STAGE = "annotate"
MAX_BYTES = 1 << 16  # of a text in a tar
TextSections = Mapping[str, Texts | MemberText]
OpenTextLists = Mapping[str, caption_join.CaptionJoin | MemberText]


@dataclass(frozen=True)
class JoinedTexts:
    """Texts by kind, for every caption of a shard, and the rows of the lists for the shard's metadata."""

    texts: dict[str, list[tuple[str, ...]]]
    metadata: dict[str, str]
    counts: Counter


def describe_inputs(cfg: TextSections) -> dict[str, Any]:
    """Return what a shard depends on: the sections by kind, with the names, sizes and times of their files."""
    return {
        kind: [vars(section), list(file_listing.iterate_files(section.file)) if isinstance(section, Texts) else []]
        for kind, section in cfg.items()
    }


@contextmanager
def open_lists(cfg: TextSections) -> Iterator[OpenTextLists]:
    """Give the lists of a data set by kind. Raises UserError as `caption_join.open_list`."""
    with ExitStack() as stack:
        lists: dict[str, caption_join.CaptionJoin | MemberText] = {}
        for kind, section in cfg.items():
            if isinstance(section, Texts):
                lists[kind] = stack.enter_context(caption_join.open_list(section))
            else:
                lists[kind] = section
        yield lists


def find_texts(lists: OpenTextLists, samples: Sequence[Sample]) -> JoinedTexts:
    """Return the lists' texts for every caption of the samples; counts captions with and without texts of a kind."""
    joined = JoinedTexts({}, {}, Counter())
    for kind, source in lists.items():
        if isinstance(source, MemberText):
            member = source.member.lower()
            joined.texts[kind] = [_read_member(sample, member) for sample in samples for _ in sample.captions]
        else:
            matches = source.find_texts(samples)
            joined.texts[kind] = matches.texts
            joined.metadata.update(caption_join.pack_row_numbers(matches.rows, _metadata_key(kind)))
        matched = sum(map(bool, joined.texts[kind]))
        joined.counts[f"captions_with_{kind}"] += matched
        joined.counts[f"captions_without_{kind}"] += len(joined.texts[kind]) - matched
    return joined


def _read_member(sample: Sample, name: str) -> tuple[str, ...]:
    """Return the text of a member of a sample's tar; nothing where it is missing, empty, or cannot be read."""
    location = next((ImageLocation(sample.image, m.offset, m.length) for m in sample.members if m.name == name), None)
    try:
        content = images.read_bytes(location, MAX_BYTES) if location else b""
    except images.ImageError:
        return ()
    text = " ".join(replace_lone(content.decode(errors="replace")).split())
    return (text,) if text else ()


def count_rows(cfg: TextSections, shards: Iterable[Path]) -> Counter:
    """Return what became of the rows of a data set's lists in all its shards: `negative_matched`, …"""
    paths, counts = list(shards), Counter[str]()
    with open_lists(cfg) as lists:
        for kind, source in lists.items():
            if isinstance(source, MemberText):
                continue
            key = _metadata_key(kind)
            rows = source.count_matches(caption_join.read_row_numbers(path, STAGE, key) for path in paths)
            counts.update({name.replace("captions", kind, 1): number for name, number in rows.items()})
    return counts


def _metadata_key(kind: str) -> str:
    return f"{caption_join.ROWS}: {kind}"
