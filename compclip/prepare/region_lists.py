"""Join regions to samples: boxes in pictures with texts of their own, from a list that others released.

A list is json, jsonl or parquet. Visual Genome's regions, FG-CLIP's FineHARD and COCO's boxes with captions have this
form (`config.released_lists.Regions`). Boxes become shares of the picture's width and height, so that they stay right
whatever size a picture is read at. What cannot be used is counted and left out.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

import ijson
import numpy as np

from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import FETCH, check_regular, parse_json, replace_lone
from compclip.config.released_lists import Regions
from compclip.data import tables
from compclip.data.sample import Region, Sample
from compclip.prepare import caption_join
from compclip.prepare.image_folder import ImageFolder
from compclip.text.caption_cleaning import clean_caption

JoinRegions = Callable[[Sequence[Sample], Counter], list[Sample]]
Record = Mapping[str, Any]
LARGEST = 1e9  # number of a box
DEEPEST = 100  # open brackets of a list in JSON
BRACKETS = np.zeros(256, np.int8)  # what each byte adds to how many are open
BRACKETS[list(b"[{")] = 1
BRACKETS[list(b"]}")] = -1
WrittenRegion = tuple[list[float], list[str], list[str]]  # box as the list has it, captions, negatives


def open_joiner(cfg: Regions | None) -> JoinRegions:
    """Return the function that adds regions to samples; it adds none without `cfg`.

    Counted: samples with and without regions, regions outside of their picture, and too small or large ones. Raises
    UserError for a list that is missing or unusable.
    """
    if cfg is None:
        return lambda samples, counts: list(samples)
    index = _open_index(cfg)
    section = cfg

    def join(samples: Sequence[Sample], counts: Counter) -> list[Sample]:
        first_keys = [caption_join.sample_keys(sample, section.on)[0] for sample in samples]
        written = index.find([caption_join.join_key(key, section.on) for key in first_keys])
        joined = []
        for sample, texts in zip(samples, written, strict=True):
            regions = []
            for text in texts:
                region = place_region(section, sample, json.loads(text))
                if isinstance(region, str):
                    counts[f"regions_{region}"] += 1
                else:
                    regions.append(region)
            counts["regions_beyond"] += max(0, len(regions) - section.most)
            regions = regions[: section.most]
            counts["regions_samples" if regions else "regions_without"] += 1
            joined.append(replace(sample, regions=tuple(regions)))
        return joined

    return join


def count_rows(cfg: Regions | None) -> Counter:
    """Return the number of a list's rows and regions, and of the unusable ones; nothing without a list."""
    counts = _open_index(cfg).counts if cfg else {}
    return Counter({name: number for name, number in counts.items() if name.startswith("regions_")})


def _open_index(cfg: Regions) -> caption_join.TextIndex:
    """Return the list's regions by key, indexed when it is new or has changed."""
    folder = caption_join.index_folder([cfg.file], [asdict(cfg), "regions"])
    index = caption_join.open_index(folder, lambda counts: read_rows(cfg, counts))
    index.require_rows(cfg.file, "a region")
    return index


def place_region(cfg: Regions, sample: Sample, written: WrittenRegion) -> Region | str:
    """Return a region in shares of the picture, cut at its edges; or the reason why it is left out."""
    (left, upper, right, lower), captions, negatives = written
    if cfg.form == "size":
        right = left + right
        lower = upper + lower
    width, height = (sample.width, sample.height) if cfg.unit == "pixels" else (1, 1)
    shares = np.array([left, upper, right, lower]) / (width, height, width, height)
    left, upper, right, lower = shares.clip(0.0, 1.0).tolist()
    if left >= right or upper >= lower:
        return "outside"
    side = math.sqrt((right - left) * sample.width * (lower - upper) * sample.height)
    if side < cfg.least_side or side > (cfg.most_side or math.inf):
        return "of_other_size"
    return Region(left, upper, right, lower, tuple(captions), tuple(negatives))


# --- rows of the list -----------------------------------------------------------------------------------------


