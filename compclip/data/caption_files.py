"""Captioned pictures as the field writes them down: one reader a format, for training and for benchmarks.

Karpathy's dataset JSON     {"images": [{"filename", "filepath", "split", "sentences": [{"raw"}]}]}
COCO's captions JSON        {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}
Flickr8k's captions.txt     image,caption with quotes where a caption holds some (Kaggle's)
Flickr8k.token.txt          name.jpg#0 TAB caption; Flickr30k's results_20130124.token too
CLIP_benchmark's            name.jpg,caption without quotes, behind a line that is no caption (*_karpathy.txt)
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_bytes, read_field
from compclip.data.tables import PICTURE_NAME

MERGED = {"train": ("train", "restval")}  # COCO's restval is trained on as usual
FIRST_BYTES = 1 << 16
UNQUOTED = "_karpathy.txt"  # how CLIP_benchmark's files end
TOKEN = re.compile(rb"[^\t]+#\d+\t")
TOKEN_LINE = "name.jpg#0, a tab and a caption"
LineParser = Callable[[str], tuple[str, str]]  # of a line, name and caption; raises ValueError for another line


class CaptionedPicture(NamedTuple):
    """A picture by the id that its file gives it and by its path below the folder of pictures, and its captions."""

    key: str
    name: str
    captions: list[str]


def read_karpathy(file: str | Path, content: Any, split: str) -> list[CaptionedPicture]:
    """Return the pictures of a split in their order; train includes restval.

    An id is the file's name, with its folder where that stands twice. Raises UserError for an unknown split and a
    record without a field.
    """
    accepted = MERGED.get(split, (split,))
    splits = set[str]()
    count = Counter[str]()
    rows = []
    for index, row in enumerate(read_field(file, "(whole file)", content, "images", list)):
        row_split = read_field(file, str(index), row, "split")
        splits.add(row_split)
        if row_split in accepted:
            rows.append(row)
            count[read_field(file, str(index), row, "filename")] += 1
    if not rows:
        raise unknown("split", split, splits, str(file))
    pictures = []
    for row in rows:
        name = row["filename"]
        folder = read_field(file, name, row, "filepath") if "filepath" in row else ""
        path = f"{folder}/{name}" if folder else name
        sentences = read_field(file, name, row, "sentences", list)
        captions = [read_field(file, name, sentence, "raw") for sentence in sentences]
        pictures.append(CaptionedPicture(name if count[name] == 1 else path, path, captions))
    return pictures


def read_coco(file: str | Path, content: Any, counts: Counter[str]) -> list[CaptionedPicture]:
    """Return the file's images in their order; captions whose image it does not list are counted.

    Raises UserError for a record without a field and for an id of two images, whose captions nothing tells apart.
    """
    captions: dict[str, list[str]] = {}
    for index, row in enumerate(read_field(file, "(whole file)", content, "annotations", list)):
        where = f"of annotation {index}"
        key = str(read_field(file, where, row, "image_id", (int, str)))
        captions.setdefault(key, []).append(read_field(file, where, row, "caption"))
    names: dict[str, str] = {}
    for index, row in enumerate(read_field(file, "(whole file)", content, "images", list)):
        key = str(read_field(file, f"of image {index}", row, "id", (int, str)))
        if key in names:
            raise UserError(f"{file}: id {key!r} stands twice; remove one of the images")
        names[key] = read_field(file, key, row, "file_name")
    pictures = [CaptionedPicture(key, name, captions.pop(key, [])) for key, name in names.items()]
    counts["caption_without_image"] += sum(map(len, captions.values()))
    return pictures


def has_caption_lines(file: Path) -> bool:
    """Return whether `read_lines` knows the format of a file by its first lines."""
    with file.open("rb") as stream:
        lines = stream.read(FIRST_BYTES).removeprefix(codecs.BOM_UTF8).splitlines()
    try:
        _find_parser(file, lines, Counter())
    except UserError:
        return False
    return True


def read_lines(file: str | Path, counts: Counter[str], drops_damaged: bool = False) -> list[CaptionedPicture]:
    """Return the pictures of a file with a caption a line, in the order of their first lines.

    Line by line: an open quote would swallow the lines after it.
    A damaged line, which is not UTF-8, no name and caption, or the rest of a caption of several lines, raises
    UserError, or is dropped and counted. Raises UserError for another format.
    """
    lines = read_bytes(file).removeprefix(codecs.BOM_UTF8).splitlines()
    start, parse = _find_parser(file, lines, counts)
    captions: dict[str, list[str]] = {}
    is_open = False
    line = ""
    for number, raw in enumerate(lines[start:], start + 1):
        line = ""
        try:
            line = raw.decode()
            if line.strip():
                name, caption = parse(line)
                is_open = is_open and not _names_picture(line)
                if is_open:
                    raise ValueError("is the rest of a caption whose quote stays open; write it on one line")
                captions.setdefault(name, []).append(caption)
        except ValueError as error:
            is_text = not isinstance(error, UnicodeDecodeError)
            is_open = is_open or (is_text and line.count('"') % 2 == 1 and _names_picture(line))
            if not drops_damaged:
                fault = error if is_text else "not UTF-8; convert the file to UTF-8"
                raise UserError(f"{file}: line {number}: {fault}") from error
            counts["malformed_lines" if is_text else "invalid_utf8_lines"] += 1
    if not captions:
        raise UserError(f"{file}: holds no captions; fetch the official file")
    return [CaptionedPicture(name, name, texts) for name, texts in captions.items()]


def _names_picture(line: str) -> bool:
    """Return whether a line begins with a picture's name; the rest of a caption does not."""
    return bool(PICTURE_NAME.search(line.partition(",")[0]))


def _find_parser(file: str | Path, lines: Sequence[bytes], counts: Counter[str]) -> tuple[int, LineParser]:
    """Return where captions begin, and what parses their lines.

    CLIP_benchmark drops the first line of its files, and so do we; a caption there is counted.
    """
    if str(file).endswith(UNQUOTED):
        counts["caption_in_first_line"] += b".jpg," in b"".join(lines[:1])
        return 1, _parse_unquoted
    header = next(filter(bytes.strip, lines), b"")
    if header.strip().replace(b'"', b"") == b"image,caption":
        return lines.index(header) + 1, _parse_quoted
    if ".token" in Path(file).suffixes or any(map(TOKEN.match, lines)):
        return 0, _parse_token
    found = header.strip()[:100].decode(errors="replace")
    raise UserError(f"{file}: expected the header 'image,caption'; found {found!r}, and no line is {TOKEN_LINE}")


def _parse_unquoted(line: str) -> tuple[str, str]:
    name, mark, caption = line.strip().partition(".jpg,")
    if not mark:
        raise ValueError("expected name.jpg,caption; fetch the official file")
    return f"{name}.jpg", caption


def _parse_token(line: str) -> tuple[str, str]:
    key, tab, caption = line.partition("\t")
    name, _, index = key.rpartition("#")
    if not (tab and name and index.isdecimal()):
        raise ValueError(f"expected {TOKEN_LINE}; fetch the official file")
    return name, caption


def _parse_quoted(line: str) -> tuple[str, str]:
    """Return name and caption: whatever is behind the first comma, where quotes do not say otherwise."""
    try:
        name, *pieces = next(csv.reader([line], strict=True)) if '"' in line else line.split(",")
    except csv.Error as error:
        raise ValueError(f"{error}; close a caption's quotes on its line and double those within it") from error
    if not pieces:
        raise ValueError("expected image,caption; fetch the official file")
    return name, ",".join(pieces)
