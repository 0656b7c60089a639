"""Define the subsections of `data.<name>` for released lists and helper models that a data set uses.

`captions` and `texts` are lists of texts that others released; `texts.negative` may also be made by rules, balanced.
`negative_images` is a list of pictures, `regions` a list of boxes in pictures, `rewrites` files of hard positives, and
`masked` a masked language model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat

from compclip.base.errors import UserError, unknown
from compclip.config.sections import Data
from compclip.config.validation import Axis, RequiredText, load_section, mapping

# How a list is joined to pictures, and the usual column names: PixelProse, LAION, Conceptual Captions, DreamLIP.
KEYS = {
    "url": ("url", "URL", "image_url", "Image Path", "Image Url"),
    "key": ("key",),
    "image": ("image", "image_path", "file_name", "filename", "filepath"),
}
BY_CAPTION = "caption"  # joined to a caption by its text, instead of to a picture
FROM = re.compile(r"[1-9][0-9]*-")  # in a list without header: this column and all after it
NUMBER = re.compile(r"[1-9][0-9]*-?")
NEGATIVE = "negative"
DENSE = "dense"
VARIATION = "variation"
TEXT_KINDS = (NEGATIVE, "paraphrase", "absent", DENSE, VARIATION)


def _as_text(value: Any) -> Any:
    """Return a column's number as a text; other values as they are."""
    return str(value) if type(value) is int else value


# One column, by its name or number; or several as a list, where a single one may be given without brackets.
Column = Annotated[str, BeforeValidator(_as_text)]
Columns = Annotated[
    list[Column], BeforeValidator(lambda value: value if isinstance(value, list) else [value] if value else [])
]


@dataclass(frozen=True)
class JoinedList:
    """A list, and how it is joined to pictures."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS

    # csv, tsv, jsonl, parquet, or a folder of such files; for captions also a folder of <key>.txt or <key>.json
    file: RequiredText = ""
    on: RequiredText = ""  # url, key (img2dataset's: the picture's name without extension), or image (its file name)
    key_column: Column = ""  # default: the first of KEYS[on] that the list has

    def __post_init__(self) -> None:
        """Raise UserError for an unknown way of joining."""
        if self.on not in self.JOINS:
            raise unknown("on", self.on, self.JOINS, "on")


@dataclass(frozen=True)
class Captions(JoinedList):
    """A list of captions; `experiments/grids/README.md` names published ones."""

    SECTION: ClassVar[str] = "captions"

    column: Columns = field(default_factory=list)  # one or several; the texts of all are captions of the picture
    header: bool = True  # csv and tsv; false: columns are called 1, 2, …, and `2-` is the second and all after it
    sentences: bool = False  # whether the columns hold the sentences of one caption
    lists: bool = False  # whether each text is a list of texts, as JSON or Python writes it
    skip: list[str] = field(default_factory=list)  # texts that mean "no caption", such as "invalid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.header:
            return
        for name in (*self.column, *filter(None, [self.key_column])):
            if not NUMBER.fullmatch(name):
                raise UserError(f"column {name!r}: without a header columns are called 1, 2, …; 2- is 2 and all after")
        if not self.key_column or FROM.fullmatch(self.key_column):
            raise UserError(f"key_column={self.key_column!r}: must be the number of a column, as there is no header")


@dataclass(frozen=True)
class Texts(Captions):
    """A list of texts of one kind, in the format of a list of captions; they add to the captions and replace none."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS | {BY_CAPTION: ("caption", "title", "text")}
    SECTION: ClassVar[str] = "texts"


@dataclass(frozen=True)
class MemberText:
    """A text of one kind, in a file of each sample in a tar, such as TripletData's negatives: 7.neg_caption."""

    member: str  # the file's extension


# Rules that make a negative from a caption alone.
BalancedRule = Literal[
    "negclip", "negclip_released", "clic", "nouns", "atoms", "negate", "conclip", "wordnet", "bigram", "tokens"
]


@dataclass(frozen=True)
class BalancedTexts:
    """Negatives made by rules, selected so that their text alone does not give them away (docs/regions.md)."""

    balance: Literal["blind"] = "blind"
    rules: Axis[BalancedRule] = field(default_factory=lambda: ["negclip"])
    caption: Literal["first", "full"] = "first"  # the part that methods show: the first sentence, or the whole caption
    candidates: ClassVar[int] = 16  # how many each rule draws per caption
    seed: ClassVar[int] = 0


@dataclass(frozen=True)
class NegativeImages(Captions):
    """A list of pictures in the format of a list of captions, or the extension of the picture in a sample's tar.

    The texts of the list are paths of pictures relative to `images`.
    """

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS | {BY_CAPTION: ("caption",)}
    SECTION: ClassVar[str] = "negative_images"

    file: str = ""
    on: str = ""
    images: str = ""
    images_outside: bool = False  # whether paths or links may lead to pictures outside of `images`
    member: str = ""  # instead of a list: the extension of the picture in the sample's tar, as TripletData's neg_image

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.member):
            raise UserError(
                f"file={self.file!r}, member={self.member!r}: give a list, or a member of the samples' tars"
            )
        if self.member:
            return
        JoinedList.__post_init__(self)
        if not self.column or not self.images:
            raise UserError("column, images: must be given with a file: the column of pictures' names, their folder")
        if not self.key_column and not (self.header and self.on in KEYS):
            raise UserError(f"key_column: must be given with on={self.on}, header={str(self.header).lower()}")


