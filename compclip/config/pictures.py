"""Pictures that stand beside a data set's own as their negatives: `data.<name>.negative_images`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from compclip.base.errors import UserError, unknown
from compclip.config.captions import KEYS, Captions
from compclip.config.sections import Data
from compclip.config.structured import structured

BY_CAPTION = "caption"  # joined to the samples that have a caption, and not to a picture
JOINS = KEYS | {BY_CAPTION: ("caption",)}


@dataclass(frozen=True)
class Listed(Captions):
    """The list, in the form of a list of captions whose texts are the names of pictures."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = JOINS
    SECTION: ClassVar[str] = "negative_images"

    def __post_init__(self) -> None:
        """Was looked at already."""


@dataclass(frozen=True)
class NegativeImages:
    """A list of pictures and how it is joined to samples; or which member of a sample's tar is its picture."""

    file: str = ""  # csv, tsv, jsonl, parquet, or a folder of one of them
    on: str = ""  # url, key, image, as of captions; caption: the sample's own text
    column: list[str] = field(default_factory=list)  # one, or several, of pictures' names below `images`
    key_column: str = ""  # default: the first usual name that the list has
    header: bool = True  # csv and tsv; without one columns are called 1, 2, …
    images: str = ""
    images_outside: bool = False  # whether pictures may lie outside of `images`, by their names or through links
    member: str = ""  # in place of a list: the ending of the picture in the sample's tar, as TripletData's neg_image

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.member):
            raise UserError(
                f"file={self.file!r}, member={self.member!r}: give a list, or a member of the samples' tars"
            )
        if self.member:
            return
        if self.on not in JOINS:
            raise unknown("on", self.on, JOINS, "on")
        if not self.column or not self.images:
            raise UserError("column, images: must be given with a file: where pictures are named, and where they lie")
        if not self.key_column and not (self.header and self.on in KEYS):
            raise UserError(f"key_column: must be given with on={self.on}, header={str(self.header).lower()}")

    @property
    def listed(self) -> Listed:
        """How the list is read."""
        return Listed(self.file, self.on, self.column, self.key_column, self.header)


def of(data: Data, where: str = "negative_images") -> NegativeImages | None:
    """The negative images of a data set; None where it names none. Raises UserError for what cannot be meant."""
    if not data.negative_images:
        return None
    raw = dict(data.negative_images)
    columns = raw.get("column") or []
    raw["column"] = [str(c) if isinstance(c, int) else c for c in (columns if isinstance(columns, list) else [columns])]
    if isinstance(raw.get("key_column"), int):
        raw["key_column"] = str(raw["key_column"])
    return structured(NegativeImages, raw, where)


def members(data: Data) -> list[str]:
    """Which members of each sample's tar are noted beside its picture."""
    texts = [one.get("member") for one in data.texts.values() if isinstance(one, dict)]
    asked = [*data.members, data.negative_images.get("member"), *texts]
    return list(dict.fromkeys(str(name).lower() for name in asked if name))
