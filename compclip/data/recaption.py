"""The stage `recaption`: from a source and a captioner to the samples of a data set, shard by shard.

A source that lists its pictures in one file is cut into shards here; of one that comes in tars, each is a shard.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.base.files import fingerprint
from compclip.base.surrogates import repaired
from compclip.config import pictures
from compclip.config.captions import Captions
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.data import entering, joined, look, negatives, shards, within
from compclip.data.item import Item, Made, Make
from compclip.data.sample import Sample
from compclip.text import sentences

FRESH = "new.arrow"


@dataclass(frozen=True)
class Part:
    """What becomes one shard: a block of samples that was written down, or a file of the source's own."""

    path: str
    own: bool = False
    limit: int = 0  # 0: all of it


def items(cfg: Data, options: Any, code: str, spool: Path) -> tuple[list[Item], Counter]:
    """The shards of a data set, and what was counted while they were told apart. `options`: the captioner's own Config.

    Raises UserError for a picture outside of `cfg.images`, before one is opened.
    """
    source, counts = plugins.find(plugins.SOURCES, cfg.source), Counter[str]()
    found = _own_parts(source, cfg) if hasattr(source, "parts") else _blocks(source, cfg, spool, counts)
    asked = asdict(cfg) | {"code": code, "reads": _stamps(_captioners_files(cfg, options))}
    for name in ("rewriter", "rewrites", "texts", "masked", "exclude", "relatives"):
        asked.pop(name)
    if isinstance(options, Server):
        asked["options"] = options.deciding
    made = []
    for index, (part, stamp) in enumerate(found):
        given = {"path": part.path, "own": part.own, "limit": part.limit}
        made.append(Item.of(shards.file_name(index), given, asked | {"part": part.limit, "stamp": stamp}))
    return made, counts


def _captioners_files(cfg: Data, options: Any) -> Iterable[str]:
    """What is read beside the samples' own pictures: by a captioner, of lists, negative images."""
    reads = getattr(plugins.find(plugins.CAPTIONERS, cfg.captioner), "reads", None)
    listed = (file.path for file in look.files(cfg.captions["file"])) if cfg.captions else ()
    return itertools.chain(reads(cfg, options) if reads else (), listed, negatives.files(pictures.of(cfg)))


def _stamps(paths: Iterable[str]) -> str:
    """Equal as long as the files are: by name, size and time."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            found = os.stat(path)
            digest.update(f"{path}\0{found.st_size} {found.st_mtime_ns}\n".encode())
        except (OSError, ValueError):
            digest.update(f"{path!a} missing\n".encode())
    return digest.hexdigest()


def _own_parts(source: Any, cfg: Data) -> Iterator[tuple[Part, str]]:
    """The source's own files, as many as hold `cfg.limit` samples, the last one in part."""
    paths, left = source.parts(cfg), cfg.limit
    if not cfg.images_outside:
        within.check(((Path(path).name, path) for path in paths), cfg.images, cfg.path)
    for path in paths:
        if not cfg.limit:
            yield Part(path, own=True), _stamps([path])
        elif left > 0:
            yield Part(path, own=True, limit=left), _stamps([path])
            left -= sum(1 for _ in itertools.islice(source.records(cfg, Counter(), path), left))


def _blocks(source: Any, cfg: Data, spool: Path, counts: Counter) -> Iterator[tuple[Part, str]]:
    """The samples of a source, some thousand at a time in a file of their own.

    It is called by its content: a task that is under way reads what it was sent for.
    """
    found = entering.entered(itertools.islice(source.records(cfg, counts), cfg.limit or None), counts)
    if not cfg.images_outside:
        found = within.checked(found, cfg.images, cfg.path)
    hashes = array("Q")
    for block in iter(lambda: list(itertools.islice(found, shards.ROWS)), []):
        shards.save(spool / FRESH, block)
        content = fingerprint(spool / FRESH)
        path = os.path.join(spool, f"{content[:32]}.arrow")
        os.replace(spool / FRESH, path)
        hashes.extend(_hash(sample.image) for sample in block)
        yield Part(path), content + _stamps(sample.image for sample in block)
    counts["duplicate_images"] += len(hashes) - len(np.unique(np.frombuffer(hashes, np.uint64))) if hashes else 0


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@contextlib.contextmanager
def opened(cfg: Data, options: Any, captions: Captions | None = None) -> Iterator[Make]:
    """What makes a shard: `make(item, path)` writes it. The captioner is opened once for all of them.

    `captions` is a list whose captions the samples get before the captioner sees them.
    """
    source, captioner = plugins.find(plugins.SOURCES, cfg.source), plugins.find(plugins.CAPTIONERS, cfg.captioner)
    with (
        captioner.opened(cfg, options) as caption,
        joined.of(captions) as listed,
        negatives.opened(pictures.of(cfg)) as beside,
    ):

        def make(item: Item, path: Path) -> Made:
            counts = Counter[str]()
            found, about = _joined(_samples(source, cfg, Part(**item.given), counts), listed, counts)
            samples = _captioned(entering.measured(found, counts), caption, item.name, cfg, counts)
            samples = beside(samples, counts)
            shards.save(path, samples, about)
            return Made(len(samples), sum(len(s.captions) for s in samples), dict(counts))

        yield make


