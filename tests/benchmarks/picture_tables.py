"""Tables with pictures inside, in the types that the hub gives them."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def cell(colour: str, path: str | None = None, side: int = 8) -> dict[str, Any]:
    """A picture of one colour, as a cell."""
    raw = io.BytesIO()
    Image.new("RGB", (side, 8), colour).save(raw, "PNG")
    return {"bytes": raw.getvalue(), "path": path}


def make(rows: list[dict], metadata: dict | None = None) -> pa.Table:
    """A table of rows, whose first one has a value in every column."""
    types = {name: PICTURE if isinstance(value, dict) else pa.infer_type([value]) for name, value in rows[0].items()}
    return pa.Table.from_pylist(rows, pa.schema(list(types.items()), metadata))


def write(path: Path, rows: list[dict], metadata: dict | None = None, **options: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(make(rows, metadata), path, **options)
    return path
