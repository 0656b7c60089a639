"""What the sources that read JSON have in common."""

from __future__ import annotations

from typing import Any

from compclip.base.errors import UserError


def need(record: Any, key: str, where: str, kind: type | tuple[type, ...] = str) -> Any:
    """A field of a record. Raises UserError naming file, record and field where it is missing or no `kind`."""
    if not isinstance(record, dict) or key not in record:
        raise UserError(f"{where}: no field {key!r}; the file is not in the expected format")
    if not isinstance(record[key], kind):
        found = type(record[key]).__name__
        raise UserError(f"{where}: field {key!r} is a {found}; the file is not in the expected format")
    return record[key]
