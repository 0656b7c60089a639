"""Recognise a data set: its source, columns, pictures and captions, for `data` of params.yaml."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.base import plugins
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_json
from compclip.base.messages import format_count
from compclip.config.sections import Data
from compclip.config.validation import load_section
from compclip.data import tables
from compclip.data.sample import CAPTION_ENDINGS, ENDINGS, PictureFinder, Sample, list_captions
from compclip.prepare.image_folder import ImageFolder

FILES = 20_000  # of a folder whose names are looked at
FOLDERS = 1_000  # in which pictures are looked for
PICTURES = 10_000  # that are counted
ROWS = 100  # of a table, by which its columns are told
SHOWN = 3  # samples
OFFICIAL_LISTS = (
    *("captions.txt", "Flickr8k.token.txt", "results_*.token"),
    *("dataset_*.json", "captions_*.json", "annotations/captions_*.json"),
)
COLUMNED = ("table", "huggingface")  # sources whose layout names columns


def find_section(path: Path, images: str) -> dict[str, Any]:
    """Return the section of `data` that reads a file or a folder; `images`: where its pictures are ("": looked for).

    Raises UserError where no source reads it, and for a table without captions.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; correct the path")
    lists = itertools.chain.from_iterable(sorted(path.glob(pattern)) for pattern in OFFICIAL_LISTS)
    file = path if path.is_file() else next(lists, path)
    source = _find_source(file)
    around = path if path.is_dir() else path.parent
    section: dict[str, Any] = {"source": source, "path": os.path.abspath(file)}
    section["images"] = os.path.abspath(images or around)
    if source in COLUMNED:
        section["layout"] = _find_columns(file)
    section["captioner"] = "none"
    if not images and source != "webdataset":
        section["images"] = _find_images(section)
    return section


def _find_source(path: Path) -> str:
    """Return the source that reads a file or a folder, by the names of its files."""
    if path.suffix in (".txt", ".token"):
        return "flickr8k"
    if path.suffix == ".json":
        content = read_json(path)
        return "coco" if isinstance(content, dict) and "annotations" in content else "karpathy"
    if path.is_file():
        return "webdataset" if path.suffix == ".tar" else "table"
    files = list(itertools.islice(filter(Path.is_file, path.rglob("*")), FILES))
    endings = set(map(tables.format_suffix, files))
    if ".tar" in endings:
        return "webdataset"
    if endings & {*tables.PARQUET, *tables.ARROW} or any(file.stem == "metadata" for file in files):
        return "huggingface"
    if endings & {*tables.SUFFIXES}:
        return "table"
    if endings & {*CAPTION_ENDINGS, ".json"}:
        return "folder"
    raise UserError(f"{path}: no table, no tars and no texts beside pictures there; give the file with the captions")


