"""Texts that others released, beside captions: `data.<name>.texts`, joined while shards are annotated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.config.texts import Texts
from compclip.data import joined, look
from compclip.data.sample import Sample

STAGE = "annotate"


@dataclass(frozen=True)
class Found:
    """Texts by kind, for every caption of a shard; `about` is what the shard is to say of the lists."""

    texts: dict[str, list[tuple[str, ...]]]
    about: dict[str, str]
    counts: Counter


def asked(cfg: Mapping[str, Texts]) -> dict[str, Any]:
    """What a shard depends on: the lists by kind, with their files by name, size and time."""
    return {kind: [vars(one), list(look.files(one.file))] for kind, one in cfg.items()}


@contextmanager
def opened(cfg: Mapping[str, Texts]) -> Iterator[dict[str, joined.Joined]]:
    """The lists of a data set by kind. Raises UserError as `joined.opened`."""
    with ExitStack() as stack:
        yield {kind: stack.enter_context(joined.opened(one)) for kind, one in cfg.items()}


def of(lists: Mapping[str, joined.Joined], samples: Sequence[Sample]) -> Found:
    """What the lists have for the captions of some samples; counted: captions with texts of a kind, and without."""
    found = Found({}, {}, Counter())
    for kind, one in lists.items():
        found.texts[kind], rows = one.beside(samples)
        found.about.update(joined.packed(rows, _kept(kind)))
        matched = sum(map(bool, found.texts[kind]))
        found.counts[f"captions_with_{kind}"] += matched
        found.counts[f"captions_without_{kind}"] += len(found.texts[kind]) - matched
    return found


def counted(cfg: Mapping[str, Texts], shards: Iterable[Path]) -> Counter:
    """What became of the rows of a data set's lists, of all its shards: `negative_matched`, `negative_damaged`, …"""
    made, told = list(shards), Counter[str]()
    with opened(cfg) as lists:
        for kind, one in lists.items():
            rows = one.told(joined.rows(shard, STAGE, _kept(kind)) for shard in made)
            told.update({name.replace("captions", kind, 1): number for name, number in rows.items()})
    return told


def _kept(kind: str) -> str:
    return f"{joined.ROWS}: {kind}"
