"""Write the records of a benchmark for the report: texts, pictures, and the slices that each record is in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare import item_slices, sample_cleaning
from compclip.prepare.benchmark_records import FINGERPRINTS, SCHEMA, SLICES, RecordPicture
from compclip.prepare.shard_writer import write_batch

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
    columns: dict[str, list] = {
        name: [getattr(record, name) for record in records] for name in ("subset", "id", "texts")
    }
    columns["pictures"] = [[json.dumps(picture) for picture in record.pictures] for record in records]
    columns["slices"] = slices_of
    schema = SCHEMA.with_metadata({FINGERPRINTS: json.dumps(list(fingerprints)), SLICES: json.dumps(list(slices))})
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    write_batch(path, pa.RecordBatch.from_arrays(arrays, schema=schema), compressed=True)


def list_slices(records: Sequence[StoredRecord]) -> item_slices.Members:
    """Return the slices of `LEAST` records and more by their groups, texts, and first pictures' sizes."""
    members = {
        **item_slices.list_group_slices(record.groups for record in records),
        **item_slices.list_text_slices([record.texts for record in records]),
        **item_slices.list_size_slices(read_sizes(records)),
    }
    return {name: indices for name, indices in members.items() if len(indices) >= LEAST}


def read_sizes(records: Sequence[StoredRecord]) -> list[tuple[int, int]]:
    """Read the size of each record's first picture from its header; (0, 0) where it is missing or unreadable."""
    locations = list(dict.fromkeys(record.pictures[0].location for record in records if record.pictures))
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        size_of = dict(zip(locations, pool.map(_read_size, locations), strict=True))
    return [size_of[record.pictures[0].location] if record.pictures else (0, 0) for record in records]


def _read_size(location: ImageLocation) -> tuple[int, int]:
    try:
        return images.read_size(location)
    except images.ImageError:
        return 0, 0
