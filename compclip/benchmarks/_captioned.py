"""Captioned pictures, told apart by content: id, picture and captions of each. Formats of `data.caption_files`, and

LAVIS' lists                [{"image": "val2014/….jpg", "caption": ["…"]}]; training lists have a caption a record
CLIP_benchmark's tars       of each key a picture and its captions, a line each, in .txt
FLAIR's trees               {"annotations": [{"image", "caption", "image_id"}]}, a caption a record, in the folder
                            `annotations` or at the top, and pictures in folders beside it

FLAIR (Xiao et al., CVPR 2025, arXiv:2412.03561; github.com/ExplainableML/flair, datasets/) cuts DOCCI and ImageInWords
into sentences, each a caption of its picture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_json, read_text
from compclip.benchmarks import _tables
from compclip.benchmarks._files import (
    are_texts,
    check_unique,
    drop_empty,
    first_existing,
    number_rows,
    read_field,
    read_tar_pairs,
    require_records,
)
from compclip.config.sections import Data
from compclip.data import caption_files, tables
from compclip.data.caption_files import CaptionedPicture
from compclip.data.sample import CAPTION_ENDINGS
from compclip.evaluate.benchmark import Record
from compclip.prepare.sources import table
from compclip.runs.item_outcomes import LOST_NAMES

SUBSET = "all"
PATTERNS = ("*.json", "captions.txt", "*_karpathy.txt", "Flickr8k.token.txt", "results_*.token")
FLAIR_FOLDER = "annotations"
SENTENCE_ENDS = re.compile(r"[.\n]|</s>")  # FLAIR's rule: "1.5 m" is two pieces, "What? No!" is one
Captioned = tuple[str, Path | str, list[str]]  # id, picture, captions
MOST = 1 << 20  # bytes of the captions of a picture in a tar


def make_records(file: Path, captioned: Iterable[Captioned]) -> tuple[tuple[Record, ...], dict[str, int]]:
    """Return one record for each picture with a caption, and how many pictures have none; empty captions are left out.

    Raises UserError naming an id that stands twice.
    """
    records = []
    without_caption = 0
    for key, picture, texts in captioned:
        captions = drop_empty(texts)
        if captions:
            records.append(Record(SUBSET, key, (str(picture),), tuple(captions)))
        else:
            without_caption += 1
    return check_unique(file, records), {"image_without_caption": without_caption}


def read_captioned(file: Path, pictures: Path, split: str, lost: Counter[str]) -> list[Captioned]:
    """Return the pictures of a file in their order; what belongs to none is counted in `lost`.

    Raises UserError for another format, an unknown split, or a record without a field.
    """
    if file.suffix == ".json":
        captioned = _read_json(file, split, lost)
    else:
        captioned = caption_files.read_lines(file, lost)
        if file.name.endswith(caption_files.UNQUOTED):
            _check_no_split(file, split, "CLIP_benchmark's files")
        else:  # a split is a file that lists its pictures
            keys = {picture.key for picture in captioned}
            names = _read_names(file.parent / split, keys) if split else keys
            lost[LOST_NAMES] = len(names - keys)
            captioned = [picture for picture in captioned if picture.key in names]
    return [(picture.key, pictures / picture.name, picture.captions) for picture in captioned]


def read_tars(folder: Path, lost: Counter[str]) -> Iterator[Captioned]:
    """Yield the pictures of a folder's tars with their captions. Raises UserError for damaged tars and other texts."""
    for key, ref, raw in read_tar_pairs(folder, CAPTION_ENDINGS, MOST, "no_captions", lost):
        try:
            yield key, ref, raw.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{folder}: {key}: not UTF-8 at byte {error.start}; fetch the tar again") from error


def is_table(path: Path) -> bool:
    """Return whether a file is a table of pictures and captions, or a folder holds some and no other captions."""
    if path.is_file() or any(any(path.glob(pattern)) for pattern in PATTERNS):
        return tables.format_suffix(path) in tables.SUFFIXES and not caption_files.has_caption_lines(path)
    return any(tables.format_suffix(file) in tables.SUFFIXES for file in path.rglob("*"))


def read_tables(
    files: Sequence[Path], pictures: Path, split: str, layout: table.Config, lost: Counter[str]
) -> list[Captioned]:
    """Return the pictures of tables as the source `table` has them. Raises UserError for a row that cannot be read."""
    section = Data("table", str(files[0]), str(pictures), split=split or "test")
    counts = Counter[str]()
    samples = list(table.read_samples(section, layout, files, counts))
    lost.update(_tables.require_whole_rows(files[0], counts))
    return [(sample.id, _tables.refer_to(sample.picture), list(sample.captions)) for sample in samples]


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
    return drop_empty(map(str.strip, SENTENCE_ENDS.split(text)))


def _read_json(file: Path, split: str, lost: Counter[str]) -> list[CaptionedPicture]:
    content = read_json(file)
    if isinstance(content, list):
        return _read_lavis(file, content, split)
    entries = read_field(file, "(whole file)", content, "images", list)
    if "annotations" in content:
        _check_no_split(file, split, "COCO caption files")
        return caption_files.read_coco(file, content, lost)
    if entries and (not isinstance(entries[0], Mapping) or "sentences" in entries[0]):
        return caption_files.read_karpathy(file, content, split or "test")
    raise UserError(f"{file}: neither COCO captions ('annotations') nor Karpathy's ('sentences'); give another file")


def _read_lavis(file: Path, entries: list[Any], split: str) -> list[CaptionedPicture]:
    """Read LAVIS' lists: a record's `caption` is a list, or a text of which a picture may have several records."""
    _check_no_split(file, split, "LAVIS' lists")
    captions: dict[str, list[str]] = {}
    for key, row in number_rows(require_records(file, entries)):
        name = read_field(file, key, row, "image")
        caption = read_field(file, key, row, "caption", (list, str))
        texts = [caption] if isinstance(caption, str) else caption
        if not are_texts(texts):
            raise UserError(f"{file}: record {key}: field 'caption' holds other than texts; fetch the official file")
        captions.setdefault(name, []).extend(texts)
    return [CaptionedPicture(name, name, texts) for name, texts in captions.items()]


def _check_no_split(file: Path, split: str, what: str) -> None:
    if split:
        raise UserError(f"{file}: split={split!r}: {what} have no splits; leave split out")


def _read_names(file: Path, captioned: Collection[str]) -> set[str]:
    """Return the names of a file that lists pictures, one a line. Raises UserError where none has a caption."""
    names = set(drop_empty(map(str.strip, read_text(file).splitlines())))
    if names.isdisjoint(captioned):
        name = min(names, default="")
        raise UserError(f"{file}: none of its {len(names)} names has a caption, as {name!r}; correct split")
    return names
