"""Negatives by kinds of words (CE-CLIP, AHNPL): nouns exchanged, and an adjective, a noun and a verb replaced."""

from __future__ import annotations

from compclip.text import masked_words, replace, swap
from compclip.text.text_groups import Rule

KINDS = ("ADJ", "NOUN", "VERB")
RULES: dict[str, tuple[Rule, ...]] = {
    "masked": (swap.nouns, *(masked_words.of_pos(pos) for pos in KINDS)),  # a masked language model's words
    "masked_released": (swap.nouns_released, *(masked_words.of_pos_released(pos) for pos in KINDS)),  # as CE-CLIP drew
    "wordnet": (swap.nouns, *(replace.of_pos(pos) for pos in KINDS)),  # stored candidates
}
