"""What a method asks for: views of each sample, and what training keeps beside the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.base.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from compclip.text.annotation import Annotation

# A rule makes a text of a caption, by a generator; None where it has nothing to say of this one.
Rule = Callable[["Annotation", "np.random.Generator"], "str | None"]
# A rule makes captions and the negative of a composite: given the sentences of its caption and of the partner's (None:
# a single picture), how many captions, a generator, whether a common noun made them partners, and `Views.ends`.
CompositeRule = Callable[
    ["tuple[Annotation, ...]", "tuple[Annotation, ...] | None", int, "np.random.Generator", bool, str],
    "tuple[list[str], str | None]",
]
# A rule draws pictures that are stored beside the sample, at most as many as it shows: each one's number and a text.
VariationRule = Callable[["Annotation", "np.random.Generator"], "Sequence[tuple[int, str]]"]
# A rule makes a text that is true of the picture and its foil, which differs in a detail; None where it has neither.
PairRule = Callable[["Annotation", "np.random.Generator"], "tuple[str, str] | None"]
# A rule draws texts that are true of the picture, and texts that are not, together, so that none stands twice.
GroupRule = Callable[["Annotation", "np.random.Generator"], "tuple[Sequence[str], Sequence[str]]"]
STORED_NEIGHBOURS = 10  # of each picture, that the stage `neighbours` writes


@dataclass(frozen=True)
class Views:
    """What one step needs of every sample; a field left at its default asks for nothing.

    A text that a rule cannot make is masked, and so is a negative that the model reads as the caption or a positive.
    """

    negatives: tuple[Rule, ...] = ()  # one wrong text each
    positives: tuple[Rule, ...] = ()  # one text each that says what the caption says
    pairs: tuple[PairRule, ...] = ()  # a true text each, behind the positives, and its foil, behind the negatives
    group: GroupRule | None = None  # draws the next ones together, behind those of pairs, fewer where there are no more
    group_positives: int = 0
    group_negatives: int = 0
    caption: str = "first"  # the caption's first sentence of 4 to 34 words; "full": the whole caption
    lowercase: bool = False  # of all texts
    composite: int = 0  # positive captions p1, p2, … of a CLIC composite, whose negative swaps words; 0: no composite
    compose: CompositeRule | None = None  # writes them: text.composite_captions.compose
    # Of a composite: "random", "common_noun" (CLIC B.4), or "" for a single picture: then p2 = p1, and the negative
    # exchanges words of its first sentence (CLIC B1-B4).
    partner: str = "random"
    concepts: str = ""  # "pooled": spans of the caption; "encoded": texts of their own
    whole_concept: bool = False  # a caption without concepts is one itself
    ends: str = "kept"  # full stops of sentences; "clic", as CLIC's released code: none alone, each in a composite
    statistics: str = ""  # "imagenet": pictures are normalised by ImageNet's mean and deviation, not the backbone's
    tokens: bool = False  # patches and text tokens too
    raw_captions: bool = False  # captions before the text projection too
    # On several processes each has those of its own samples alone, and the loss takes them by `train.own_rows`.
    own_tokens: bool = False
    alternatives: int = 0  # other captions of the picture, or stored paraphrases, as further positives
    target: str = ""  # a caption that is read, not encoded: tokenised as the model's ("own"), or by that of a folder
    same_target: bool = False  # the caption that is encoded is read, not any of the picture's
    neighbours: int = 0  # further rows of the batch: pictures near to the sample's, with texts of their own (NegCLIP)
    nearest: int = 3  # so many nearest pictures the neighbours are drawn from
    negative_images: int = 0  # pictures stored with the sample, shown as its negatives: the first so many, or
    variations: VariationRule | None = None  # those that this draws, whose texts stand behind all other negatives
    squash: bool = False  # a whole picture is scaled to the model's square, whatever `train.augment` says
    regions: int = 0  # boxes in the picture, drawn of those stored with it, each with one of its captions
    region_negatives: int = 0  # false texts of each region, behind its first caption, of which they are false
    region_crops: float = 0.0  # each region is shown as a picture too, its sides so many times as long; 0: is not
    unit_patches: bool = False  # regions are means of unit vectors, not of raw ones
    bag: int = 0  # texts drawn with replacement of the caption and its dense texts (DAC), behind the other positives
    bag_rule: Rule | None = None  # makes a negative of each text of the bag, behind those of rules and pairs

    def __post_init__(self) -> None:
        """Refuse composites without the rule that writes them, and regions in one."""
        if self.composite and self.compose is None:
            raise UserError(f"composite={self.composite}: needs a rule; give compose=composite_captions.compose")
        if self.composite and self.regions:
            raise UserError(f"composite={self.composite}: has no regions; give regions=0")

    @property
    def negative_texts(self) -> int:
        """How many negative texts a sample has, those counted that its rules cannot make."""
        of_bag = self.bag if self.bag_rule else 0
        of_variations = self.negative_images if self.variations else 0
        of_rules = len(self.negatives) + len(self.pairs) + self.group_negatives
        return of_rules + of_bag + of_variations + (1 if self.composite else 0)

    @property
    def positive_texts(self) -> int:
        """How many true texts a sample has beside its caption, those counted that its rules cannot make."""
        of_rules = len(self.positives) + len(self.pairs) + self.group_positives
        return of_rules + self.alternatives + self.bag + max(0, self.composite - 1)

    @property
    def region_texts(self) -> int:
        """How many texts a region has: a caption, and where asked for the first one with its false texts."""
        return 2 + self.region_negatives if self.region_negatives else 1


@dataclass(frozen=True)
class Teacher:
    """A copy of the towers that is not trained: after each step it is `decay` of itself and the rest of the model.

    1 is a frozen teacher: the backbone as it was.
    """

    decay: float = 1.0


@dataclass(frozen=True)
class Widths:
    """What heads are built for: the joint space's D, how many positions a text has, and how many words there are.

    `image_token`: numbers of an image token before its projection; 0 where the tower is not open_clip's own ViT.
    `raw_text`: numbers of a text before its projection (`towers.find_text_matrix`).
    """

    joint: int
    context: int
    vocabulary: int
    image_token: int = 0
    raw_text: int = 0


@dataclass(frozen=True)
class Phase:
    """What a step does beside its loss: parts that start anew before it, parts that it leaves as they are.

    A part is "text", the tower, or the beginning of heads' names, as "heads.text_query".
    """

    restarted: tuple[str, ...] = ()
    start: str = "drawn"  # how they start: "drawn", as layers are before any training; "first", as this run began
    frozen: tuple[str, ...] = ()  # parts of the heads
    rate: float = 1.0  # factor of the learning rate

    def __post_init__(self) -> None:
        """Refuse a tower that stands still: that is `train.trainable`."""
        if not all(part.startswith("heads.") for part in self.frozen):
            raise UserError(f"frozen={self.frozen}: only parts of heads stand still; towers by train.trainable")


PLAIN = Phase()


class Step(int):
    """An optimiser step, counted from 0 over the whole run; `in_epoch` counts from 0 in each epoch."""

    in_epoch: int

    def __new__(cls, number: int, per_epoch: int) -> Step:
        """Return step `number` of a run with `per_epoch` steps in each epoch."""
        step = super().__new__(cls, number)
        step.in_epoch = number % per_epoch
        return step


def step_in_epoch(step: int) -> int:
    """Return the number of a step in its epoch; a plain number, which has no epochs, stands for itself."""
    return step.in_epoch if isinstance(step, Step) else step