@dataclass(frozen=True)
class Regions(JoinedList):
    """A list of boxes in pictures, each with its own texts: json, jsonl, parquet, or a folder of such files.

    With `column`, a row is a picture, and `column` holds the list of its regions. Without it, a row is one region.
    """

    column: str = ""
    box: Columns = field(default_factory=lambda: ["box"])  # the region's box: one field of four numbers, or four fields
    # fields whose texts are all captions of the region
    caption: Annotated[Columns, Field(min_length=1)] = field(default_factory=lambda: ["caption"])
    negatives: Columns = field(default_factory=list)  # fields of false texts, edited versions of the first caption
    form: Literal["corners", "size"] = "corners"  # corners: left, upper, right, lower; size: left, upper, width, height
    unit: Literal["shares", "pixels"] = "shares"  # shares of the picture's width and height, or pixels of the picture
    least_side: NonNegativeFloat = 0.0  # pixels; smaller regions, by the side of a square of equal area, are left out
    most_side: NonNegativeFloat = 0.0  # pixels; larger regions, likewise, are left out; 0: no limit
    most: ClassVar[int] = 50  # regions of a picture that are kept, from the first

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.box) not in (1, 4):
            raise UserError(f"box={self.box}: must name one field of four numbers, or four fields")


@dataclass(frozen=True)
class ReleasedRewrites:
    """Released hard positives, one line for each caption of a COCO file: the section `data.<name>.rewrites`."""

    captions: RequiredText = ""  # captions_train2017.json: line n belongs to its n-th annotation
    swap: str = ""  # swap_hp.jsonl
    replace: str = ""  # replace_hp.jsonl

    def __post_init__(self) -> None:
        if not self.swap and not self.replace:
            raise UserError("swap: names no file, and neither does replace; give one of them")


# The parts of speech of Universal Dependencies, without those that are not words.
PartOfSpeech = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "SCONJ", "VERB"
]


@dataclass(frozen=True)
class MaskedSection:
    """A masked language model that proposes replacements for each word of a caption (SVLC's L).

    `bare`: also store its word for a mask without a text, used for captions without a word of some kind (CE-CLIP's
    program). `dense`: also propose words for the texts of `texts.dense` (DAC's).
    """

    model: RequiredText = ""  # a folder with config.json, weights and tokenizer, as `hf download` makes it
    # how many of the likeliest words are stored; among these, the caption's own word and non-words are left out
    top: Annotated[int, Field(ge=1, le=100)] = 5
    rank: Annotated[int, Field(ge=0, le=100)] = 0  # store only the word of this rank (4: the fourth); 0: all of the top
    bare: bool = False
    dense: bool = False
    pos: Axis[PartOfSpeech] = field(default_factory=lambda: ["NOUN", "ADP", "ADJ", "VERB"])

    def __post_init__(self) -> None:
        if self.rank > self.top:
            raise UserError(f"rank={self.rank}: is not among the top {self.top}; raise top")


def captions_config(data: Data, where: str = "captions") -> Captions | None:
    """Return the released list that replaces a data set's captions; None if it has none."""
    return load_section(Captions, data.captions, where) if data.captions else None


TextSection = Texts | MemberText | BalancedTexts


def texts_config(data: Data, where: str = "texts") -> dict[str, TextSection]:
    """Return the sections of a data set's further texts, by kind: lists, members of tars, or balanced negatives.

    Raises UserError for an unknown kind.
    """
    for kind in data.texts:
        if kind not in TEXT_KINDS:
            raise unknown("kind of texts", kind, TEXT_KINDS, where)
    sections: dict[str, TextSection] = {}
    for kind in filter(data.texts.__contains__, TEXT_KINDS):
        raw = mapping(data.texts[kind], f"{where}.{kind}")
        where_kind = f"{where}.{kind}"
        sections[kind] = load_section(_declared_class(raw, kind), raw, where_kind)
    return sections


def _declared_class(raw: Mapping[str, Any], kind: str) -> type[TextSection]:
    if "balance" in raw and kind == NEGATIVE:
        return BalancedTexts
    return MemberText if "member" in raw else Texts


def negative_images_config(data: Data, where: str = "negative_images") -> NegativeImages | None:
    """Return the section of a data set's negative images; None if it has none."""
    return load_section(NegativeImages, data.negative_images, where) if data.negative_images else None


def regions_config(data: Data, where: str = "regions") -> Regions | None:
    """Return the section of a data set's regions; None if it has none."""
    return load_section(Regions, data.regions, where) if data.regions else None


def masked_config(data: Data, where: str = "masked") -> MaskedSection | None:
    """Return the section of a data set's masked language model; None if it has none.

    Raises UserError if it has `dense: true`, but the data set has no dense texts.
    """
    section = load_section(MaskedSection, data.masked, where) if data.masked else None
    if section and section.dense and DENSE not in data.texts:
        raise UserError(f"{where}.dense: the data has no texts.dense; add them, or set it to false")
    return section


def rewrites_config(data: Data, where: str = "rewrites") -> ReleasedRewrites | None:
    """Return the section of released hard positives; None without. Raises UserError if there is a rewriter too."""
    if data.rewrites and data.rewriter:
        raise UserError(f"{where}: is given together with a rewriter; remove one of them")
    return load_section(ReleasedRewrites, data.rewrites, where) if data.rewrites else None


def tar_members(data: Data) -> list[str]:
    """Return the extensions of the further files of a sample's tar whose positions are recorded."""
    members = [*data.members, data.negative_images.get("member")]
    for section in data.texts.values():
        if isinstance(section, dict):
            members.append(section.get("member"))
    return list(dict.fromkeys(str(name).lower() for name in members if name))
