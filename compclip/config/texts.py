"""What stands beside captions: released `texts` of a data set, and the words of a `masked` language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from omegaconf import MISSING

from compclip.base.errors import UserError, unknown
from compclip.config.captions import KEYS, Captions

TEXT_KINDS = ("negative", "paraphrase", "dense")
BY_CAPTION = "caption"  # joined to a caption by the text of it, and not to a picture
# The parts of speech of Universal Dependencies that words have.
PARTS = ("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "SCONJ", "VERB")
MOST = 100  # words that are asked for at a place


@dataclass(frozen=True)
class Texts(Captions):
    """A list of texts of one kind, in the form of a list of captions; they stand beside captions, and replace none."""

    JOINS: ClassVar[Mapping[str, tuple[str, ...]]] = KEYS | {BY_CAPTION: ("caption", "title", "text")}
    SECTION: ClassVar[str] = "texts"


@dataclass(frozen=True)
class MemberText:
    """A text of one kind in a file of each sample's tar, as TripletData has its negatives: 7.neg_caption."""

    member: str  # its ending


@dataclass(frozen=True)
class Masked:
    """The words that a masked language model puts in the place of each word of a caption (SVLC's L)."""

    model: str = MISSING  # a folder with config.json, weights and tokenizer, as `hf download` makes it
    top: int = 5  # the likeliest words of a place; of these, the caption's own and what is no word are left out
    pos: list[str] = field(default_factory=lambda: ["NOUN", "ADP", "ADJ", "VERB"])

    def __post_init__(self) -> None:
        if not 1 <= self.top <= MOST:
            raise UserError(f"top={self.top}: must be from 1 to {MOST}")
        if not self.pos or len(set(self.pos)) < len(self.pos):
            raise UserError(f"pos={self.pos}: must name parts of speech, each once")
        for pos in self.pos:
            if pos not in PARTS:
                raise unknown("part of speech", pos, PARTS, "pos")
