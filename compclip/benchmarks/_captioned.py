"""Captioned pictures as the field writes them down, told apart by content: id, picture and captions of each.

Karpathy's dataset JSON     {"images": [{"filename", "filepath", "split", "sentences": [{"raw"}]}]}
COCO's captions JSON        {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}
LAVIS' lists                [{"image": "val2014/….jpg", "caption": ["…"]}]; training lists have a caption a record
Flickr8k's captions.txt     image,caption with quotes where a caption holds a comma (Kaggle's)
Flickr8k.token.txt          name.jpg#0 TAB caption; Flickr30k's results_20130124.token too
CLIP_benchmark's            name.jpg,caption without quotes, behind a line that is no caption (*_karpathy.txt)
CLIP_benchmark's tars       of each key a picture and its captions, a line each, in .txt
FLAIR's trees               {"annotations": [{"image", "caption", "image_id"}]}, a caption a record, in the folder
                            `annotations` or at the top, and pictures in folders beside it

FLAIR (Xiao et al., CVPR 2025, arXiv:2412.03561; github.com/ExplainableML/flair, datasets/) cuts DOCCI and ImageInWords
into sentences, each a caption of its picture.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, read_text
from compclip.benchmarks._files import check_unique, first_existing, read_field, read_tar_pairs
from compclip.evaluate.benchmark import Record

SUBSET = "all"
PATTERNS = ("*.json", "captions.txt", "*_karpathy.txt", "Flickr8k.token.txt", "results_*.token")
UNQUOTED = "_karpathy.txt"  # CLIP_benchmark's files
FLAIR_FOLDER = "annotations"
SENTENCE_ENDS = re.compile(r"[.\n]|</s>")  # FLAIR's rule: "1.5 m" is two pieces, "What? No!" is one
Captioned = tuple[str, Path | str, list[str]]  # id, picture, captions
MOST = 1 << 20  # bytes of the captions of a picture in a tar


def make_records(file: Path, captioned: Iterable[Captioned]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """Return one record for each picture with a caption, and how many pictures have none; empty captions are left out.

    Raises UserError naming an id that stands twice.
    """
    records = [
        Record(SUBSET, key, (str(picture),), tuple(text for text in texts if text.strip()))
        for key, picture, texts in captioned
    ]
    with_captions = check_unique(file, [record for record in records if record.texts])
    return with_captions, {"image_without_caption": len(records) - len(with_captions)}


def read_captioned(file: Path, pictures: Path, split: str, lost: Counter[str]) -> Iterable[Captioned]:
    """Yield the pictures of a file in their order; what belongs to none is counted in `lost`.

    Raises UserError for another format, an unknown split, or a record without a field.
    """
    if file.suffix == ".json":
        return _json(file, pictures, split, lost)
    captions = _read_lines(file, lost)
    if file.name.endswith(UNQUOTED):
        _check_no_split(file, split, "CLIP_benchmark's files")
        names: Collection[str] = captions.keys()
    else:  # a split is a file that lists its pictures
        names = _read_names(file.parent / split, captions) if split else captions.keys()
        lost["name_without_caption"] = len(set(names) - captions.keys())
    return [(name, pictures / name, texts) for name, texts in captions.items() if name in names]


def read_tars(folder: Path, lost: Counter[str]) -> Iterator[Captioned]:
    """Yield the pictures of a folder's tars with their captions. Raises UserError for damaged tars and other texts."""
    for key, ref, raw in read_tar_pairs(folder, "txt", MOST, "no_captions", lost):
        try:
            yield key, ref, raw.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{folder}: {key}.txt: not UTF-8 at byte {error.start}; fetch the tar again") from error


def flair_root(file: Path) -> Path:
    """Return the folder in which FLAIR's folders of pictures stand."""
    return file.parent.parent if file.parent.name == FLAIR_FOLDER else file.parent


def read_flair(file: Path, pictures: Path) -> list[Captioned]:
    """Return each picture with its captions in the file's order. Raises UserError for a record without a field."""
    captions: dict[str, Captioned] = {}
    for position, row in enumerate(read_field(file, "(whole file)", read_json(file), "annotations", list)):
        key = str(read_field(file, f"at place {position}", row, "image_id", (int, str)))
        name = read_field(file, key, row, "image")
        picture = first_existing((pictures / name, pictures / "images" / name))
        captions.setdefault(key, (key, picture, []))[2].append(read_field(file, key, row, "caption"))
    return list(captions.values())


def split_sentences(text: str) -> list[str]:
    """Split a caption into sentences as FLAIR does, without their full stops and the spaces around them."""
    return [piece for piece in (raw.strip() for raw in SENTENCE_ENDS.split(text)) if piece]


def _json(file: Path, pictures: Path, split: str, lost: Counter[str]) -> Iterable[Captioned]:
    content = read_json(file)
    if isinstance(content, list):
        return _lavis(file, content, pictures, split)
    if not isinstance(content, dict) or not content:
        raise UserError(f"{file}: neither an object nor a list of captioned pictures; fetch the official file")
    entries = read_field(file, "(whole file)", content, "images", list)
    if "annotations" in content:
        return _coco(file, content, pictures, split, lost)
    if entries and (not isinstance(entries[0], Mapping) or "sentences" in entries[0]):
        return _karpathy(file, entries, pictures, split or "test")
    raise UserError(f"{file}: neither COCO captions ('annotations') nor Karpathy's ('sentences'); give another file")


