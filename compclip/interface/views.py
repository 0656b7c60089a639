"""Define what a method asks for: the views of each sample, and what training keeps besides the model."""

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

# A rule that writes the captions and the negative of a composite. Its arguments: the sentences of its caption, those of
# the partner's (None: a single picture), how many captions, a generator, whether the partner was chosen by a common
# noun, and `Views.ends`.
CompositeRule = Callable[
    ["tuple[Annotation, ...]", "tuple[Annotation, ...] | None", int, "np.random.Generator", bool, str],
    "tuple[list[str], str | None]",
]
STORED_NEIGHBOURS = 10  # nearest pictures of each picture that the stage `neighbours` stores
# Columns of a prepared data set, named as in `data.column_hashes`: the pictures, and all that every method reads.
PICTURE_COLUMNS = ("pictures",)
SAMPLE_COLUMNS = ("id", *PICTURE_COLUMNS, "captions", "text")


@dataclass(frozen=True)
class Composite:
    """Two pictures joined to one (CLIC): the number of its captions p1, p2, …, and the rule that writes them.

    `partner`: "random", "common_noun" (CLIC B.4), or "" for a single picture. Then p2 = p1, and the negative exchanges
    words of its first sentence (CLIC B1-B4).
    """

    captions: int
    write: CompositeRule  # text.composite_captions.compose
    partner: str = "random"


@dataclass(frozen=True)
class Target:
    """A caption to predict, as token ids: of the model's tokenizer ("own"), or of a tokenizer in a folder."""

    tokenizer: str = "own"
    is_shown: bool = False  # true: the caption that is also encoded; false: any caption of the picture


@dataclass(frozen=True)
class Regions:
    """Boxes in a picture, drawn from those stored with it, each with one of its captions."""

    count: int
    negatives: int = 0  # false texts of each box; they come after its first caption, which they contradict
    crops: float = 0.0  # show each box as a picture too, with sides so many times as long; 0: do not
    unit_patches: bool = False  # pool patches after normalising each to a unit vector

    @property
    def texts(self) -> int:
        """The number of texts of a region: a caption and, if asked for, the first caption with its false texts."""
        return 2 + self.negatives if self.negatives else 1


@dataclass(frozen=True)
class Views:
    """What one step needs for every sample; a field at its default asks for nothing.

    A text is masked if its rule cannot make it. A negative is also masked if the model reads it as equal to the caption
    or to a positive.
    """

    negatives: tuple[Rule, ...] = ()  # each makes one false text
    positives: tuple[Rule, ...] = ()  # each makes one text with the meaning of the caption
    groups: tuple[TextGroup, ...] = ()  # each makes several texts that belong together
    caption: str = "first"  # the caption's first sentence of 4 to 34 words; "full": the whole caption
    lowercase: bool = False  # convert all texts to lower case
    composite: Composite | None = None  # used instead of a picture, its caption and the rules
    concepts: str = ""  # "pooled": spans of the caption; "encoded": separate texts
    whole_concept: bool = False  # a caption without concepts counts as one concept
    ends: str = "kept"  # full stops; "clic", as in CLIC's released code: none after one sentence, each in a composite
    statistics: str = ""  # "imagenet": normalise pictures by ImageNet's mean and deviation, not by the backbone's
    tokens: bool = False  # also patches and text tokens
    raw_captions: bool = False  # also captions before the text projection
    # With several processes, keep only patches and tokens of the process's own samples; a loss uses `train.own_rows`.
    own_tokens: bool = False
    target: Target | None = None
    neighbours: int = 0  # further rows of the batch: pictures similar to the sample's, with their own texts (NegCLIP)
    nearest: int = 3  # neighbours are drawn from so many nearest pictures
    negative_images: int = 0  # pictures stored with the sample, shown as negatives: the first, or those a group chose
    squash: bool = False  # scale the whole picture to the model's square input, whatever `train.augment` says
    regions: Regions | None = None

    def __post_init__(self) -> None:
        """Raise UserError for regions in a composite."""
        if self.composite and self.regions:
            raise UserError("composite: cannot have regions; give regions=None")

    @property
    def negative_texts(self) -> int:
        """The number of negative texts of a sample, including those that a rule cannot make."""
        return len(self.negatives) + sum(group.false for group in self.groups) + (1 if self.composite else 0)

    @property
    def positive_texts(self) -> int:
        """The number of true texts of a sample besides its caption, including those that a rule cannot make."""
        of_composite = self.composite.captions - 1 if self.composite else 0
        return len(self.positives) + sum(group.true for group in self.groups) + of_composite

    @property
    def named_texts(self) -> dict[str, int]:
        """The number of texts of a sample under the name of each group."""
        return {group.name: group.named for group in self.groups if group.named}

    @property
    def rules(self) -> list[Callable[..., Any]]:
        """The rules that make texts."""
        composite_rules = [self.composite.write] if self.composite else []
        return [*self.negatives, *self.positives, *(group.draw for group in self.groups), *composite_rules]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of a prepared data set that are read; includes EVERY if a rule does not declare its columns."""
        return frozenset().union(SAMPLE_COLUMNS, self._list_own_columns(), *map(list_columns, self.rules))

    def _list_own_columns(self) -> Iterator[str]:
        """Yield the columns that fields other than rules need."""
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
        """Return what a step's work depends on; of the rules it is only their number, as each step may have others."""
        groups = tuple(TextGroup(group.name, draw_nothing, named=group.named) for group in self.groups if group.named)
        bare = replace(self, negatives=(), positives=(), groups=groups)
        return self.negative_texts, self.positive_texts, bare


@dataclass(frozen=True)
class Teacher:
    """A copy of the towers that is not trained: after each step, `decay` times itself plus the rest times the model.

    A decay of 1 gives a frozen teacher, the backbone as it was.
    """

    decay: float = 1.0


@dataclass(frozen=True)
class Widths:
    """Sizes of the model that heads are built for: joint space, positions of a text, and vocabulary.

    `image_token`: width of an image token before its projection; 0 if the tower is not open_clip's own ViT.
    `raw_text`: width of a text before its projection (`towers.find_text_matrix`).
    """

    joint: int
    context: int
    vocabulary: int
    image_token: int = 0
    raw_text: int = 0


@dataclass(frozen=True)
class Phase:
    """What happens in a step besides its loss: parts that are reset before it, and parts that it does not change.

    A part is "text" for the text tower, or a prefix of names in the heads, such as "heads.text_query".
    """

    restarted: tuple[str, ...] = ()
    start: str = "drawn"  # values after a reset; "drawn": newly initialised; "first": those at the start of the run
    frozen: tuple[str, ...] = ()  # parts of the heads
    rate: float = 1.0  # factor of the learning rate

    def __post_init__(self) -> None:
        """Raise UserError for a frozen tower, for which there is `train.trainable`."""
        if not all(part.startswith("heads.") for part in self.frozen):
            raise UserError(f"frozen={self.frozen}: only parts of heads can be frozen; set train.trainable for towers")


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
    """Return the number of a step in its epoch; a plain integer, which knows no epochs, is returned as it is."""
    return step.in_epoch if isinstance(step, Step) else step
