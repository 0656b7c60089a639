"""Samples in one columnar file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError
from compclip.base.files import atomic, regular
from compclip.data.sample import Sample

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("image", pa.string()),
        ("captions", pa.list_(pa.string())),
        ("split", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
    ]
)


def save(path: str | Path, samples: list[Sample], images: str = "") -> None:
    """Write samples as parquet, atomically; `images` is the fingerprint of their pictures and is kept in the file."""
    columns = [pa.array([getattr(s, f.name) for s in samples], SCHEMA.field(f.name).type) for f in fields(Sample)]
    with atomic(path) as tmp:
        pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata({"images": images})), tmp)


def load(path: str | Path) -> list[Sample]:
    """The samples of a file. Raises UserError where it is missing or no such file."""
    try:
        rows = pq.read_table(regular(path), schema=SCHEMA).to_pylist()
        return [Sample(**{**row, "captions": tuple(row["captions"])}) for row in rows]
    except (OSError, pa.ArrowException, TypeError) as error:  # TypeError: a column that is not there reads as None
        raise UserError(f"{path}: no readable samples; run `dvc repro recaption` again") from error
