"""Join captions that others released to the pictures of a data set, by URL, img2dataset's key, or file name."""

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
from compclip.config.released_lists import BY_CAPTION, Captions
from compclip.data.sample import Sample
from compclip.prepare import caption_lists, text_index
from compclip.prepare.shard_writer import read_metadata

ROWS = "rows of the list"  # key of a shard's metadata
FOLDER = Path(".work/joined")  # an index copies the captions, so that those of a sample are found without a search


@contextmanager
def open_list(cfg: Captions, folder: Path = FOLDER) -> Iterator[CaptionJoin]:
    """Give the list, indexed when it is new or has changed.

    Raises UserError for a list that is missing, has no such column, or no usable row.
    """
    caption_lists.list_files(cfg.file)
    index_path = text_index.index_folder(folder, [cfg.file], asdict(cfg))
    index = text_index.open_index(index_path, lambda counts: caption_lists.read_rows(cfg, counts))
    if not index.rows:
        reasons = ", ".join(f"{n} {name}" for name, n in sorted(index.counts.items()) if n) or "it is empty"
        raise UserError(f"{cfg.file}: no row holds a key and a caption ({reasons}); correct its columns")
    yield CaptionJoin(cfg.on, index)


@contextmanager
def open_optional_list(cfg: Captions | None) -> Iterator[CaptionJoin | None]:
    """Give the list of a data set, None where it names none."""
    if cfg is None:
        yield None
    else:
        with open_list(cfg) as captions:
            yield captions


def count_rows(cfg: Captions | None, shards: Iterable[Path]) -> Counter:
    """Return what became of the rows of a data set's list in all its shards; nothing where it names none."""
    with open_optional_list(cfg) as captions:
        return captions.count_matches(read_row_numbers(s, "recaption") for s in shards) if captions else Counter()


def pack_row_numbers(rows: np.ndarray, name: str = ROWS) -> dict[str, str]:
    """Return metadata with ascending row numbers, so that rows which several shards use are counted once."""
    return {name: base64.b85encode(zlib.compress(np.diff(rows, prepend=0).astype("<u8").tobytes())).decode()}


def read_row_numbers(shard: Path, stage: str, name: str = ROWS) -> np.ndarray:
    """Return the row numbers in the metadata of a stage's shard."""
    packed = read_metadata(shard, stage).get(name, "")
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b85decode(packed)), "<u8")) if packed else np.zeros(0, int)


class CaptionJoin:
    """An open list of captions. `counts`: its rows, and the unusable ones by reason."""

    def __init__(self, on: str, index: text_index.TextIndex) -> None:
        self._on, self._index, self.counts = on, index, index.counts

    def find(self, keys: Iterable[str]) -> text_index.IndexMatches:
        """Return the texts of each key, and the numbers of the rows that they came from."""
        return self._index.find([caption_lists.join_key(key, self._on) for key in keys])

    def replace_captions(self, samples: Iterable[Sample]) -> tuple[list[Sample], Counter, np.ndarray]:
        """Return samples with the list's captions instead of theirs, counts, and the numbers of the rows used.

        Samples that the list does not have are left out. Counted: `samples_matched`, `samples_unmatched`. Raises
        UserError for a picture in a tar that is joined by its file name: it has none.
        """
        samples = list(samples)
        matches = self.find(_join_key(sample, self._on) for sample in samples)
        joined = [replace(s, captions=texts) for s, texts in zip(samples, matches.texts, strict=True) if texts]
        counts = Counter(samples_matched=len(joined), samples_unmatched=len(samples) - len(joined))
        return joined, counts, matches.rows

    def find_texts(self, samples: Sequence[Sample]) -> text_index.IndexMatches:
        """Return the list's texts for every caption of the samples. Raises UserError as `replace_captions`."""
        if self._on == BY_CAPTION:
            return self._index.find([caption for sample in samples for caption in sample.captions])
        return self.find(_join_key(sample, self._on) for sample in samples for _ in sample.captions)

    def count_matches(self, rows: Iterable[np.ndarray]) -> Counter:
        """Return the list's counts with `captions_matched`, the rows that shards used, and `captions_unmatched`."""
        is_matched = np.zeros(self._index.rows, bool)
        for numbers in rows:
            is_matched[numbers] = True
        matched = int(is_matched.sum())
        return self.counts + Counter(captions_matched=matched, captions_unmatched=len(is_matched) - matched)


def sample_keys(sample: Sample, on: str) -> list[str]:
    """Return the keys by which a list has entries for a sample: its captions, or its address, key or file name."""
    return list(sample.captions) if on == BY_CAPTION else [_join_key(sample, on)]


def _join_key(sample: Sample, on: str) -> str:
    if on == "url":
        return sample.url
    if on == "key":
        return PurePosixPath(sample.id).name
    if sample.length:
        raise UserError(f"on=image: {sample.image}: pictures in a tar have keys; join by key or url")
    return sample.image
