"""Make one negative of each kind (CE-CLIP, AHNPL): nouns exchanged, or an adjective, a noun or a verb replaced."""

from __future__ import annotations

from dataclasses import dataclass

from compclip.methods import _check
from compclip.text import masked_words, replace, swap
from compclip.text.text_groups import Rule

KINDS = ("ADJ", "NOUN", "VERB")
RULES: dict[str, tuple[Rule, ...]] = {
    "masked": (swap.nouns, *(masked_words.of_pos(pos) for pos in KINDS)),  # a masked language model's words
    "masked_released": (swap.nouns_released, *(masked_words.of_pos_released(pos) for pos in KINDS)),  # as CE-CLIP drew
    "wordnet": (swap.nouns, *(replace.of_pos(pos) for pos in KINDS)),  # stored candidates
}


@dataclass(frozen=True)
class KindsConfig(_check.CaptionConfig):
    """Of a method with these negatives."""

    words: str = "masked"  # of data.<name>.masked; "masked_released": drawn as released; "wordnet": stored candidates

    def __post_init__(self) -> None:
        """Check the words. Raises UserError."""
        _check.one_of(self, words=RULES)
