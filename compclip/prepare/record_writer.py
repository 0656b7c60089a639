"""Write the records of a benchmark for the report: texts, pictures, and the slices that each record is in."""

from __future__ import annotations

import functools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.data.shard_files import read_batch
from compclip.prepare import sample_cleaning
from compclip.prepare.shard_writer import build_columns, make_column, write_batch
from compclip.runs.item_outcomes import CAPTION
from compclip.text.annotation_columns import to_numpy

WORD = re.compile(r"[\w'-]+")
SHARES = 4  # classes of length and of size
Members = dict[str, list[int]]  # indices of records by the name of a slice
LEAST = 10  # records of a slice: of fewer nobody can tell anything


@dataclass(frozen=True)
class StoredRecord:
    """A record's texts, the groups that its benchmark puts it in, and its pictures."""

    subset: str
    id: str
    texts: tuple[str, ...]
    groups: tuple[str, ...]
    pictures: tuple[RecordPicture, ...]


def write_records(path: Path, records: Sequence[StoredRecord], fingerprints: Sequence[str]) -> None:
    """Write records with their slices; `fingerprints` are those that results on them bear."""
    slices = list_slices(records)
    slices_of: list[list[int]] = [[] for _ in records]
    for number, indices in enumerate(slices.values()):
        for index in indices:
            slices_of[index].append(number)
    columns = build_columns(records, map(SCHEMA.field, ("subset", "id", "texts")))
    pictures = [list(map(json.dumps, record.pictures)) for record in records]
    columns["pictures"] = make_column(pictures, SCHEMA.field("pictures").type)
    columns["slices"] = make_column(slices_of, SCHEMA.field("slices").type)
    schema = SCHEMA.with_metadata({FINGERPRINTS: json.dumps(list(fingerprints)), SLICES: json.dumps(list(slices))})
    write_batch(path, pa.RecordBatch.from_pydict(columns, schema), compressed=True)


def list_slices(records: Sequence[StoredRecord]) -> Members:
    """Return the slices of `LEAST` records and more by their groups, texts, and first pictures' sizes."""
    members = {
        **list_group_slices(record.groups for record in records),
        **list_text_slices([record.texts for record in records]),
        **list_size_slices(read_sizes(records)),
    }
    return {name: indices for name, indices in members.items() if len(indices) >= LEAST}


def read_sizes(records: Sequence[StoredRecord]) -> list[tuple[int, int]]:
    """Read the size of each record's first picture from its header; (0, 0) where it is missing or unreadable."""
    locations = [record.pictures[0].location if record.pictures else None for record in records]
    different = list(dict.fromkeys(locations))
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        sizes = dict(zip(different, pool.map(_read_size, different), strict=True))
    return list(map(sizes.__getitem__, locations))


def _read_size(location: ImageLocation | None) -> tuple[int, int]:
    try:
        return images.read_size(location) if location else (0, 0)
    except images.ImageError:
        return 0, 0


# --- slices: words, what another text changes in the first, lengths, sizes of pictures ---------------------------
#
# Of several other texts the nearest is taken: the one with the fewest words that differ, the earlier of equals. In most
# benchmarks the first text is true of the picture and the nearest one is the foil that was made from it.


def list_text_slices(texts: Iterable[Sequence[str]]) -> Members:
    """Return the slices that texts put each of these records in."""
    members: Members = {}
    lengths = []
    for index, of_record in enumerate(texts):
        lengths.append(len(_words(of_record[0])) if of_record else 0)
        for name in dict.fromkeys(_name_texts(tuple(of_record))):
            members.setdefault(name, []).append(index)
    return members | _divide(lengths, "length: {} words")


def list_size_slices(sizes: Sequence[tuple[int, int]]) -> Members:
    """Return the slices of pictures by pixels and by shape; sizes are (width, height), (0, 0) where it is unknown."""
    members: Members = {}
    measured = []
    areas = []
    for index, (width, height) in enumerate(sizes):
        if width and height:
            shape = "wide" if width > 1.1 * height else "tall" if height > 1.1 * width else "square"
            members.setdefault(f"picture: {shape}", []).append(index)
            measured.append(index)
            areas.append(round(width * height / 1000))
    for name, positions in _divide(areas, "picture: {} thousand pixels").items():
        members[name] = [measured[position] for position in positions]
    return members


def list_group_slices(groups: Iterable[Sequence[str]]) -> Members:
    """Return the slices of the benchmark's own groups."""
    members: Members = {}
    for index, names in enumerate(groups):
        for name in names:
            members.setdefault(f"group: {name}", []).append(index)
    return members


def _name_texts(texts: Sequence[str]) -> list[str]:
    first, *later_texts = map(_words, texts or ("",))
    names = [f"word: {word}" for word in first]
    if later_texts:
        names += _name_edit(first, min(later_texts, key=lambda words: _distance(first, words)))
    return names


@functools.lru_cache(maxsize=1 << 16)
def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower()))


def _distance(first: Sequence[str], second: Sequence[str]) -> int:
    a = Counter(first)
    b = Counter(second)
    return (a - b).total() + (b - a).total()


