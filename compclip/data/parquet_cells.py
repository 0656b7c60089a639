"""Read pictures that are cells of a Parquet file, which compresses them: a row group's column is decoded at once.

A cell's place has as its path the file and the column, `train.parquet#image.bytes`, and as its offset the row.
"""

from __future__ import annotations

import bisect
import functools
import threading
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import one_line

MARK = ".parquet#"
GROUPS = 2  # that stay decoded in a process: neighbouring pictures are read by several threads
FILES = 64  # that stay open
_LOCK = threading.Lock()


def is_cell(path: str) -> bool:
    """Return whether a picture's path is that of a column."""
    return MARK in path


def cell_path(path: str, column: str) -> str:
    """Return the path of a column's cells."""
    return f"{path}#{column}"


def file_of(path: str) -> str:
    """Return the file of a column's cells; any other path as it is."""
    file, mark, _ = path.partition(MARK)
    return file + mark.removesuffix("#")


def read_cell(path: str, row: int) -> bytes:
    """Return the bytes of a row, b"" where it has none. Raises OSError where the file cannot be read."""
    try:
        with _LOCK:
            _, starts = _open_file(file_of(path))
            group = bisect.bisect_right(starts, row) - 1
            cells = _read_group(path, group)
        value = cells[row - starts[group]].as_py()
    except (pa.ArrowException, IndexError) as error:
        raise OSError(f"row {row}: {one_line(str(error))[:200]}") from error
    return (value["bytes"] if isinstance(value, dict) else value) or b""


def measure_group(path: str) -> int:
    """Return how many bytes are decoded to read one cell of a column: those of its largest row group."""
    file, _ = _open_file(file_of(path))
    names = [file.schema.column(number).path for number in range(len(file.schema))]
    column = names.index(path.partition(MARK)[2])
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    return max(group.column(column).total_uncompressed_size for group in groups)


def open_file(path: str, is_nested: bool = False) -> pq.ParquetFile:
    """Open a file whose texts and pictures that are written once for many rows are decoded once, too.

    `is_nested`: also those in a column of several parts, which Arrow reads so within a row group alone.
    """
    metadata = pq.read_metadata(path)
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    names = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and not leaf.max_repetition_level]
    names = [name for name in names if is_nested or "." not in name]
    return pq.ParquetFile(path, metadata=metadata, read_dictionary=names, pre_buffer=False)  # which holds whole columns


@functools.lru_cache(FILES)
def _open_file(path: str) -> tuple[pq.ParquetFile, list[int]]:
    """Return an open file, and the first row of each group."""
    file = open_file(path, is_nested=True)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    return file, [0, *accumulate(sizes[:-1])]


@functools.lru_cache(GROUPS)
def _read_group(path: str, group: int) -> pa.ChunkedArray:
    column = path.partition(MARK)[2]
    file, _ = _open_file(file_of(path))
    try:
        return file.read_row_group(group, columns=[column], use_threads=False).column(0)
    except pa.ArrowNotImplementedError:  # a part of a column that is written in both ways
        return open_file(file_of(path)).read_row_group(group, columns=[column], use_threads=False).column(0)
