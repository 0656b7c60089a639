"""Tars of samples as img2dataset writes them."""

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

from PIL import Image


def picture(width: int = 20, height: int = 10, kind: str = "JPEG", colour: int = 0) -> bytes:
    raw = io.BytesIO()
    Image.new("RGB", (width, height), (colour, 0, 0)).save(raw, kind)
    return raw.getvalue()


def write(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, raw in members:
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return path


def sample(key: str, caption: str, raw: bytes | None = None, **facts: str) -> list[tuple[str, bytes]]:
    noted = {"caption": caption, "key": key, "status": "success"} | facts
    return [
        (f"{key}.jpg", raw if raw is not None else picture()),
        (f"{key}.json", json.dumps(noted).encode()),
        (f"{key}.txt", caption.encode()),
    ]
