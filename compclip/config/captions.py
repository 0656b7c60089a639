"""Captions that others released, joined to pictures: `data.<name>.captions`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from compclip.base.errors import UserError, unknown

# By what a list is joined, and the names under which authors have it: PixelProse, LAION, Conceptual Captions, DreamLIP.
KEYS = {
    "url": ("url", "URL", "image_url", "Image Path", "Image Url"),
    "key": ("key",),
    "image": ("image", "image_path", "file_name", "filename", "filepath"),
}
FROM = re.compile(r"[1-9][0-9]*-")  # a column of a list without header, and all behind it
NUMBER = re.compile(r"[1-9][0-9]*-?")


@dataclass(frozen=True)
class Captions:
    """A list of captions and how it is joined to pictures; `experiments/grids/README.md` has those we know of."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS
    SECTION: ClassVar[str] = "captions"

    file: str = MISSING  # csv, tsv, jsonl, parquet, or a folder of one of them, of <key>.txt or of <key>.json
    on: str = MISSING  # url, key (img2dataset's, the picture's name without its ending), image (the picture's name)
    column: list[str] = field(default_factory=list)  # one, or several whose texts are all captions of the picture
    key_column: str = ""  # default: the first of KEYS[on] that the list has
    header: bool = True  # csv and tsv; without one columns are called 1, 2, …, and `2-` is the second and all behind it
    sentences: bool = False  # whether the columns hold sentences of one caption
    lists: bool = False  # whether each text is a list of texts, as JSON or Python writes it
    skip: list[str] = field(default_factory=list)  # texts that stand for none, as "invalid"

    def __post_init__(self) -> None:
        if self.on not in (*self.JOINS, MISSING):
            raise unknown("on", self.on, self.JOINS, "on")
        if self.header:
            return
        for name in (*self.column, *filter(None, [self.key_column])):
            if not NUMBER.fullmatch(name):
                raise UserError(f"column {name!r}: without a header columns are called 1, 2, …, or 2- for all behind")
        if not self.key_column or FROM.fullmatch(self.key_column):
            raise UserError(f"key_column={self.key_column!r}: must be the number of a column where there is no header")


@dataclass(frozen=True)
class Released:
    """Hard positives that others released, line by line for the captions of a COCO file: `data.<name>.rewrites`."""

    captions: str = MISSING  # captions_train2017.json: line n belongs to its n-th annotation
    swap: str = ""  # swap_hp.jsonl
    replace: str = ""  # replace_hp.jsonl

    def __post_init__(self) -> None:
        if not self.swap and not self.replace:
            raise UserError("swap: names no file, and neither does replace; give one of them")