def side_by_side(cfg: Data) -> bool:
    """Whether several processes may caption: not where each would load a model, or ask the same server."""
    return getattr(plugins.find(plugins.CAPTIONERS, cfg.captioner), "SIDE_BY_SIDE", False)


def _samples(source: Any, cfg: Data, part: Part, counts: Counter) -> Iterator[Sample]:
    if not part.own:
        return iter(shards.load(Path(part.path)))
    return entering.entered(itertools.islice(source.records(cfg, counts, part.path), part.limit or None), counts)


def _joined(
    samples: Iterator[Sample], listed: joined.Joined | None, counts: Counter
) -> tuple[Iterable[Sample], dict[str, str]]:
    """The samples that a list of captions has, with its captions, and what the shard is to say of the list."""
    if listed is None:
        return samples, {}
    kept, more, rows = listed.take(samples)
    counts.update(more)
    return kept, joined.packed(rows)


def _captioned(samples: list[Sample], caption: Any, shard: str, cfg: Data, counts: Counter) -> list[Sample]:
    """Samples with the captioner's captions, without openings like "This picture shows:" (CLIC B.1)."""
    if samples:
        samples, more = caption(samples, shard)
        counts.update(more)
    samples, mended = _changed(samples, repaired)
    samples, openings = _changed(samples, sentences.CLEAN[cfg.openings])
    if cfg.captions_each:
        counts["captions_left_out"] += sum(max(len(s.captions) - cfg.captions_each, 0) for s in samples)
        samples = [replace(s, captions=s.captions[: cfg.captions_each]) for s in samples]
    kept = several(samples, cfg.min_sentences)
    counts.update(captioned=len(samples), kept=len(kept), repaired_captions=mended, openings_dropped=openings)
    return kept


def _changed(samples: list[Sample], change: Callable[[str], str]) -> tuple[list[Sample], int]:
    """Samples with other captions, and how many became others."""
    made = [replace(s, captions=tuple(map(change, s.captions))) for s in samples]
    pairs = ((a, b) for s, c in zip(samples, made, strict=True) for a, b in zip(s.captions, c.captions, strict=True))
    return made, sum(a != b for a, b in pairs)


def several(samples: list[Sample], least: int) -> list[Sample]:
    """The samples whose captions have together at least so many sentences of 4 to 34 words (CLIC B.1)."""
    return [s for s in samples if not least or sum(len(sentences.kept(c)) for c in s.captions) >= least]


def told(cfg: Data, counts: Counter) -> dict[str, int]:
    """The counts as counts.json has them. Raises UserError where nothing is left, with the reason."""
    counts = Counter(counts)
    captioned, kept = counts.pop("captioned", 0), counts.pop("kept", 0)
    if not counts["samples"]:
        raise UserError(
            f"no sample is left of {counts['images']} ({_listed(counts)}); check this data's path, images and split"
        )
    if not captioned:
        raise UserError(f"data with source {cfg.source!r}: no sample is left after captioner {cfg.captioner!r}")
    if not kept:
        raise UserError(f"data with source {cfg.source!r}: no picture has min_sentences={cfg.min_sentences}; lower it")
    found = {name: n for name, n in sorted(counts.items()) if n} | {"openings_dropped": counts["openings_dropped"]}
    return found | ({"few_sentences": captioned - kept} if cfg.min_sentences else {})


def _listed(counts: Counter) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n and name != "images") or "no records"
