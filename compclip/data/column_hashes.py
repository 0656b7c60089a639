"""Hash each column of a prepared data set by its values in order, so that a run key can have those that its run reads.

    data/fingerprints/<name>.json    {"prepared": the manifest's fingerprint, "columns": {name: hash},
                                      "nouns.arrow": SHA-256}

`annotate` hashes a shard when it is written and joins the hashes here. Columns are those of a row (`id`, `split`, …),
`captions`, how many captions each row has, and those of captions (`text`, `tokens`, `candidates`, `stored_dense`, …).
How a shard stores values (dictionaries, widths of numbers) is no part of a hash; how rows are cut into shards is, since
the order of samples may follow it.

`pictures` and `negative_pictures` have the checksum of each picture that training reads, and not where it lies: of a
source's picture its length and first bytes, which `recaption` wrote into data/<name>/samples/; of a smaller copy its
position in its tar, which is named after its content.

A file without pictures, or of another manifest, is from before there were these hashes: they are computed from the
shards then, one shard after the other, and nothing is written.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.base.files import hash_file, hash_unchanged, read_sealed, write_sealed
from compclip.data.prepared_dataset import NOUNS_FILE
from compclip.data.shard_files import MANIFEST, SAMPLES, SHARDS, Manifest, read_batch, read_manifest
from compclip.text.annotation_columns import StringColumn, to_numpy
from compclip.text.rule_columns import EVERY

FINGERPRINTS = "fingerprints"  # a folder beside the data sets': one file each
STAGE = "annotate"
READERS = 8  # files that are hashed at once
CAPTIONS = "captions"
HEAD = "head"
LOCATION_COLUMNS = ("image", "offset", "length")
PICTURES = "pictures"
NEGATIVES = "negative_pictures"
# What the keys of earlier runs had in the place of pictures: where they lie.
FORMER_COLUMNS = {PICTURES: (*LOCATION_COLUMNS, HEAD), NEGATIVES: ("negatives",)}


def hash_shard(path: Path, samples: Path) -> dict[str, str]:
    """Return the hash of each column of a shard, which is mapped; `samples` has the checksums of its pictures."""
    batch = read_batch(path, STAGE, mapped=True)
    captions = pa.RecordBatch.from_struct_array(batch[CAPTIONS].flatten())
    columns = _list_columns(batch) | _list_columns(captions)
    columns[CAPTIONS] = batch[CAPTIONS].value_lengths()
    checksums: dict[tuple, int] = {}
    if samples.is_file():
        sample_rows = read_batch(samples, "recaption")
        columns[HEAD] = sample_rows[HEAD]
        checksums = dict(zip(_list_locations(sample_rows), sample_rows[HEAD].to_pylist(), strict=True))
        if "negatives" in sample_rows.schema.names:
            negatives = pa.RecordBatch.from_struct_array(sample_rows["negatives"].flatten())
            checksums |= dict(zip(_list_locations(negatives), negatives[HEAD].to_pylist(), strict=True))
    columns[PICTURES] = _find_checksums(batch, checksums)
    if "negatives" in batch.schema.names:
        negatives = pa.RecordBatch.from_struct_array(batch["negatives"].flatten())
        edges = pa.array(np.cumsum([0, *to_numpy(batch["negatives"].value_lengths())]), pa.int32())
        columns[NEGATIVES] = pa.ListArray.from_arrays(edges, _find_checksums(negatives, checksums))
    hashes = {}
    for name, column in columns.items():
        digest = hashlib.sha256()
        _add_values(digest, column)
        hashes[name] = digest.hexdigest()[:32]
    return hashes


def _list_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _list_locations(pictures: pa.RecordBatch) -> list[tuple[str, int, int]]:
    columns = pictures.select(list(LOCATION_COLUMNS)).to_pydict()
    return list(zip(*columns.values(), strict=True))


def _find_checksums(pictures: pa.RecordBatch, checksums: Mapping[tuple, int]) -> pa.Array:
    """Return the checksum of each picture: by its place, or of a smaller copy by its tar's name and its place there."""
    picture_hashes = []
    for location in _list_locations(pictures):
        checksum = checksums.get(location)
        if checksum is None:
            path, offset, length = location
            name = os.path.basename(path) if checksums else path
            digest = hashlib.blake2b(f"{name}@{offset}+{length}".encode(), digest_size=8).digest()
            checksum = int.from_bytes(digest, "little")
        picture_hashes.append(checksum)
    return pa.array(picture_hashes, pa.uint64())


