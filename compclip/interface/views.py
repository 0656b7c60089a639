"""What a method asks for: views of each sample, and what training keeps beside the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.text.rule_columns import list_columns
from compclip.text.text_groups import Rule, TextGroup, draw_nothing

if TYPE_CHECKING:
    import numpy as np

    from compclip.text.annotation import Annotation

# A rule makes captions and the negative of a composite: given the sentences of its caption and of the partner's (None:
# a single picture), how many captions, a generator, whether a common noun made them partners, and `Views.ends`.
CompositeRule = Callable[
    ["tuple[Annotation, ...]", "tuple[Annotation, ...] | None", int, "np.random.Generator", bool, str],
    "tuple[list[str], str | None]",
]
STORED_NEIGHBOURS = 10  # of each picture, that the stage `neighbours` writes
# Columns of a prepared data set, as `data.column_hashes` names them: pictures, and what every method reads of a sample.
PICTURE_COLUMNS = ("pictures",)
SAMPLE_COLUMNS = ("id", *PICTURE_COLUMNS, "captions", "text")


@dataclass(frozen=True)
class Composite:
    """Two pictures in one (CLIC): how many captions p1, p2, … say what is in it, and the rule that writes them.

    `partner`: "random", "common_noun" (CLIC B.4), or "" for a single picture: then p2 = p1, and the negative exchanges
    words of its first sentence (CLIC B1-B4).
    """

    captions: int
    write: CompositeRule  # text.composite_captions.compose
    partner: str = "random"


@dataclass(frozen=True)
class Target:
    """A caption that is read, not encoded: tokenised as the model's ("own"), or by the tokenizer of a folder."""

    tokenizer: str = "own"
    is_shown: bool = False  # the caption that is encoded, not any of the picture's


@dataclass(frozen=True)
class Regions:
    """Boxes in a picture, drawn of those stored with it, each with one of its captions."""

    count: int
    negatives: int = 0  # false texts of each, behind its first caption, of which they are false
    crops: float = 0.0  # each is shown as a picture too, its sides so many times as long; 0: is not
    unit_patches: bool = False  # vectors are means of unit vectors, not of raw ones

    @property
    def texts(self) -> int:
        """How many texts a region has: a caption, and where asked for the first one with its false texts."""
        return 2 + self.negatives if self.negatives else 1


@dataclass(frozen=True)
class Views:
    """What one step needs of every sample; a field left at its default asks for nothing.

    A text that a rule cannot make is masked, and so is a negative that the model reads as the caption or a positive.
    """

    negatives: tuple[Rule, ...] = ()  # one wrong text each
    positives: tuple[Rule, ...] = ()  # one text each that says what the caption says
    groups: tuple[TextGroup, ...] = ()  # texts that belong together
    caption: str = "first"  # the caption's first sentence of 4 to 34 words; "full": the whole caption
    lowercase: bool = False  # of all texts
    composite: Composite | None = None  # in place of a picture, a caption and its rules
    concepts: str = ""  # "pooled": spans of the caption; "encoded": texts of their own
    whole_concept: bool = False  # a caption without concepts is one itself
    ends: str = "kept"  # full stops of sentences; "clic", as CLIC's released code: none alone, each in a composite
    statistics: str = ""  # "imagenet": pictures are normalised by ImageNet's mean and deviation, not the backbone's
    tokens: bool = False  # patches and text tokens too
    raw_captions: bool = False  # captions before the text projection too
    # On several processes each has those of its own samples alone, and the loss takes them by `train.own_rows`.
    own_tokens: bool = False
    target: Target | None = None
    neighbours: int = 0  # further rows of the batch: pictures near to the sample's, with texts of their own (NegCLIP)
    nearest: int = 3  # so many nearest pictures the neighbours are drawn from
    negative_images: int = 0  # pictures stored with the sample, shown as its negatives: the first, or those of a group
    squash: bool = False  # a whole picture is scaled to the model's square, whatever `train.augment` says
    regions: Regions | None = None

    def __post_init__(self) -> None:
        """Refuse regions in a composite."""
        if self.composite and self.regions:
            raise UserError("composite: has no regions; give regions=None")

    @property
    def negative_texts(self) -> int:
        """How many negative texts a sample has, those counted that its rules cannot make."""
        return len(self.negatives) + sum(group.false for group in self.groups) + (1 if self.composite else 0)

    @property
    def positive_texts(self) -> int:
        """How many true texts a sample has beside its caption, those counted that its rules cannot make."""
        of_composite = self.composite.captions - 1 if self.composite else 0
        return len(self.positives) + sum(group.true for group in self.groups) + of_composite

    @property
    def named_texts(self) -> dict[str, int]:
        """How many texts a sample has in each group's block of its own."""
        return {group.name: group.named for group in self.groups if group.named}

    @property
    def rules(self) -> list[Callable[..., Any]]:
        """The rules that make texts."""
        composite_rules = [self.composite.write] if self.composite else []
        return [*self.negatives, *self.positives, *(group.draw for group in self.groups), *composite_rules]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of a prepared data set that are read; EVERY among them where a rule does not say its own."""
        return frozenset().union(SAMPLE_COLUMNS, self._list_own_columns(), *map(list_columns, self.rules))

    def _list_own_columns(self) -> Iterator[str]:
        """Yield the columns that the fields themselves ask for."""
        if self.caption != "full" or self.composite:
            yield "sentences"
        if self.composite and self.composite.partner:
            yield from ("width", "height", "nouns")
        if self.concepts:
            yield from ("tokens", "chunks")
        if self.negative_images:
            yield "negative_pictures"
        if self.regions:
            yield "regions"

    def work_kind(self) -> tuple[int, int, Views]:
        """Return what decides a step's work: how many rules there are, not which, as these may be new in every step."""
        groups = tuple(TextGroup(group.name, draw_nothing, named=group.named) for group in self.groups if group.named)
        bare = replace(self, negatives=(), positives=(), groups=groups)
        return self.negative_texts, self.positive_texts, bare


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
