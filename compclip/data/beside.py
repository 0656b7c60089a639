"""Texts that others released, beside captions: `data.<name>.texts`, joined while shards are annotated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.surrogates import repaired
from compclip.config.texts import MemberText, Texts
from compclip.data import images, joined, look
from compclip.data.images import ImageError
from compclip.data.place import Place
from compclip.data.sample import Sample

STAGE = "annotate"
LONGEST = 1 << 16  # bytes of a text in a tar
Asked = Mapping[str, Texts | MemberText]


@dataclass(frozen=True)
class Found:
    """Texts by kind, for every caption of a shard; `about` is what the shard is to say of the lists."""

    texts: dict[str, list[tuple[str, ...]]]
    about: dict[str, str]
    counts: Counter


def asked(cfg: Asked) -> dict[str, Any]:
    """What a shard depends on: the lists by kind, with their files by name, size and time."""
    return {
        kind: [vars(one), list(look.files(one.file)) if isinstance(one, Texts) else []] for kind, one in cfg.items()
    }


Opened = Mapping[str, joined.Joined | MemberText]


@contextmanager
def opened(cfg: Asked) -> Iterator[Opened]:
    """The lists of a data set by kind. Raises UserError as `joined.opened`."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(joined.opened(one)) if isinstance(one, Texts) else one
               for kind, one in cfg.items()}  # fmt: skip


def of(lists: Opened, samples: Sequence[Sample]) -> Found:
    """What the lists have for the captions of some samples; counted: captions with texts of a kind, and without."""
    found = Found({}, {}, Counter())
    for kind, one in lists.items():
        if isinstance(one, MemberText):
            found.texts[kind] = [_member(sample, one.member.lower()) for sample in samples for _ in sample.captions]
        else:
            found.texts[kind], rows = one.beside(samples)
            found.about.update(joined.packed(rows, _kept(kind)))
        matched = sum(map(bool, found.texts[kind]))
        found.counts[f"captions_with_{kind}"] += matched
        found.counts[f"captions_without_{kind}"] += len(found.texts[kind]) - matched
    return found


def _member(sample: Sample, name: str) -> tuple[str, ...]:
    """The text in a member of a sample's tar; none where it is not there, empty, or no text."""
    place = next((Place(sample.image, m.offset, m.length) for m in sample.members if m.name == name), None)
    try:
        raw = images.read(place, LONGEST) if place else b""
    except ImageError:
        return ()
    text = " ".join(repaired(raw.decode(errors="replace")).split())
    return (text,) if text else ()


def counted(cfg: Asked, shards: Iterable[Path]) -> Counter:
    """What became of the rows of a data set's lists, of all its shards: `negative_matched`, `negative_damaged`, …"""
    made, told = list(shards), Counter[str]()
    with opened(cfg) as lists:
        for kind, one in lists.items():
            if isinstance(one, MemberText):
                continue
            rows = one.told(joined.rows(shard, STAGE, _kept(kind)) for shard in made)
            told.update({name.replace("captions", kind, 1): number for name, number in rows.items()})
    return told


def _kept(kind: str) -> str:
    return f"{joined.ROWS}: {kind}"