def _add_values(digest: Any, column: pa.Array) -> None:
    """Add values as they are read: numbers as eight bytes each, texts and lists by their lengths and contents."""
    if isinstance(column, pa.DictionaryArray):
        _add_values(digest, column.dictionary_decode())
    elif isinstance(column, pa.ListArray):
        _add_values(digest, column.value_lengths())
        _add_values(digest, column.flatten())
    elif isinstance(column, pa.StructArray):
        for field in column.flatten():
            _add_values(digest, field)
    elif isinstance(column, pa.StringArray):
        texts = StringColumn(column)
        digest.update(np.diff(texts.offsets).astype("<i8").tobytes())
        digest.update(texts.data[texts.offsets[0] : texts.offsets[-1]])
    else:
        numbers = to_numpy(column)
        digest.update(numbers.astype("<f8" if numbers.dtype.kind == "f" else "<i8").tobytes())


def join_shards(hashes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the hash of each column of a data set from those of its shards, in their order; a shard may lack one."""
    columns = {}
    for name in sorted(set().union(*hashes)):
        text = "\n".join(shard.get(name, "") for shard in hashes)
        columns[name] = hashlib.sha256(text.encode()).hexdigest()[:32]
    return columns


def write_columns(folder: Path, manifest: Manifest, hashes: Sequence[Mapping[str, str]]) -> None:
    """Write the hashes of the columns of data/<name>/, given those of its shards."""
    record = {"prepared": manifest.fingerprint, "columns": join_shards(hashes)}
    nouns = folder / NOUNS_FILE
    write_sealed(_record_path(folder), record | ({NOUNS_FILE: hash_file(nouns)} if nouns.is_file() else {}))


def check_files(folder: Path) -> None:
    """Compare the files of data/<name>/ that training reads with what was recorded as they were written.

    They are read whole, at the speed of the disk, once a process. Raises UserError naming the first that is another.
    """
    for path in list_damaged(folder, hash_unchanged):
        raise UserError(
            f"{path}: damaged: not what the stage wrote, and every run key stands for that; "
            f"`compclip runs check --drop` removes it, and `compclip repro {STAGE}@{folder.name}` makes it again"
        )


def list_damaged(folder: Path, read_hash: Callable[[Path], str]) -> Iterator[Path]:
    """Yield the shards of data/<name>/, and its index of nouns, that are missing or not what was recorded of them."""
    manifest = read_manifest(folder / MANIFEST, STAGE)
    hashes = {folder / SHARDS / f"{shard.name}.arrow": shard.sha256 for shard in manifest.shards}
    record = _read_record(folder)
    if record.get("prepared") == manifest.fingerprint and NOUNS_FILE in record:
        hashes[folder / NOUNS_FILE] = record[NOUNS_FILE]
    with ThreadPoolExecutor(min(READERS, len(os.sched_getaffinity(0)))) as pool:
        current_hashes = pool.map(lambda path: read_hash(path) if path.is_file() else "", hashes)
        for path, current in zip(hashes, current_hashes, strict=True):
            if current != hashes[path]:
                yield path


def read_columns(folder: Path) -> Mapping[str, str]:
    """Return the hash of each column of data/<name>/. Raises UserError where it was not prepared, or is damaged."""
    paths = filter(Path.is_file, (folder / MANIFEST, _record_path(folder)))
    stamps = tuple((status.st_mtime_ns, status.st_size) for status in map(Path.stat, paths))
    return _read_columns(folder.absolute(), stamps)


@functools.lru_cache
def _read_columns(folder: Path, _stamps: tuple) -> Mapping[str, str]:
    manifest = read_manifest(folder / MANIFEST, STAGE)
    record = _read_record(folder)
    if record.get("prepared") == manifest.fingerprint and PICTURES in record.get("columns", {}):
        return record["columns"]
    hashes = []
    for shard in manifest.shards:
        file = f"{shard.name}.arrow"
        hashes.append(hash_shard(folder / SHARDS / file, folder / SAMPLES / file))
    return join_shards(hashes)


def list_names(hashes: Mapping[str, str], columns: Iterable[str], former: bool = False) -> list[str]:
    """Return which hashes the key of a run has that reads `columns`, EVERY for all; `former`: those that it had."""
    if EVERY in columns:
        return sorted(hashes.keys() - (FORMER_COLUMNS.keys() if former else set().union(*FORMER_COLUMNS.values())))
    names = list[str]()
    for name in columns:
        names += FORMER_COLUMNS.get(name, (name,)) if former else (name,)
    return sorted(names)


def _read_record(folder: Path) -> dict[str, Any]:
    path = _record_path(folder)
    return read_sealed(path, "remove it: it is made again of the shards") if path.is_file() else {}


def _record_path(folder: Path) -> Path:
    return folder.parent / FINGERPRINTS / f"{folder.name}.json"
