"""Write the records of a benchmark for the report: texts, pictures, and the slices that each record is in."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare import sample_cleaning
from compclip.prepare.benchmark_records import FINGERPRINTS, SCHEMA, SLICES, RecordPicture
from compclip.prepare.shard_writer import write_batch

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
    columns: dict[str, list] = {
        name: [getattr(record, name) for record in records] for name in ("subset", "id", "texts")
    }
    columns["pictures"] = [[json.dumps(picture) for picture in record.pictures] for record in records]
    columns["slices"] = slices_of
    schema = SCHEMA.with_metadata({FINGERPRINTS: json.dumps(list(fingerprints)), SLICES: json.dumps(list(slices))})
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA]
    write_batch(path, pa.RecordBatch.from_arrays(arrays, schema=schema), compressed=True)


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
    locations = list(dict.fromkeys(record.pictures[0].location for record in records if record.pictures))
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        size_of = dict(zip(locations, pool.map(_read_size, locations), strict=True))
    return [size_of[record.pictures[0].location] if record.pictures else (0, 0) for record in records]


def _read_size(location: ImageLocation) -> tuple[int, int]:
    try:
        return images.read_size(location)
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
    for index, (width, height) in enumerate(sizes):
        if width and height:
            shape = "wide" if width > 1.1 * height else "tall" if height > 1.1 * width else "square"
            members.setdefault(f"picture: {shape}", []).append(index)
    known = [index for index, (width, height) in enumerate(sizes) if width and height]
    areas = [round(sizes[i][0] * sizes[i][1] / 1000) for i in known]
    by_area = _divide(areas, "picture: {} thousand pixels")
    return members | {name: [known[i] for i in indices] for name, indices in by_area.items()}


def list_group_slices(groups: Iterable[Sequence[str]]) -> Members:
    """Return the slices of the benchmark's own groups."""
    members: Members = {}
    for index, names in enumerate(groups):
        for name in names:
            members.setdefault(f"group: {name}", []).append(index)
    return members


def _name_texts(texts: Sequence[str]) -> list[str]:
    first, *others = [_words(text) for text in texts] or [()]
    names = [f"word: {word}" for word in first]
    return names + _name_edit(first, min(others, key=lambda other: _distance(first, other))) if others else names


@functools.lru_cache(maxsize=1 << 16)
def _words(text: str) -> tuple[str, ...]:
    return tuple(WORD.findall(text.lower()))


def _distance(first: Sequence[str], other: Sequence[str]) -> int:
    a = Counter(first)
    b = Counter(other)
    return (a - b).total() + (b - a).total()


def _name_edit(first: Sequence[str], other: Sequence[str]) -> list[str]:
    """Name what the other text changes in the first, and where."""
    a = Counter(first)
    b = Counter(other)
    removed = list((a - b).elements())
    added = list((b - a).elements())
    names = [f"only in the first text: {word}" for word in removed]
    names += [f"only in the other text: {word}" for word in added]
    if len(removed) == len(added) == 1:
        names.append(f"edit: {removed[0]} -> {added[0]}")
    if not removed and not added:
        names.append("edit: the same words in another order")
    longer = len(other) - len(first)
    names.append(f"the other text is {'longer' if longer > 0 else 'shorter' if longer else 'as long'}")
    change = next(
        (i for i, (x, y) in enumerate(zip(first, other, strict=False)) if x != y), min(len(first), len(other))
    )
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
