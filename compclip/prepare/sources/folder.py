"""Read a folder of pictures with captions beside them, at any depth, with endings in any case.

    source: folder
    path: data/pictures       dogs/1.jpg with its caption in dogs/1.txt or dogs/1.json; or one metadata.csv or .jsonl
    images: data/pictures
    layout: {lines: true}     whether each line of a .txt is a caption

img2dataset writes such folders with `--output_format files`; what `--caption_col` chose is the caption: PixelProse's
vlm_caption, LAION-COCO's top_caption. The `url` and `sha256` of a .json are kept.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_mapping
from compclip.config.grid import source_config
from compclip.config.released_lists import Columns
from compclip.config.sections import Data
from compclip.data import tables
from compclip.data.sample import CAPTION_ENDINGS, ENDINGS, Sample
from compclip.prepare.image_folder import ImageFolder
from compclip.prepare.sources import read_text, table

METADATA = "metadata"  # the hub's imagefolder has captions in a table of this name
JSON = ".json"
TEXT_ENDINGS = (*CAPTION_ENDINGS, JSON)


@dataclass(frozen=True)
class Config:
    """How the captions of a picture are written."""

    lines: bool = False  # whether each line of a text is a caption
    captions: Columns = field(default_factory=list)  # of a .json, or a metadata file; default: the first usual name


def records(cfg: Data, counts: Counter) -> Iterator[Sample]:
    """Give samples in the order of the files' names, captions from the .txt where there is a .caption or .json too.

    Captions that are not UTF-8, no files, or links out of the folder, and pictures without any are dropped and counted.
    Raises UserError for a folder without captions.
    """
    _list_names.cache_clear()  # of another call, since when files may have come
    config = source_config(cfg)
    metadata = find_metadata(Path(cfg.path))
    if metadata:
        yield from table.read_samples(cfg, table.Config(captions=config.captions), metadata, counts)
        return
    has_captions = False
    texts = ImageFolder("/" if cfg.images_outside else cfg.path)
    for file in _iterate_texts(Path(cfg.path), Path(cfg.images), counts):
        name = str(file.relative_to(cfg.path).with_suffix(""))
        picture = Path(cfg.images) / name
        picture_name = _find_file(picture, ENDINGS)
        json_file = file.with_name(_find_file(file.with_suffix(""), [JSON]) or f"{file.stem}{JSON}")
        content = _read_json(json_file) if texts.contains(str(json_file)) else {}
        captions = _list_captions(content, config) if file.suffix.lower() == JSON else []
        if not texts.contains(str(file)):
            counts["captions_outside"] += 1
        elif file.suffix.lower() != JSON:
            captions = _read_text(file, config, counts)
        if file.suffix.lower() == JSON and not captions and not picture_name:  # of something else than a picture
            continue
        has_captions = True
        image = str(picture.with_name(picture_name or f"{picture.name}.jpg"))
        url = read_text(content, "url")
        yield Sample(name, image, tuple(captions), cfg.split, url=url, sha256=read_text(content, "sha256"))
    if not has_captions:
        raise UserError(f"{cfg.path}: no picture has a .txt or .json beside it; name the folder of the captions")


def find_metadata(folder: Path) -> list[Path]:
    """Return the metadata files of a folder, sorted."""
    files = sorted(folder.rglob(f"{METADATA}.*"))
    return [path for path in files if tables.format_suffix(path) in tables.SUFFIXES and path.is_file()]


def _find_file(stem: Path, endings: Sequence[str]) -> str:
    """Return the name of the file that is `stem` with the first of the endings, in any case; "" where there is none."""
    names = _list_names(str(stem.parent))
    candidates = (f"{stem.name}{ending}" for ending in endings)
    return next(filter(None, map(names.get, candidates)), "")


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
        raise UserError(f"{folder}: {error.strerror or error}; give a folder of pictures") from error
    captioned = set[str]()
    for entry in entries:
        path = Path(entry.path)
        if path.suffix.lower() in TEXT_ENDINGS:
            captioned.add(path.stem)
            if entry.name == _find_file(path.with_suffix(""), TEXT_ENDINGS):
                yield path
        elif entry.is_dir(follow_symlinks=False):
            yield from _iterate_texts(path, images / entry.name, counts)
    names = map(os.path.splitext, _list_names(str(images)))
    without = sum(ending in ENDINGS and stem not in captioned for stem, ending in names)
    counts.update(images=without, no_caption=without)


def _read_json(file: Path) -> dict[str, Any]:
    """Return the content of a picture's .json; nothing where it cannot be read."""
    try:
        return read_mapping(file)
    except UserError:
        return {}


def _list_captions(content: dict[str, Any], config: Config) -> list[str]:
    """Return the texts of a .json under the names of captions, by default the first usual one."""
    names = config.captions or [name for name in tables.CAPTION_COLUMNS if name in content][:1]
    values = [content.get(name) for name in names]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return [text for text in texts if isinstance(text, str)]


def _read_text(file: Path, config: Config, counts: Counter) -> list[str]:
    try:
        text = read_bytes(file).decode("utf-8-sig")
        return text.splitlines() if config.lines else [text]
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
    except UserError:  # no file, but a folder, a pipe or a link to nowhere
        counts["unreadable_captions"] += 1
    return []
