"""Captions that others released, joined to the pictures of a data set by URL, by img2dataset's key, or by file name."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

import numpy as np

from compclip.base.errors import UserError
from compclip.config.captions import Captions
from compclip.config.texts import BY_CAPTION
from compclip.data import index, lists
from compclip.data.sample import Sample
from compclip.data.shards import read_about

ROWS = "rows of the list"  # in a shard's metadata
FOLDER = Path(".work/joined")  # an index holds the captions once more, so that a sample's are found without a search


@contextmanager
def opened(cfg: Captions, folder: Path = FOLDER) -> Iterator[Joined]:
    """The list, found again as long as the file stays, and indexed where it is new.

    Raises UserError for a list that is missing, has no such column, or no row that can be used.
    """
    lists.files(cfg.file)
    place = index.place(folder, [cfg.file], asdict(cfg))
    found = index.opened(place, lambda counts: lists.rows(cfg, counts))
    if not found.rows:
        raise UserError(f"{cfg.file}: no row holds a key and a caption ({_told(found.counts)}); correct its columns")
    yield Joined(cfg, found)


@contextmanager
def of(cfg: Captions | None) -> Iterator[Joined | None]:
    """The list of a data set that names one."""
    if cfg is None:
        yield None
    else:
        with opened(cfg) as found:
            yield found


def counted(cfg: Captions | None, shards: Iterable[Path]) -> Counter:
    """What became of the rows of a data set's list, of all its shards; nothing where it names none."""
    with of(cfg) as found:
        return found.told(rows(shard, "recaption") for shard in shards) if found else Counter()


def packed(rows: np.ndarray, name: str = ROWS) -> dict[str, str]:
    """Numbers of rows as a shard's metadata keeps them: a row that two shards ask for is one."""
    return {name: base64.b85encode(zlib.compress(np.diff(rows, prepend=0).astype("<u8").tobytes())).decode()}


def rows(shard: Path, stage: str, name: str = ROWS) -> np.ndarray:
    """The numbers that a shard of a stage keeps. Raises UserError where there is no such shard."""
    kept = read_about(shard, stage).get(name, "")
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b85decode(kept)), "<u8")) if kept else np.zeros(0, np.int64)


class Joined:
    """A list of captions, open. `counts`: its rows, and those that are of no use by reason."""

    def __init__(self, cfg: Captions, found: index.Index) -> None:
        self._on, self._index, self.counts = cfg.on, found, found.counts

    def of(self, keys: Sequence[str]) -> list[tuple[str, ...] | None]:
        """The captions of each key; None where the list has none."""
        return [texts or None for texts in self._index.of(self._stripped(keys)).texts]

    def take(self, samples: Iterable[Sample]) -> tuple[list[Sample], Counter, np.ndarray]:
        """The samples of a shard with the list's captions in place of theirs, and which rows of the list these are.

        Samples that the list does not have are left out; counted: `samples_matched`, `samples_unmatched`. Raises
        UserError for a picture in a tar that is asked for by its file's name: it has none.
        """
        asked = list(samples)
        found = self._index.of(self._stripped(_key(sample, self._on) for sample in asked))
        pairs = list(zip(asked, found.texts, strict=True))
        kept = [replace(sample, captions=texts) for sample, texts in pairs if texts]
        return kept, Counter(samples_matched=len(kept), samples_unmatched=len(pairs) - len(kept)), found.rows

    def beside(self, samples: Sequence[Sample]) -> tuple[list[tuple[str, ...]], np.ndarray]:
        """The list's texts for every caption of some samples, one after the other, and which rows of it these are.

        Raises UserError as `take`.
        """
        said = [sample for sample in samples for _ in sample.captions]
        if self._on == BY_CAPTION:
            found = self._index.of([caption for sample in samples for caption in sample.captions])
        else:
            found = self._index.of(self._stripped(_key(sample, self._on) for sample in said))
        return found.texts, found.rows

    def told(self, rows: Iterable[np.ndarray]) -> Counter:
        """The list's own counts, of `rows` that shards took: `captions_matched`, and `captions_unmatched` by nobody."""
        taken = np.zeros(self._index.rows, bool)
        for part in rows:
            taken[part] = True
        matched = int(taken.sum())
        return self.counts + Counter(captions_matched=matched, captions_unmatched=len(taken) - matched)

    def _stripped(self, keys: Iterable[str]) -> list[str]:
        return [lists.join_key(key, self._on) for key in keys]


def keys(sample: Sample, on: str) -> list[str]:
    """What a list is asked for on behalf of a sample: its captions, or its address, key or picture's name."""
    return list(sample.captions) if on == "caption" else [_key(sample, on)]


def _key(sample: Sample, on: str) -> str:
    if on == "url":
        return sample.url
    if on == "key":
        return PurePosixPath(sample.id).name
    if sample.length:
        raise UserError(f"on=image: {sample.image}: pictures in a tar have keys; join by key or url")
    return sample.image


def _told(counts: Counter) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n) or "it is empty"