def read_rows(cfg: Regions, counts: Counter) -> Iterator[tuple[str, list[str]]]:
    """Give the key of every usable row and its regions, each as the JSON of a `WrittenRegion`.

    Counted: `regions_rows`, `regions_listed`, `regions_cut_texts`, which were too long, and of those left out
    `regions_damaged` and `regions_without_key`.
    Raises UserError for a list that is missing, of an unknown format, or has no such field.
    """
    key_name = cfg.key_column
    for record in _read_records(cfg.file):
        counts["regions_rows"] += 1
        if not isinstance(record, dict):
            counts["regions_damaged"] += 1
            continue
        if not key_name:
            key_name = tables.choose_column(list(record), "", cfg.JOINS[cfg.on], "regions.key_column", Path(cfg.file))
            if cfg.column and cfg.column not in record:
                raise unknown("field", cfg.column, record, f"{cfg.file}: regions.column")
        key = record.get(key_name)
        name = caption_join.join_key(replace_lone(str(key)), cfg.on) if isinstance(key, (str, int)) else ""
        if not name:
            counts["regions_without_key"] += 1
            continue
        values = (record.get(cfg.column) or []) if cfg.column else [record]
        cleaning = Counter[str]()
        regions = [parse_region(value, cfg, cleaning) for value in values] if isinstance(values, list) else [None]
        counts["regions_cut_texts"] += cleaning["cut_captions"]
        counts["regions_listed"] += len(regions)
        counts["regions_damaged"] += regions.count(None)
        usable = [json.dumps(region) for region in regions if region]
        if usable:
            yield name, usable


def parse_region(value: Any, cfg: Regions, counts: Counter | None = None) -> WrittenRegion | None:
    """Return box, captions and negatives of a region; None for what has no box of numbers, or no caption.

    Counted: what `clean_caption` counts of each text.
    """
    if not isinstance(value, dict):
        return None
    box = value.get(cfg.box[0]) if len(cfg.box) == 1 else [value.get(name) for name in cfg.box]
    if not isinstance(box, list) or len(box) < 4:
        return None
    if not all(type(edge) in (int, float) and abs(edge) < LARGEST for edge in box[:4]):
        return None
    captions = _list_texts(value, cfg.caption, counts)
    true_texts = set(map(str.casefold, captions))  # tokenizers know no capitals
    negatives = [text for text in _list_texts(value, cfg.negatives, counts) if text.casefold() not in true_texts]
    return (box[:4], captions, negatives) if captions else None


def _list_texts(record: Record, names: Iterable[str], counts: Counter | None) -> list[str]:
    """Return the different texts of some fields, which hold one, a list, or an object of them."""
    texts: list[Any] = []
    for name in names:
        value = record.get(name)
        texts += value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
    written = [clean_caption(text, counts) for text in texts if isinstance(text, str)]
    return list(dict.fromkeys(filter(None, written)))


def _read_records(name: str) -> Iterator[Any]:
    """Give the rows of all files of a list."""
    path = Path(name)
    files = sorted(p for p in path.iterdir() if p.suffix in READERS) if path.is_dir() else [path]
    if not files or not path.exists() or any(file.suffix not in READERS for file in files):
        raise UserError(f"{name}: no list of regions: a file of {', '.join(READERS)}, or a folder of them; correct it")
    folder = ImageFolder(name)
    for file in files:
        if not folder.contains(str(file)):
            raise UserError(f"{file}: is a link out of {name}; copy the file there")
        yield from READERS[file.suffix](Path(check_regular(file)))


def _read_json(path: Path) -> Iterator[Any]:
    """Give the items of a file that is one list, one at a time: Visual Genome's has five million regions."""
    with open(path, "rb") as file:
        if not file.peek().lstrip().startswith(b"["):
            raise UserError(f"{path}: holds no list of rows; write one, or a line of JSON for each row as .jsonl")
        try:
            yield from ijson.items(_ShallowFile(file, path), "item", use_float=True)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: not JSON: {one_line(str(error))[:100]}; {FETCH}") from error


class _ShallowFile:
    """A file of JSON that is read in blocks, for ijson, which keeps a text for each bracket that is open."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._depth = 0
        self._in_text = False
        self._escape = b""  # a backslash at the end of a block

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises UserError where brackets nest too deeply."""
        block = self._file.read(size)
        plain = (self._escape + block).replace(rb"\\", b"").replace(rb"\"", b"")
        self._escape = plain[-1:] if plain.endswith(b"\\") else b""
        segments = plain.split(b'"')
        outside = np.frombuffer(b"".join(segments[self._in_text :: 2]), np.uint8)
        self._in_text ^= len(segments) % 2 == 0
        depths = self._depth + np.cumsum(BRACKETS[outside], dtype=np.int64)
        self._depth = int(depths[-1]) if len(depths) else self._depth
        if len(depths) and depths.max() > DEEPEST:
            raise UserError(f"{self._path}: more than {DEEPEST} brackets are open at once; {FETCH}")
        return block


def _read_json_lines(path: Path) -> Iterator[Any]:
    with open(path, "rb") as file:
        for line in filter(bytes.strip, tables.iterate_lines(file)):
            try:
                yield parse_json(line.decode("utf-8"), str(path))
            except (UserError, UnicodeDecodeError):
                yield None


READERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    ".json": _read_json,
    ".jsonl": _read_json_lines,
    ".parquet": tables.read_records,
}
