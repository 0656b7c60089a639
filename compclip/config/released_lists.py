"""Lists and models that a data set names beside its captions: sections of `data.<name>` in params.yaml.

`captions` and `texts` are lists of texts that others released (or negatives that rules make, balanced),
`negative_images` lists of pictures, `regions` boxes in pictures, `rewrites` files of hard positives, `masked` a masked
language model.
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

# By what a list is joined, and the names under which authors have it: PixelProse, LAION, Conceptual Captions, DreamLIP.
KEYS = {
    "url": ("url", "URL", "image_url", "Image Path", "Image Url"),
    "key": ("key",),
    "image": ("image", "image_path", "file_name", "filename", "filepath"),
}
BY_CAPTION = "caption"  # joined to a caption by its text, and not to a picture
FROM = re.compile(r"[1-9][0-9]*-")  # a column of a list without header, and all behind it
NUMBER = re.compile(r"[1-9][0-9]*-?")
NEGATIVE = "negative"
DENSE = "dense"
VARIATION = "variation"
TEXT_KINDS = (NEGATIVE, "paraphrase", "absent", DENSE, VARIATION)


def _as_text(value: Any) -> Any:
    """Return the number of a column as a text."""
    return str(value) if type(value) is int else value


# One column, by its name or number; or several, of which a single one needs no list.
Column = Annotated[str, BeforeValidator(_as_text)]
Columns = Annotated[
    list[Column], BeforeValidator(lambda value: value if isinstance(value, list) else [value] if value else [])
]


@dataclass(frozen=True)
class JoinedList:
    """A list, and how it is joined to pictures."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS

    # csv, tsv, jsonl, parquet, or a folder of one of them; captions also of <key>.txt or <key>.json
    file: RequiredText = ""
    on: RequiredText = ""  # url, key (img2dataset's, the picture's name without its ending), image (the picture's name)
    key_column: Column = ""  # default: the first of KEYS[on] that the list has

    def __post_init__(self) -> None:
        """Check by what it is joined. Raises UserError."""
        if self.on not in self.JOINS:
            raise unknown("on", self.on, self.JOINS, "on")


@dataclass(frozen=True)
class Captions(JoinedList):
    """A list of captions; `experiments/grids/README.md` has those we know of."""

    SECTION: ClassVar[str] = "captions"

    column: Columns = field(default_factory=list)  # one, or several whose texts are all captions of the picture
    header: bool = True  # csv and tsv; without one columns are called 1, 2, …, and `2-` is the second and all behind it
    sentences: bool = False  # whether the columns hold sentences of one caption
    lists: bool = False  # whether each text is a list of texts, as JSON or Python writes it
    skip: list[str] = field(default_factory=list)  # texts that stand for none, as "invalid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.header:
            return
        for name in (*self.column, *filter(None, [self.key_column])):
            if not NUMBER.fullmatch(name):
                raise UserError(f"column {name!r}: without a header columns are called 1, 2, …, or 2- for all behind")
        if not self.key_column or FROM.fullmatch(self.key_column):
            raise UserError(f"key_column={self.key_column!r}: must be the number of a column where there is no header")


@dataclass(frozen=True)
class Texts(Captions):
    """A list of texts of one kind, in the form of a list of captions; they stand beside captions, and replace none."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS | {BY_CAPTION: ("caption", "title", "text")}
    SECTION: ClassVar[str] = "texts"


@dataclass(frozen=True)
class MemberText:
    """A text of one kind in a file of each sample's tar, as TripletData has its negatives: 7.neg_caption."""

    member: str  # its ending


# Rules that make a negative of a caption alone.
BalancedRule = Literal[
    "negclip", "negclip_released", "clic", "nouns", "atoms", "negate", "conclip", "wordnet", "bigram", "tokens"
]


@dataclass(frozen=True)
class BalancedTexts:
    """Negatives that rules make of the captions, chosen so that no text tells them from captions (docs/regions.md)."""

    balance: Literal["blind"] = "blind"
    rules: Axis[BalancedRule] = field(default_factory=lambda: ["negclip"])
    caption: Literal["first", "full"] = "first"  # what a method shows: the first sentence, or the whole caption
    candidates: ClassVar[int] = 16  # that each rule draws of a caption
    seed: ClassVar[int] = 0


@dataclass(frozen=True)
class NegativeImages(Captions):
    """A list of pictures, in the form of a list of captions; or which member of a sample's tar is its picture.

    The texts of the list are the names of pictures below `images`.
    """

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS | {BY_CAPTION: ("caption",)}
    SECTION: ClassVar[str] = "negative_images"

    file: str = ""
    on: str = ""
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
        JoinedList.__post_init__(self)
        if not self.column or not self.images:
            raise UserError("column, images: must be given with a file: where pictures are named, and where they lie")
        if not self.key_column and not (self.header and self.on in KEYS):
            raise UserError(f"key_column: must be given with on={self.on}, header={str(self.header).lower()}")


