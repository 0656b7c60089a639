"""ShareGPT4V's long captions (Chen et al., ECCV 2024, arXiv:2311.12793), the retrieval of Long-CLIP and others.

The first 1,000 records of the 1.2 million, each a picture and one long caption: Recall@1, 5, 10 both ways as
`retrieval` scores it, ties wrong; Long-CLIP reports Recall@1. `split: 10000` takes as many, as LoTLIP does. A caption
that is longer than a model's context is cut by its tokenizer.

Checklist. Source: hf.co/datasets/Lin-Chen/ShareGPT4V, share-captioner_coco_lcs_sam_1246k_1107.json (or LoTLIP's
share4v_sam_10k.json). Licence: CC BY-NC 4.0; pictures: SA-1B's. Compared with the authors' code: the rule, read in
Long-CLIP's train/sharegpt4v.py (line breaks become spaces; LoTLIP and FLAIR also rewrite full stops, we do not). Not
compared: any real file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from compclip.base.errors import UserError
from compclip.base.files import check_regular
from compclip.benchmarks import _captioned, retrieval
from compclip.benchmarks._files import images_folder, number_rows, one_file, read_field
from compclip.benchmarks._tables import find_picture
from compclip.evaluate.benchmark import Benchmark
from compclip.runs.item_outcomes import RETRIEVAL

FILES = ("share-captioner_coco_lcs_sam_1246k_1107.json", "share4v_sam_10k.json")
FIRST = 1000
METRICS = retrieval.METRICS
HEADLINE = retrieval.HEADLINE
BENCHMARK_GROUP = "long"
RECOGNISES = FILES
# characters: read at once, and of one record
CHUNK = 1 << 16
LONGEST = 1 << 20


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the released file, or the folder of one of FILES; `split`: how many of its first records, 1000 unless told.

    Pictures are `<image>` (`sam/images/sa_1.jpg`) seen from `images`, or the end of that path; or they lie as the tars
    of SA-1B unpack (`sa_000000/sa_1.jpg`), with a folder `images` in between or not. The file is read as far as it is
    needed. Raises UserError for a missing file, one that holds fewer records, or a record of another form.
    """
    file = one_file(Path(path), *FILES)
    if split and not (split.isdecimal() and len(split) < 8 and int(split)):
        raise UserError(f"{file}: split={split!r}: must be a number of records, as 1000")
    pictures = images_folder(file.parent, images)
    count = int(split or FIRST)
    rows = number_rows(_first_rows(file, count))
    captioned = [_captioned_picture(file, key, row, pictures) for key, row in rows]
    if len(captioned) < count:
        raise UserError(f"{file}: holds {len(captioned)} records, not {count}; lower split, or fetch the official file")
    records, dropped = _captioned.make_records(file, _in_archives(captioned, pictures))
    return Benchmark(records, (file,), retrieval.evaluate, dropped=dropped, long_texts=True, kind=RETRIEVAL)


def _captioned_picture(file: Path, key: str, row: Any, pictures: Path) -> tuple[str, str, list[str]]:
    """Read a record. The conversation's second turn is the caption; the id is the position."""
    turns = read_field(file, key, row, "conversations", list)
    if len(turns) < 2:
        raise UserError(f"{file}: record {key}: a conversation of {len(turns)} turns, not 2; fetch the official file")
    caption = read_field(file, key, turns[1], "value").replace("\n", " ")
    return key, find_picture(pictures, read_field(file, key, row, "image")), [caption]


def _in_archives(captioned: list[tuple[str, str, list[str]]], pictures: Path) -> list[_captioned.Captioned]:
    """Look for absent pictures in the folders of SA-1B's archives, by name; return the captioned pictures.

    Its numbers are unique over all archives. The folders are listed once, and only where a picture is missing.
    """
    absent = {picture for _, picture, _ in captioned if not os.path.isfile(picture)}
    folders = sorted((*pictures.glob("sa_[0-9]*/"), *pictures.glob("sa_[0-9]*/images/"))) if absent else []
    folder_of: dict[str, Path] = {}
    for folder in folders:
        folder_of |= dict.fromkeys(os.listdir(folder), folder)
    located: list[_captioned.Captioned] = []
    for key, picture, captions in captioned:
        name = Path(picture).name
        path = str(folder_of[name] / name) if picture in absent and name in folder_of else picture
        located.append((key, path, captions))
    return located


def _first_rows(file: Path, count: int) -> Iterator[Any]:
    """Yield the first values of a list in a file of gigabytes."""
    try:
        with open(check_regular(file), encoding="utf-8") as text:
            yield from _values(file, text, count)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or other bytes than UTF-8
        raise UserError(f"{str(file)!r}: {error}; give the path of the official file") from error


def _values(file: Path, text: TextIO, count: int) -> Iterator[Any]:
    """Yield values as far as they are needed; `ahead` is the text that was read beyond the last of them."""
    ahead = text.read(CHUNK).lstrip()
    if not ahead.startswith("["):
        raise UserError(f"{file}: expected a list of records; fetch the official file")
    ahead = ahead[1:]
    for index in range(count):
        ahead = ahead.lstrip(" \t\r\n,")
        while not ahead:
            chunk = text.read(CHUNK)
            if not chunk:
                break
            ahead = chunk.lstrip(" \t\r\n,")
        if ahead.startswith("]"):
            return
        record, ahead = _next_value(file, text, ahead, index)
        yield record


def _next_value(file: Path, text: TextIO, ahead: str, index: int) -> tuple[Any, str]:
    """Return the next value and the text after it; the file is read as far as needed."""
    while True:
        try:
            record, end = json.JSONDecoder().raw_decode(ahead)
            return record, ahead[end:]
        except (ValueError, RecursionError) as error:
            chunk = text.read(CHUNK) if len(ahead) < LONGEST else ""
            if not chunk:
                raise UserError(f"{file}: record {index}: not JSON; fetch the official file") from error
            ahead += chunk
