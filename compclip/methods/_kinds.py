"""Make one negative of each kind (CE-CLIP, AHNPL): nouns exchanged, or an adjective, a noun or a verb replaced."""

from __future__ import annotations

from dataclasses import dataclass

from compclip.methods import _check
from compclip.text import masked_words, replace, swap
from compclip.text.text_groups import Rule

KINDS = ("ADJ", "NOUN", "VERB")
RULES: dict[str, tuple[Rule, ...]] = {
    "masked": (swap.nouns, *(masked_words.of_pos(pos) for pos in KINDS)),  # words of a masked language model
    "masked_released": (swap.nouns_released, *(masked_words.of_pos_released(pos) for pos in KINDS)),  # as CE-CLIP draws
    "wordnet": (swap.nouns, *(replace.of_pos(pos) for pos in KINDS)),  # WordNet's words, stored with the data
}


@dataclass(frozen=True)
class KindsConfig(_check.CaptionConfig):
    """Parameters of a method with these negatives."""

    words: str = "masked"  # a key of RULES; both kinds of masked words need data.<name>.masked

    def __post_init__(self) -> None:
        """Raise UserError for an unknown kind of words."""
        _check.one_of(self, words=RULES)