@dataclass(frozen=True)
class Regions(JoinedList):
    """A list of boxes in pictures, with texts of their own: json, jsonl, parquet, or a folder of one of them.

    A row of the list is a picture whose regions are the list `column`, or without `column` a single region.
    """

    column: str = ""
    box: Columns = field(default_factory=lambda: ["box"])  # of a region: one field of four numbers, or four fields
    # fields, all of whose texts are its captions
    caption: Annotated[Columns, Field(min_length=1)] = field(default_factory=lambda: ["caption"])
    negatives: Columns = field(default_factory=list)  # fields of false texts, each one differing from the first caption
    form: Literal["corners", "size"] = "corners"  # left, upper, right, lower; size: left, upper, width, height
    unit: Literal["shares", "pixels"] = "shares"  # of the picture's width and height; pixels: of the picture as shown
    least_side: NonNegativeFloat = 0.0  # pixels: of a region with as large an area as a square of this side
    most_side: NonNegativeFloat = 0.0  # pixels, likewise; 0: any
    most: ClassVar[int] = 50  # of a picture, the first so many

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.box) not in (1, 4):
            raise UserError(f"box={self.box}: must name one field of four numbers, or four fields")


@dataclass(frozen=True)
class ReleasedRewrites:
    """Hard positives that others released, line by line for the captions of a COCO file: `data.<name>.rewrites`."""

    captions: RequiredText = ""  # captions_train2017.json: line n belongs to its n-th annotation
    swap: str = ""  # swap_hp.jsonl
    replace: str = ""  # replace_hp.jsonl

    def __post_init__(self) -> None:
        if not self.swap and not self.replace:
            raise UserError("swap: names no file, and neither does replace; give one of them")


# The parts of speech of Universal Dependencies that words have.
PartOfSpeech = Literal[
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "SCONJ", "VERB"
]


@dataclass(frozen=True)
class MaskedSection:
    """The words that a masked language model puts in the place of each word of a caption (SVLC's L).

    `bare`: also its word for a mask alone, which stands for a caption without a word of a kind (CE-CLIP's program).
    `dense`: also the words of the texts of `texts.dense` (DAC's).
    """

    model: RequiredText = ""  # a folder with config.json, weights and tokenizer, as `hf download` makes it
    # the likeliest words of a place; of these, the caption's own and what is no word are left out
    top: Annotated[int, Field(ge=1, le=100)] = 5
    rank: Annotated[int, Field(ge=0, le=100)] = 0  # the word of this rank alone: 4 is the fourth; 0: all of the top
    bare: bool = False
    dense: bool = False
    pos: Axis[PartOfSpeech] = field(default_factory=lambda: ["NOUN", "ADP", "ADJ", "VERB"])

    def __post_init__(self) -> None:
        if self.rank > self.top:
            raise UserError(f"rank={self.rank}: is not among the top {self.top}; raise top")


def captions_config(data: Data, where: str = "captions") -> Captions | None:
    """Return the released list that a data set takes its captions from; None where it names none."""
    return load_section(Captions, data.captions, where) if data.captions else None


TextSection = Texts | MemberText | BalancedTexts


def texts_config(data: Data, where: str = "texts") -> dict[str, TextSection]:
    """Return the texts that stand beside a data set's captions, by kind: lists, members of tars, or balanced negatives.

    Raises UserError for other kinds.
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
    """Return the negative images of a data set; None where it names none."""
    return load_section(NegativeImages, data.negative_images, where) if data.negative_images else None


def regions_config(data: Data, where: str = "regions") -> Regions | None:
    """Return the regions of a data set's pictures; None where it names none."""
    return load_section(Regions, data.regions, where) if data.regions else None


def masked_config(data: Data, where: str = "masked") -> MaskedSection | None:
    """Return the masked language model of a data set; None where it names none.

    Raises UserError where it is to fill dense texts, and there are none.
    """
    section = load_section(MaskedSection, data.masked, where) if data.masked else None
    if section and section.dense and DENSE not in data.texts:
        raise UserError(f"{where}.dense: the data has no texts.dense; add them, or set it to false")
    return section


def rewrites_config(data: Data, where: str = "rewrites") -> ReleasedRewrites | None:
    """Return the released hard positives of a data set; None without. Raises UserError beside a rewriter."""
    if data.rewrites and data.rewriter:
        raise UserError(f"{where}: is beside a rewriter; remove one of them")
    return load_section(ReleasedRewrites, data.rewrites, where) if data.rewrites else None


def tar_members(data: Data) -> list[str]:
    """Return which members of each sample's tar are noted beside its picture."""
    members = [*data.members, data.negative_images.get("member")]
    for section in data.texts.values():
        if isinstance(section, dict):
            members.append(section.get("member"))
    return list(dict.fromkeys(str(name).lower() for name in members if name))