def _find_columns(path: Path) -> dict[str, Any]:
    """Return the layout of a table, or of the first one of a folder: usual names, or else columns that look like it."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    file = next((file for file in files if tables.format_suffix(file) in tables.SUFFIXES), path)
    names = tables.read_columns(file)
    if tables.format_suffix(file) in tables.PARQUET + tables.ARROW:
        records = tables.read_records(file)
    else:
        records = (row.values for row in tables.read_rows(file, names, Counter()))
    rows = list(itertools.islice(records, ROWS))
    inside = tables.list_picture_columns(file)
    pictures = [*inside, *_list_usual(names, tables.PICTURE_COLUMNS)]
    lengths = dict[str, int]()  # of columns of texts
    for name in names:
        values = [row.get(name) for row in rows]
        if all(map(_names_picture, values)):
            pictures.append(name)
        elif name not in inside and not {str, list}.isdisjoint(map(type, values)):
            lengths[name] = sum(map(len, map(str, values)))
    picture = next(iter(pictures), "")
    lengths.pop(picture, None)
    numbered = [name for name in lengths if re.fullmatch(r"(caption|title|text|sentence)s?[ _-]?\d+", name.lower())]
    longest = sorted(lengths, key=lengths.__getitem__, reverse=True)
    captions = _list_usual(names, tables.CAPTION_COLUMNS)[:1] or numbered or longest[:1]
    if not picture or not captions:
        missing = "captions" if picture else "pictures"
        raise UserError(f"{file}: no column of {missing} among {', '.join(names[:20])}; name it in the first line")
    layout: dict[str, Any] = {"picture": picture, "captions": captions}
    if all(isinstance(row[captions[0]], str) and row[captions[0]].startswith("[") for row in rows):
        layout["lists"] = True
    if "train" in [row.get("split") for row in rows]:
        layout["split"] = "split"
    return layout


def _list_usual(names: Sequence[str], usual: Sequence[str]) -> list[str]:
    by_lower_case = {name.strip().lower(): name for name in reversed(names)}
    return list(filter(None, map(by_lower_case.get, usual)))


def _names_picture(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith(ENDINGS)


def _find_images(section: dict[str, Any]) -> str:
    """Return the folder at which the names of pictures begin: the one that the section has, or one below it.

    A table never chooses a folder above its own. Raises UserError where no picture is there.
    """
    root = section["images"]
    samples = list(itertools.islice(_read_samples(section, Counter()), PICTURES))
    folder = ImageFolder(root)
    inside = [sample for sample in samples if folder.contains(sample.image)]
    if any(sample.length or os.path.exists(sample.image) for sample in inside):
        return root
    names = {os.path.basename(sample.image): os.path.relpath(sample.image, root) for sample in inside}
    for parent, _, files in itertools.islice(os.walk(root), FOLDERS):
        name = next(filter(names.__contains__, files), "")
        start = parent.removesuffix(os.path.dirname(names[name])).rstrip("/") if name else ""
        if start and Path(start).is_relative_to(root):  # without the folders that stand in the picture's name as well
            return start
    name = next(iter(names), "") or next((sample.image for sample in samples), "")
    raise UserError(f"{section['path']}: picture {name!a} is nowhere below {root}; give its folder with --images")


def _read_samples(section: dict[str, Any], counts: Counter) -> Iterator[Sample]:
    cfg = load_section(Data, section, "data")
    source = plugins.load_plugin(plugins.SOURCES, cfg.source)
    parts = source.parts(cfg) if hasattr(source, "parts") else []
    if not parts:
        yield from source.records(cfg, counts)
    for part in parts:
        yield from source.records(cfg, counts, part)


def describe(section: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the number of pictures, and lines: how many captions they have, three of them, and what is wrong.

    Raises UserError where no picture is there.
    """
    counts = Counter[str]()
    samples = list(itertools.islice(_read_samples(section, counts), PICTURES))
    finder = PictureFinder(section["images"])
    folder = ImageFolder(section["images"])
    faults: dict[str, list[str]] = {"missing pictures": [], f"pictures outside of {section['images']}": []}
    missing, outside = faults.values()
    for sample in samples:
        file = sample.image if sample.length else finder.find(sample.image)
        if not folder.contains(file):
            outside.append(file)
        elif not sample.length and not os.path.isfile(file):
            missing.append(file)
    pictures = len(samples) - len(missing) - len(outside)
    if not pictures:
        example = "".join(f", as {file!a}" for file in (missing + outside)[:1])
        where = f"below {section['images']}{example}"
        raise UserError(f"{section['path']}: no picture is {where}; give their folder with --images")
    first = "the first " if len(samples) == PICTURES else ""
    captions = format_count(len(list_captions(samples)), "caption")
    lines = [f"{first}{format_count(len(samples), 'picture')}, {captions}"]
    for sample in samples[:SHOWN]:
        lines.append(one_line(f"{sample.id}: {next(iter(sample.captions), '(no caption)'):.90}"))
    lines += [f"{fault}: {len(files)}, the first {files[0]!a}" for fault, files in faults.items() if files]
    lines += [one_line(f"{reason}: {count}") for reason, count in counts.items() if count and reason != "images"]
    return pictures, lines[:1] + [f"  {line}" for line in lines[1:]]
