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
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from compclip.base.errors import UserError
from compclip.base.files import regular
from compclip.benchmarks import _table, retrieval
from compclip.benchmarks._files import images_folder, one_file, value
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.items import RETRIEVAL

FILES = ("share-captioner_coco_lcs_sam_1246k_1107.json", "share4v_sam_10k.json")
FIRST = 1000
METRICS = retrieval.METRICS
CHUNK, LONGEST = 1 << 16, 1 << 20  # characters: read at once, and of one record


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """The released file, or the folder of one of FILES; `split`: how many of its first records, 1000 unless told.

    Pictures are `<image>` (`sam/images/sa_1.jpg`) seen from `images`, or the end of that path; or they lie as the tars
    of SA-1B unpack (`sa_000000/sa_1.jpg`), with a folder `images` in between or not. The file is read as far as it is
    needed. Raises UserError for a missing file, one that holds fewer records, or a record of another form.
    """
    file = one_file(Path(path), *FILES)
    pictures, wanted = images_folder(file.parent, images), _wanted(file, split)
    records = tuple(_record(file, str(place), row, pictures) for place, row in enumerate(_first(file, wanted)))
    records = _in_archives(records, pictures)
    if len(records) < wanted:
        raise UserError(f"{file}: holds {len(records)} records, not {wanted}; lower split, or fetch the official file")
    kept = tuple(record for record in records if record.has_text)
    dropped = {"image_without_caption": len(records) - len(kept)}
    return Benchmark(kept, (file,), retrieval.evaluate, dropped=dropped, kind=RETRIEVAL)


def _wanted(file: Path, split: str) -> int:
    if split and not (split.isdecimal() and len(split) < 8 and int(split)):
        raise UserError(f"{file}: split={split!r}: must be a number of records, as 1000")
    return int(split or FIRST)


def _record(file: Path, key: str, row: Any, pictures: Path) -> Record:
    """The second turn of the conversation is the caption; the id is the place."""
    turns = value(file, key, row, "conversations", list)
    if len(turns) < 2:
        raise UserError(f"{file}: record {key}: a conversation of {len(turns)} turns, not 2; fetch the official file")
    caption = value(file, key, turns[1], "value").replace("\n", " ")
    return Record(retrieval.SUBSET, key, (_table.picture(pictures, value(file, key, row, "image")),), (caption,))


def _in_archives(records: tuple[Record, ...], pictures: Path) -> tuple[Record, ...]:
    """The records, with pictures that are not where the file says in the folders of SA-1B's archives, by their name.

    Its numbers are unique over all archives. The folders are listed once, and only where a picture is missing.
    """
    absent = {Path(record.images[0]).name for record in records if not os.path.isfile(record.images[0])}
    if not absent:
        return records
    folders = sorted((*pictures.glob("sa_[0-9]*"), *pictures.glob("sa_[0-9]*/images")))
    place_of = {name: str(folder / name) for folder in folders if folder.is_dir() for name in os.listdir(folder)}
    return tuple(
        replace(record, images=(place_of[name],)) if name in absent and name in place_of else record
        for record in records
        for name in [Path(record.images[0]).name]
    )


def _first(file: Path, count: int) -> Iterator[Any]:
    """The first values of a list in a file of gigabytes."""
    try:
        with open(regular(file), encoding="utf-8") as text:
            yield from _values(file, text, count)
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8; convert the file to UTF-8") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(f"{str(file)!r}: {error}; give the path of an existing file") from error


def _values(file: Path, text: TextIO, count: int) -> Iterator[Any]:
    ahead = text.read(CHUNK).lstrip()
    if not ahead.startswith("["):
        raise UserError(f"{file}: expected a list of records; fetch the official file")
    ahead = ahead[1:]
    for place in range(count):
        ahead = _more(text, ahead.lstrip(" \t\r\n,"))
        if ahead.startswith("]"):
            return
        found, ahead = _next(file, text, ahead, place)
        yield found


def _more(text: TextIO, ahead: str) -> str:
    """What is ahead, which is not nothing before the file ends."""
    while not ahead and (read := text.read(CHUNK)):
        ahead = read.lstrip(" \t\r\n,")
    return ahead


def _next(file: Path, text: TextIO, ahead: str, place: int) -> tuple[Any, str]:
    """The next value and what stands behind it; as much is read as it takes."""
    while True:
        try:
            found, end = json.JSONDecoder().raw_decode(ahead)
            return found, ahead[end:]
        except (ValueError, RecursionError) as error:
            read = text.read(CHUNK) if len(ahead) < LONGEST else ""
            if not read:
                raise UserError(f"{file}: record {place}: not JSON; fetch the official file") from error
            ahead += read
