"""Read web data as img2dataset writes it with `--output_format files`: 00000/000000000.jpg, its caption in a .txt.

What `--caption_col` chose is the caption: PixelProse's vlm_caption, LAION-COCO's top_caption, CC3M's rewritten ones.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_mapping
from compclip.config.sections import Data
from compclip.data.picture_names import ENDINGS
from compclip.data.sample import Sample

CAPTION_ENDINGS = (".txt", ".caption")


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the files' names. Captions that are not UTF-8, or no files, are dropped and counted.

    Raises UserError for a folder without captions.
    """
    has_captions = False
    for file in _iterate_texts(cfg.path):
        has_captions, name = True, str(Path(file).relative_to(cfg.path).with_suffix(""))
        picture = _find_picture(Path(cfg.images) / name)
        url, sha256 = _read_metadata(Path(file).with_suffix(".json"))
        captions = tuple(_read_captions(Path(file), counts))
        yield Sample(name, str(picture), captions, cfg.split, url=url, sha256=sha256)
    if not has_captions:
        raise UserError(f"{cfg.path}: no .txt files there; download with img2dataset --output_format files")


def _find_picture(stem: Path) -> Path:
    """Return the picture of that path with any ending that is read, in any case; `stem`.jpg where there is none."""
    names = _list_names(str(stem.parent))
    present = (names[key] for ending in ENDINGS if (key := f"{stem.name}{ending}") in names)
    return stem.with_name(next(present, f"{stem.name}.jpg"))


@functools.lru_cache(maxsize=2)  # the files of a folder come one after the other
def _list_names(folder: str) -> dict[str, str]:
    """Return the names of a folder's files by the same names with their endings in lower case."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return {}
    return {stem + ending.lower(): stem + ending for stem, ending in map(os.path.splitext, names)}


def _iterate_texts(folder: str) -> Iterator[str]:
    """Give the .txt files below a folder, in the order of their paths."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}; give the folder that img2dataset wrote") from error
    for entry in entries:
        if os.path.splitext(entry.name)[1].lower() in CAPTION_ENDINGS:
            yield entry.path
        elif entry.is_dir(follow_symlinks=False):
            yield from _iterate_texts(entry.path)


def _read_metadata(file: Path) -> tuple[str, str]:
    """Return address and SHA-256 of a picture, "" where img2dataset did not note them."""
    try:
        noted = read_mapping(file)
    except UserError:
        return "", ""
    url, sha256 = (value if isinstance(value := noted.get(name), str) else "" for name in ("url", "sha256"))
    return url, sha256


def _read_captions(file: Path, counts: Counter) -> list[str]:
    try:
        return [read_bytes(file).decode("utf-8-sig")]
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
    except UserError:  # no file, but a folder, a pipe or a link to nowhere
        counts["unreadable_captions"] += 1
    return []
