"""The checksum inside a training's checkpoint: `crc32` in a safetensors file's metadata, over all its other bytes.

It is in the first bytes of the file, before what it is of: they are written with zeros in its place.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

NAME = "crc32"
UNKNOWN = "00000000"
LENGTH = 8  # bytes in front of the description, which say how long that is
CHUNK = 1 << 24  # bytes that are read at once


def find_place(description: bytes) -> int:
    """Return where the checksum is in a description that was made with UNKNOWN; it begins with it."""
    return description.index(UNKNOWN.encode())


def check_file(path: Path) -> None:
    """Raise ValueError where a checkpoint's bytes are not those that were written; an older one has no checksum."""
    with open(path, "rb") as file:
        description = file.read(int.from_bytes(file.read(LENGTH), "little"))
        recorded = json.loads(description)["__metadata__"].get(NAME)
        if recorded is None:
            return
        checksum = zlib.crc32(description.replace(recorded.encode(), UNKNOWN.encode(), 1))
        while content := file.read(CHUNK):
            checksum = zlib.crc32(content, checksum)
    if f"{checksum:08x}" != recorded:
        raise ValueError("its bytes are not those that were written")
