"""Read web data as img2dataset writes it with `--output_format files`: 00000/000000000.jpg, its caption in a .txt.

What `--caption_col` chose is the caption: PixelProse's vlm_caption, LAION-COCO's top_caption, CC3M's rewritten ones.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_mapping
from compclip.config.sections import Data
from compclip.data.sample import CAPTION_ENDINGS, ENDINGS, Sample


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the files' names, captions from the .txt where there is a .caption too.

    Captions that are not UTF-8, or no files, and pictures without any are dropped and counted.
    Raises UserError for a folder without captions.
    """
    has_captions = False
    for file in _iterate_texts(Path(cfg.path), Path(cfg.images), counts):
        has_captions = True
        name = str(file.relative_to(cfg.path).with_suffix(""))
        picture = Path(cfg.images) / name
        url, sha256 = _read_metadata(file.with_suffix(".json"))
        image = picture.with_name(_find_file(picture, ENDINGS) or f"{picture.name}.jpg")
        yield Sample(name, str(image), tuple(_read_captions(file, counts)), cfg.split, url=url, sha256=sha256)
    if not has_captions:
        raise UserError(f"{cfg.path}: no .txt files there; download with img2dataset --output_format files")


def _find_file(stem: Path, endings: Sequence[str]) -> str:
    """Return the name of the file that is `stem` with the first of the endings, in any case; "" where there is none."""
    names = _list_names(str(stem.parent))
    return next((names[key] for ending in endings if (key := f"{stem.name}{ending}") in names), "")


@functools.lru_cache(maxsize=2)  # the files of a folder come one after the other
def _list_names(folder: str) -> dict[str, str]:
    """Return the names of a folder's files by the same names with their endings in lower case."""
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return {}
    return {stem + ending.lower(): stem + ending for stem, ending in map(os.path.splitext, names)}


def _iterate_texts(folder: Path, images: Path, counts: Counter) -> Iterator[Path]:
    """Give a file of captions for each picture below a folder, in the order of their paths; count pictures without."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}; give the folder that img2dataset wrote") from error
    captioned = set[str]()
    for entry in entries:
        path = Path(entry.path)
        if path.suffix.lower() in CAPTION_ENDINGS:
            captioned.add(path.stem)
            if entry.name == _find_file(path.with_suffix(""), CAPTION_ENDINGS):
                yield path
        elif entry.is_dir(follow_symlinks=False):
            yield from _iterate_texts(path, images / entry.name, counts)
    names = map(os.path.splitext, _list_names(str(images)))
    without = sum(ending in ENDINGS and stem not in captioned for stem, ending in names)
    counts.update(images=without, no_caption=without)


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
