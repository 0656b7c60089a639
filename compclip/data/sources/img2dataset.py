"""Web data as img2dataset writes it with `--output_format files`: 00000/000000000.jpg, its caption in a .txt beside it.

What `--caption_col` chose is the caption: PixelProse's vlm_caption, LAION-COCO's top_caption, CC3M's rewritten ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_mapping
from compclip.config.sections import Data
from compclip.data.sample import Sample

SUFFIXES = (".jpg", ".png", ".webp", ".jpeg")


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Samples in the order of the files' names. Captions that are not UTF-8, or no files, are dropped and counted.

    Raises UserError for a folder without captions.
    """
    found = False
    for file in _texts(cfg.path):
        found, name = True, str(Path(file).relative_to(cfg.path).with_suffix(""))
        picture = _picture(Path(cfg.images) / name)
        url, sha256 = _facts(Path(file).with_suffix(".json"))
        captions = tuple(_captions(Path(file), counts))
        yield Sample(name, str(picture), captions, cfg.split, url=url, sha256=sha256)
    if not found:
        raise UserError(f"{cfg.path}: no .txt files there; download with img2dataset --output_format files")


def _texts(folder: str) -> Iterator[str]:
    """The .txt files below a folder, a folder at a time, in the order of their paths."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}; give the folder that img2dataset wrote") from error
    for entry in entries:
        if entry.name.endswith(".txt"):
            yield entry.path
        elif entry.is_dir(follow_symlinks=False):
            yield from _texts(entry.path)


def _facts(file: Path) -> tuple[str, str]:
    """Address and SHA-256 of a picture, where img2dataset noted them."""
    try:
        noted = read_mapping(file)
    except UserError:
        return "", ""
    url, sha256 = (value if isinstance(value := noted.get(name), str) else "" for name in ("url", "sha256"))
    return url, sha256


def _picture(stem: Path) -> Path:
    paths = [stem.with_name(stem.name + suffix) for suffix in SUFFIXES]
    return next((path for path in paths if path.is_file()), paths[0])


def _captions(file: Path, counts: Counter) -> list[str]:
    try:
        return [read_bytes(file).decode("utf-8")]
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
    except UserError:  # no file, but a folder, a pipe or a link to nowhere
        counts["unreadable_captions"] += 1
    return []
