"""Texts that one rule draws together for a sample: a pair, a group, a bag, whatever a method asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from compclip.text.rule_columns import reads_columns

if TYPE_CHECKING:
    import numpy as np

    from compclip.text.annotation import Annotation

# A rule makes a text of a caption, by a generator; None where it has nothing to say of this one.
Rule = Callable[["Annotation", "np.random.Generator"], "str | None"]
# A rule makes a text that is true of the picture and its foil, which differs in a detail; None where it has neither.
PairRule = Callable[["Annotation", "np.random.Generator"], "tuple[str, str] | None"]


@dataclass(frozen=True)
class SampleTexts:
    """What the rule of a group reads of a sample: the caption that is shown, and on demand all of the picture's."""

    caption: Annotation
    read_captions: Callable[[], Sequence[Annotation]]


@dataclass(frozen=True)
class DrawnTexts:
    """What the rule of a group drew, fewer where there are no more; None where it has no text for a place.

    `redraws`: what draws a false text anew that the model reads as a true one, in the order of `false`; one without is
    masked. `pictures`: numbers of pictures stored with the sample, to be shown in place of the first ones.
    """

    true: Sequence[str | None] = ()
    false: Sequence[str | None] = ()
    named: Sequence[str | None] = ()
    redraws: Sequence[Callable[[np.random.Generator], str | None]] = ()
    pictures: Sequence[int] | None = None


GroupRule = Callable[[SampleTexts, "np.random.Generator"], DrawnTexts]


@dataclass(frozen=True)
class TextGroup:
    """Texts that one rule draws together: so many true and false ones, and others in a block of the group's name.

    True ones stand behind the positives, false ones behind the negatives, group by group, under the group's name in the
    shares of samples (`train.view_shares`); the loss finds the others as `f.named[name]`.
    """

    name: str
    draw: GroupRule
    true: int = 0
    false: int = 0
    named: int = 0
    stream: int = 0  # of the sample's randomness, whose draws change those of no other group; 0: the rules' own
    is_pair: bool = False  # its false text is the foil of its true one


def pair(name: str, rule: PairRule) -> TextGroup:
    """Return the group of a true text and its foil."""

    return TextGroup(name, partial(_draw_pair, rule), true=1, false=1, is_pair=True)


@reads_columns()
def _draw_pair(rule: PairRule, sample: SampleTexts, rng: np.random.Generator) -> DrawnTexts:
    true_text, foil = rule(sample.caption, rng) or (None, None)
    return DrawnTexts((true_text,), (foil,))


@reads_columns()
def draw_nothing(_sample: SampleTexts, _rng: np.random.Generator) -> DrawnTexts:
    """Draw no text at all: the rule of a group that is counted and not made."""
    return DrawnTexts()
