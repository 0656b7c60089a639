"""Sources, one file each: `records(data, counts) -> Iterator[Sample]` gives all that a data set holds, in its order.

A sample has its captions as they are written and its picture's location; its size is measured later. A source counts
what it drops. A source whose files are shards also has `parts(data) -> list[str]`, and its `records(data, counts,
part)` gives the samples of one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from compclip.base.errors import UserError


def require_field(record: Any, key: str, where: str, kind: type | tuple[type, ...] = str) -> Any:
    """Return a field of a record. Raises UserError naming file, record and field where it is missing or no `kind`."""
    if not isinstance(record, dict) or key not in record:
        raise UserError(f"{where}: no field {key!r}; the file is not in the expected format")
    if not isinstance(record[key], kind):
        type_name = type(record[key]).__name__
        raise UserError(f"{where}: field {key!r} is a {type_name}; the file is not in the expected format")
    return record[key]


def make_ids(names: Sequence[str]) -> list[str]:
    """Return an id for each picture's name: the file's without its ending, with its folder where that stands twice."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in names]
    counts = Counter(path.stem for path in paths)
    return [path.stem if counts[path.stem] == 1 else str(path.with_suffix("")) for path in paths]
