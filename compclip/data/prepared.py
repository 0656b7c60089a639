"""A data set as training reads it: by number, from files that are mapped and never loaded.

A process holds some objects a shard and none a sample; a row becomes an `Annotation` when somebody asks for it.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.data import negatives, partners, shards
from compclip.data.place import Place
from compclip.data.sample import Sample
from compclip.data.shards import Shard
from compclip.text.annotation import Annotation
from compclip.text.rows import Rows, Strings, numbers

STAGE = "annotate"


class Prepared:
    """The annotated samples of data/<name>/. Raises UserError where a file is missing, damaged or another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = shards.read_manifest(folder / shards.MANIFEST, STAGE)
        self._samples = [0, *accumulate(shard.samples for shard in self.manifest.shards)]
        self._captions = [0, *accumulate(shard.captions for shard in self.manifest.shards)]
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        return self.manifest.samples

    @property
    def sizes(self) -> list[int]:
        """How many samples each shard has."""
        return [shard.samples for shard in self.manifest.shards]

    def sample(self, index: int) -> Sample:
        """A sample without its captions."""
        shard, row = self._row(index)
        return shard.sample(row)

    def captions(self, index: int) -> int:
        """How many captions a sample has."""
        shard, row = self._row(index)
        return int(shard.starts[row + 1] - shard.starts[row])

    def annotation(self, index: int, which: int) -> Annotation:
        """One of a sample's captions."""
        shard, row = self._row(index)
        return shard.rows[shard.caption(row, which)]

    def negative_images(self, index: int) -> tuple[Place, ...]:
        """The pictures that stand beside a sample as its negatives; an empty path where one is not there."""
        shard, row = self._row(index)
        return shard.negative_images(row)

    def nouns(self, index: int, which: int) -> list[str]:
        """The nouns of the first sentence of one of a sample's captions."""
        shard, row = self._row(index)
        return shard.rows.nouns(shard.caption(row, which))

    @cached_property
    def wide(self) -> np.ndarray:
        """For each sample whether its picture is at least as wide as it is high."""
        return np.concatenate([_wide(*self._file(number)) for number in range(len(self.manifest.shards))])

    def sharing(self, noun: str, wide: bool) -> np.ndarray:
        """The numbers of all captions whose first sentence has a noun and whose picture is wide, or tall; rising."""
        return self._nouns.captions(noun, wide)

    def place(self, caption: int) -> tuple[int, int]:
        """Sample and which of its captions, of a caption by its number in the whole data set.

        Raises UserError for a number that is no caption's.
        """
        if not 0 <= caption < self.manifest.captions:
            raise UserError(f"{self.folder / partners.FILE}: damaged; run `dvc repro {STAGE}` again")
        number = bisect.bisect_right(self._captions, caption) - 1
        starts = self._shard(number).starts
        row = int(np.searchsorted(starts, caption - self._captions[number], side="right")) - 1
        return self._samples[number] + row, int(caption - self._captions[number] - starts[row])

    @cached_property
    def _nouns(self) -> partners.Nouns:
        return partners.Nouns(self.folder / partners.FILE)

    def _row(self, index: int) -> tuple[_Open, int]:
        number = bisect.bisect_right(self._samples, index) - 1
        return self._shard(number), index - self._samples[number]

    def _shard(self, number: int) -> _Open:
        if number not in self._open:
            self._open[number] = _Open(*self._file(number))
        return self._open[number]

    def _file(self, number: int) -> tuple[Path, Shard]:
        known = self.manifest.shards[number]
        return self.folder / shards.SHARDS / f"{known.name}.arrow", known


def _batch(path: Path, known: Shard) -> pa.RecordBatch:
    """A mapped shard. Raises UserError where it is not the one that the manifest names."""
    batch = shards.read_batch(path, STAGE, mapped=True)
    if path.stat().st_size != known.bytes or batch.num_rows != known.samples:
        raise UserError(f"{path}: not the shard that its manifest names; run `dvc repro {STAGE}` again")
    return batch


@contextlib.contextmanager
def _sound(path: Path) -> Iterator[None]:
    """Raise UserError for what no shard of ours holds."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); run `dvc repro {STAGE}` again") from error


def _wide(path: Path, known: Shard) -> np.ndarray:
    """Whether each picture of a shard is at least as wide as it is high; nothing else of it is opened."""
    batch = _batch(path, known)
    with _sound(path):
        batch.validate()
        return _integers(batch["width"]) >= _integers(batch["height"])


def _integers(column: pa.Array) -> np.ndarray:
    """Return the column as whole numbers. Raises TypeError for a column of others, as NaN."""
    if not pa.types.is_integer(column.type):
        raise TypeError(f"{column.type}: no whole numbers")
    return numbers(column)


class _Open:
    """A shard that is mapped: its columns, which are looked through as far as a look costs nothing."""

    def __init__(self, path: Path, known: Shard) -> None:
        batch = _batch(path, known)
        self.path = path
        with _sound(path):
            batch.validate()
            said = batch["captions"]
            self.starts = numbers(said.offsets)
            if self.starts[0] != 0 or self.starts[-1] != known.captions or np.any(np.diff(self.starts) < 0):
                raise ValueError("captions of no sample")
            self.rows = Rows(said.values, str(path))
            self._texts = {name: Strings(batch[name]) for name in ("id", "image", "split")}
            self._numbers = {name: _integers(batch[name]) for name in ("width", "height", "offset", "length")}
            has = negatives.COLUMN in batch.schema.names
            self._beside = negatives.Places(batch[negatives.COLUMN]) if has else None

    def caption(self, row: int, which: int) -> int:
        """The number of a sample's caption within the shard."""
        return int(self.starts[row]) + which

    def negative_images(self, row: int) -> tuple[Place, ...]:
        """Where those of one sample are."""
        with _sound(self.path):
            return self._beside[row] if self._beside else ()

    def sample(self, row: int) -> Sample:
        """One sample."""
        with _sound(self.path):
            texts = {name: column[row].decode() for name, column in self._texts.items()}
        return Sample(captions=(), **texts, **{name: int(column[row]) for name, column in self._numbers.items()})
