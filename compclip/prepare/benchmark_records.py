"""Read the records of a benchmark: texts, slices that they are in, and where their pictures lie.

data/records/<name>.arrow is written by the stage `benchmark` (`prepare.record_writer`), so that the report, `compclip
items` and MLflow join outcomes with texts and pictures without reading any benchmark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from compclip.data.sample import ImageLocation
from compclip.data.shard_files import read_batch
from compclip.runs.item_outcomes import CAPTION
from compclip.text.annotation_columns import to_numpy

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
        subsets, ids = (self.batch[column].to_pylist() for column in ("subset", "id"))
        return list(map(RecordName, subsets, ids, range(len(ids))))

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