def _name_edit(first: tuple[str, ...], second: tuple[str, ...]) -> list[str]:
    """Name what the other text changes in the first, and where."""
    a = Counter(first)
    b = Counter(second)
    removed = list((a - b).elements())
    added = list((b - a).elements())
    names = [f"only in the first text: {word}" for word in removed]
    names += [f"only in the other text: {word}" for word in added]
    if len(removed) == len(added) == 1:
        names.append(f"edit: {removed[0]} -> {added[0]}")
    if not removed and not added:
        names.append("edit: the same words in another order")
    longer = len(second) - len(first)
    names.append(f"the other text is {'longer' if longer > 0 else 'shorter' if longer else 'as long'}")
    change = len(os.path.commonprefix([first, second]))
    third = min(2, 3 * change // max(1, len(first)))
    return [*names, f"texts part in the {('first', 'second', 'last')[third]} third"]


def _divide(values: Sequence[int], name: str) -> Members:
    """Divide by value into classes of about the same size, of few different values into one each."""
    ends = np.unique(values)
    if len(ends) > SHARES:
        ends = np.unique(np.quantile(values, np.linspace(0, 1, SHARES + 1)).astype(int))[1:]
    class_of = np.searchsorted(ends, values)
    members: Members = {}
    for number, last in enumerate(ends.tolist()):
        first = min(values) if number == 0 else int(ends[number - 1]) + 1
        first = last if len(ends) == len(set(values)) else first
        label = name.format(first if first == last else f"{first} to {last}")
        members[label] = np.flatnonzero(class_of == number).tolist()
    return members


# --- the records of a benchmark -------------------------------------------------------------------------------------
# Read the records of a benchmark: texts, slices that they are in, and where their pictures lie.
#
# data/records/<name>.arrow is written by the stage `benchmark` (`prepare.record_writer`), so that the report,
# `compclip items` and MLflow join outcomes with texts and pictures without reading any benchmark.


FOLDER = Path("data/records")
STAGE = "benchmark"
FINGERPRINTS = "fingerprints"
SCHEMA = pa.schema(
    [
        ("subset", pa.string()),
        ("id", pa.string()),
        ("texts", pa.list_(pa.string())),
        ("pictures", pa.list_(pa.string())),  # JSON of a `RecordPicture`
        ("slices", pa.list_(pa.int32())),  # numbers of the names in the schema's metadata
    ]
)
SLICES = "slices"


class RecordPicture(NamedTuple):
    """A picture's location, and the box of it that is shown: x, y, width, height in pixels, or ()."""

    path: str
    offset: int
    length: int
    box: tuple[float, ...]

    @property
    def location(self) -> ImageLocation:
        """The location as the picture reader takes it."""
        return ImageLocation(self.path, self.offset, self.length)


class RecordName(NamedTuple):
    """What tells a record from others of its benchmark, and its number."""

    subset: str
    id: str
    number: int


@dataclass(frozen=True, eq=False)
class BenchmarkRecords:
    """A benchmark's records; `fingerprints` are those that results on them bear, two where ties decide what counts."""

    batch: pa.RecordBatch

    @cached_property
    def fingerprints(self) -> frozenset[str]:
        """The fingerprints of results on these records."""
        return frozenset(json.loads(self.batch.schema.metadata[FINGERPRINTS.encode()]))

    @cached_property
    def names(self) -> list[RecordName]:
        """The records' names, in order."""
        columns = (self.batch["subset"].to_pylist(), self.batch["id"].to_pylist())
        return list(map(RecordName, *columns, range(len(self.batch))))

    @cached_property
    def _by_id(self) -> dict[str, dict[str, RecordName]]:
        records: dict[str, dict[str, RecordName]] = {}
        for record in self.names:
            records.setdefault(record.id, {})[record.subset] = record
        return records

    @cached_property
    def slices(self) -> dict[str, np.ndarray]:
        """The numbers of the records in every slice, by its name."""
        names = json.loads(self.batch.schema.metadata[SLICES.encode()])
        column = self.batch["slices"]
        slice_M = to_numpy(column.flatten())
        counts = np.diff(to_numpy(column.offsets))
        record_M = np.repeat(np.arange(len(counts)), counts)
        ordered_M = record_M[np.argsort(slice_M.astype(np.min_scalar_type(len(names))), kind="stable")]
        ends = np.cumsum(np.bincount(slice_M, minlength=len(names)))
        return dict(zip(names, np.split(ordered_M, ends[:-1]), strict=True)) if names else {}

    def texts(self, number: int) -> tuple[str, ...]:
        """Return the texts of a record."""
        return tuple(self.batch["texts"][number].as_py())

    def find(self, metric: str, item: str) -> RecordName | None:
        """Return the record of an item, or of a caption of it; None where no record is the item's beyond doubt."""
        records = self._by_id.get(item)
        if records is None:
            caption = CAPTION.fullmatch(item)
            records = self._by_id.get(caption[1], {}) if caption else {}
        if len(records) == 1:
            return next(iter(records.values()))
        subsets = [name for name in records if metric == name or metric.startswith(f"{name}_")]
        return records[max(subsets, key=len)] if subsets else None

    def item_texts(self, metric: str, item: str) -> tuple[str, ...]:
        """Return the texts of an item; of a caption that one alone; () where no record is the item's beyond doubt."""
        record = self.find(metric, item)
        if record is None:
            return ()
        texts = self.texts(record.number)
        return texts if item in self._by_id else texts[int(item.rpartition("#")[2]) :][:1]

    def pictures(self, number: int) -> list[RecordPicture]:
        """Return the pictures of a record."""
        parsed = map(json.loads, self.batch["pictures"][number].as_py())
        return [RecordPicture(path, offset, length, tuple(box)) for path, offset, length, box in parsed]


def read_records(path: Path) -> BenchmarkRecords:
    """Return what `prepare.record_writer` wrote. Raises UserError where the file is missing or damaged."""
    return BenchmarkRecords(read_batch(path, STAGE))


def records_file(root: Path, benchmark: str) -> Path:
    """Return where the records of a benchmark are written."""
    return root / FOLDER / f"{benchmark}.arrow"
