"""Read an annotated data set by sample number, from files that are mapped and never loaded.

    data/<name>/shards/00017.arrow         its samples (`shard_files`)
    data/<name>/nouns.arrow                one row a noun, sorted by UTF-8: the captions whose first sentence has it
    data/neighbours/<name>/<backbone>.npy  the nearest pictures of each picture

Captions are numbered in the order of the data set's samples and of each sample's captions. A process holds a few
objects per shard and none per sample; a row becomes an `Annotation` when it is asked for.
"""

from __future__ import annotations

import bisect
import functools
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.data.sample import ImageLocation, Region, Sample
from compclip.data.shard_files import MANIFEST, SHARDS, Shard, read_batch, read_manifest, written_by
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationRows, ListColumn, StringColumn, to_numpy

STAGE = "annotate"
NEIGHBOURS_STAGE = "neighbours"
NOUNS_FILE = "nouns.arrow"
OPEN_SHARDS = 1024  # that stay open, of 31 KiB each; opening one takes half a millisecond
SHAPES = ("tall", "wide")  # indexed by the boolean `wide`
NOUNS_SCHEMA = pa.schema({"noun": pa.string()} | dict.fromkeys(SHAPES, pa.large_list(pa.uint32())))
NEGATIVE_COLUMN = "negatives"  # in a shard where a data set names negative images
NEGATIVE_TYPE = pa.list_(pa.struct([("image", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]))

REGION_COLUMN = "regions"  # in a shard where a data set names regions
EDGES = ("left", "upper", "right", "lower")
REGION_TEXTS = ("captions", "negatives")
REGION_FIELDS = dict.fromkeys(EDGES, pa.float64()) | dict.fromkeys(REGION_TEXTS, pa.list_(pa.string()))
REGION_TYPE = pa.list_(pa.struct(REGION_FIELDS))


class PreparedDataset:
    """The annotated samples of data/<name>/. Raises UserError where a file is missing or not the manifest's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder / MANIFEST, STAGE)
        self._first_sample = [0, *accumulate(self.sizes)]
        self._first_caption = [0, *accumulate(shard.captions for shard in self.manifest.shards)]
        self._shard = functools.lru_cache(OPEN_SHARDS)(self._open_shard)

    def __len__(self) -> int:
        return self.manifest.samples

    @property
    def sizes(self) -> list[int]:
        """The number of samples of each shard."""
        return [shard.samples for shard in self.manifest.shards]

    def sample(self, index: int) -> Sample:
        """Return a sample without its captions."""
        shard, row = self._locate(index)
        return shard.sample(row)

    def captions(self, index: int) -> int:
        """Return how many captions a sample has."""
        shard, row = self._locate(index)
        return int(shard.starts[row + 1] - shard.starts[row])

    def annotation(self, index: int, which: int) -> Annotation:
        """Return one of a sample's captions."""
        shard, row = self._locate(index)
        return shard.rows[shard.starts[row] + which]

    def negative_images(self, index: int) -> tuple[ImageLocation, ...]:
        """Return a sample's negative images; a missing one has an empty path."""
        shard, row = self._locate(index)
        return shard.negatives[row] if shard.negatives else ()

    def regions(self, index: int) -> tuple[Region, ...]:
        """Return a sample's regions."""
        shard, row = self._locate(index)
        return shard.regions[row] if shard.regions else ()

    def nouns(self, index: int, which: int) -> list[str]:
        """Return the nouns of the first sentence of one of a sample's captions."""
        shard, row = self._locate(index)
        return shard.rows.nouns(shard.starts[row] + which)

    @cached_property
    def wide(self) -> np.ndarray:
        """For each sample whether its picture is at least as wide as it is high."""
        is_wide = np.empty(len(self), bool)
        for shard, first in zip(self.manifest.shards, self._first_sample, strict=False):
            batch = self._read(shard)
            is_wide[first : first + shard.samples] = to_numpy(batch["width"]) >= to_numpy(batch["height"])
        return is_wide

    def sharing(self, noun: str, wide: bool) -> np.ndarray:
        """Return the numbers of all captions of wide, or of tall, pictures whose first sentence has `noun`, ascending.

        A caption's number counts all captions of the data set; `locate_caption` says whose it is.
        """
        nouns, lists = self._nouns
        key = noun.encode()
        count = len(nouns.lows)
        row = bisect.bisect_left(range(count), key, key=nouns.__getitem__)
        if row == count or nouns[row] != key:
            return np.empty(0, np.uint32)
        return lists[wide][row][0]

    def locate_caption(self, caption: int) -> tuple[int, int]:
        """Return the sample of a caption's number, and which of the sample's captions it is."""
        number = bisect.bisect_right(self._first_caption, caption) - 1
        starts = self._shard(number).starts
        row = int(np.searchsorted(starts, caption - self._first_caption[number], side="right")) - 1
        return self._first_sample[number] + row, int(caption - self._first_caption[number] - starts[row])

    @cached_property
    def _nouns(self) -> tuple[StringColumn, list[ListColumn]]:
        """The nouns, sorted, and for tall and for wide pictures the captions of each."""
        batch = read_batch(self.folder / NOUNS_FILE, STAGE, mapped=True)
        return StringColumn(batch["noun"]), [ListColumn(batch[shape]) for shape in SHAPES]

    def _locate(self, index: int) -> tuple[_OpenShard, int]:
        number = bisect.bisect_right(self._first_sample, index) - 1
        return self._shard(number), index - self._first_sample[number]

    def _open_shard(self, number: int) -> _OpenShard:
        shard = self.manifest.shards[number]
        return _OpenShard(self._read(shard), f"{self.folder / SHARDS / shard.name}.arrow")

    def _read(self, shard: Shard) -> pa.RecordBatch:
        path = self.folder / SHARDS / f"{shard.name}.arrow"
        batch = read_batch(path, STAGE, mapped=True)
        if batch.num_rows != shard.samples:
            raise UserError(f"{path}: not the shard that its manifest names; run `dvc repro {STAGE}` again")
        return batch


class _OpenShard:
    """The columns of a mapped shard. The captions of row r have numbers from `starts[r]` to `starts[r + 1]`."""

    def __init__(self, batch: pa.RecordBatch, path: str) -> None:
        captions = batch["captions"]
        self.starts = to_numpy(captions.offsets)
        self.rows = AnnotationRows(captions.values, path)
        self._texts = [StringColumn(batch[name]) for name in ("id", "image", "split")]
        self._numbers = [to_numpy(batch[name]) for name in ("width", "height", "offset", "length")]
        has_negatives = NEGATIVE_COLUMN in batch.schema.names
        self.negatives = NegativeImageColumn(batch[NEGATIVE_COLUMN]) if has_negatives else None
        self.regions = RegionColumn(batch[REGION_COLUMN]) if REGION_COLUMN in batch.schema.names else None

    def sample(self, row: int) -> Sample:
        """Return one sample."""
        key, image, split = (column[row].decode() for column in self._texts)
        width, height, offset, length = (int(column[row]) for column in self._numbers)
        return Sample(key, image, (), split, width, height, offset, length)


class NegativeImageColumn:
    """The negative images of a shard's samples, by row."""

    def __init__(self, column: pa.ListArray) -> None:
        self._ends = to_numpy(column.offsets)
        self._images = StringColumn(column.values.field("image"))
        self._offsets = to_numpy(column.values.field("offset"))
        self._lengths = to_numpy(column.values.field("length"))

    def __getitem__(self, row: int) -> tuple[ImageLocation, ...]:
        locations = []
        for number in range(*self._ends[row : row + 2].tolist()):
            name = self._images[number].decode()
            locations.append(ImageLocation(name, int(self._offsets[number]), int(self._lengths[number])))
        return tuple(locations)


class RegionColumn:
    """The regions of a shard's samples, by row."""

    def __init__(self, column: pa.ListArray) -> None:
        self._ends = to_numpy(column.offsets)
        self._edges = [to_numpy(column.values.field(edge)) for edge in EDGES]
        self._captions = _TextLists(column.values.field("captions"))
        self._negatives = _TextLists(column.values.field("negatives"))

    def __getitem__(self, row: int) -> tuple[Region, ...]:
        regions = []
        for number in range(*self._ends[row : row + 2].tolist()):
            left, upper, right, lower = (float(edge[number]) for edge in self._edges)
            regions.append(Region(left, upper, right, lower, self._captions[number], self._negatives[number]))
        return tuple(regions)


class _TextLists:
    """A column of lists of texts, each as it is written."""

    def __init__(self, column: pa.ListArray) -> None:
        self._ends = to_numpy(column.offsets)
        self._texts = StringColumn(column.values)

    def __getitem__(self, row: int) -> tuple[str, ...]:
        return tuple(text.decode() for text in self._texts.take(np.arange(*self._ends[row : row + 2].tolist())))


def map_neighbours(path: Path) -> np.ndarray:
    """Map each sample's nearest neighbours by number, nearest first: uint32 [samples, neighbours].

    Raises UserError where the file is missing or damaged.
    """
    with written_by(NEIGHBOURS_STAGE, path):
        return np.load(path, mmap_mode="r")