def _karpathy(file: Path, entries: list[Any], pictures: Path, split: str) -> Iterator[Captioned]:
    names = [read_field(file, str(index), row, "split") for index, row in enumerate(entries)]
    if split not in names:
        raise unknown("split", split, set(names), str(file))
    rows = [row for name, row in zip(names, entries, strict=True) if name == split]
    files = Counter(read_field(file, "?", row, "filename") for row in rows)
    for row in rows:
        name = row["filename"]
        captions = [read_field(file, name, s, "raw") for s in read_field(file, name, row, "sentences", list)]
        folder = read_field(file, name, row, "filepath") if "filepath" in row else ""
        key = name if files[name] == 1 else f"{folder}/{name}"
        # COCO's images lie in `filepath` (val2014), unless all lie in one folder
        is_flat = files[name] == 1 and not os.path.isdir(pictures / folder)
        yield key, pictures / name if is_flat else pictures / folder / name, captions


def _coco(
    file: Path, content: Mapping[str, Any], pictures: Path, split: str, lost: Counter[str]
) -> Iterator[Captioned]:
    _check_no_split(file, split, "COCO caption files")
    captions: dict[str, list[str]] = {}
    for index, row in enumerate(read_field(file, "(whole file)", content, "annotations", list)):
        key = str(read_field(file, str(index), row, "image_id", (int, str)))
        captions.setdefault(key, []).append(read_field(file, f"of annotation {index}", row, "caption"))
    rows = enumerate(content["images"])
    keys = [str(read_field(file, f"of image {index}", row, "id", (int, str))) for index, row in rows]
    lost["caption_without_image"] = sum(len(captions[key]) for key in captions.keys() - set(keys))
    for key, row in zip(keys, content["images"], strict=True):
        yield key, pictures / read_field(file, key, row, "file_name"), captions.get(key, [])


def _lavis(file: Path, entries: list[Any], pictures: Path, split: str) -> Iterator[Captioned]:
    """Read LAVIS' lists: a record's `caption` is a list, or a text of which a picture may have several records."""
    _check_no_split(file, split, "LAVIS' lists")
    if not entries:
        raise UserError(f"{file}: holds no records; fetch the official file")
    captions: dict[str, list[str]] = {}
    for index, row in enumerate(entries):
        name = read_field(file, str(index), row, "image")
        caption = read_field(file, str(index), row, "caption", (list, str))
        texts = [caption] if isinstance(caption, str) else caption
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{file}: record {index}: field 'caption' holds other than texts; fetch the official file")
        captions.setdefault(name, []).extend(texts)
    for name, picture_captions in captions.items():
        yield name, Path(first_existing((pictures / name, pictures / Path(name).name))), picture_captions


def _check_no_split(file: Path, split: str, what: str) -> None:
    if split:
        raise UserError(f"{file}: split={split!r}: {what} have no splits; leave split out")


def _read_names(file: Path, captions: Mapping[str, list[str]]) -> set[str]:
    """Return the names of a file that lists pictures, one a line. Raises UserError where none has a caption."""
    names = {name for line in read_text(file).splitlines() if (name := line.strip())}
    if names.isdisjoint(captions):
        name = min(names, default="")
        raise UserError(f"{file}: none of its {len(names)} names has a caption, as {name!r}; correct split")
    return names


def _read_lines(file: Path, lost: Counter[str]) -> dict[str, list[str]]:
    """Read a caption a line, those of each picture in the order of the file.

    Line by line: an open quote would swallow the lines after it. CLIP_benchmark drops the first line of its files, and
    so do we; a caption there is counted. Raises UserError for another header, and a line that is no name and caption.
    """
    lines = enumerate(io.StringIO(read_text(file).removeprefix("\ufeff"), newline=None), 1)
    parse = _parse_token if ".token" in file.suffixes else _parse_quoted
    if file.name.endswith(UNQUOTED):
        parse = _parse_unquoted
        lost["caption_in_first_line"] = int(".jpg," in next(lines, (1, ""))[1])
    elif parse is _parse_quoted:
        header = next((line.strip() for _, line in lines if line.strip()), "")
        if next(csv.reader([header]), []) != ["image", "caption"]:
            raise UserError(f"{file}: expected the header 'image,caption'; found {header!r}")
    captions: dict[str, list[str]] = {}
    for number, line in lines:
        try:
            if line.strip():
                name, caption = parse(line.rstrip("\n"))
                captions.setdefault(name, []).append(caption)
        except ValueError as error:
            raise UserError(f"{file}: line {number}: {error}") from error
    if not captions:
        raise UserError(f"{file}: holds no captions; fetch the official file")
    return captions


def _parse_unquoted(line: str) -> tuple[str, str]:
    name, mark, caption = line.strip().partition(".jpg,")
    if not mark:
        raise ValueError("expected name.jpg,caption; fetch the official file")
    return f"{name}.jpg", caption


def _parse_token(line: str) -> tuple[str, str]:
    key, tab, caption = line.partition("\t")
    name, _, index = key.rpartition("#")
    if not (tab and name and index.isdecimal()):
        raise ValueError("expected name.jpg#0, a tab and a caption; fetch the official file")
    return name, caption


def _parse_quoted(line: str) -> tuple[str, str]:
    try:
        row = next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(f"{error}; close a caption's quotes on its line and double those within it") from error
    if len(row) != 2:
        raise ValueError("expected image,caption; quote captions that hold a comma")
    return row[0], row[1]
