"""What holds of every rule that makes one text, whatever a parser may say: another text or none, and the same again."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import masked_words, negate, positives, replace, shuffle, swap, wordlists
from compclip.text.annotation import NO_WORDS
from tests.text.strategies import annotations

RULES: dict[str, Callable] = {
    **{name: getattr(negate, name) for name in ("crepe", "conclip", "crepe_released", "conclip_released")},
    **{name: getattr(swap, name) for name in ("negclip", "single", "atoms", "nouns")},
    "lists": wordlists.default_lists().rule, "clove": replace.clove, "masked": masked_words.any_word,
    "positive_swap": positives.swap, "positive_replace": positives.replace,
    "bigram": shuffle.bigram, "tokens": shuffle.tokens,
}  # fmt: skip
RELATIVES = st.sampled_from([NO_WORDS, (("fox",), (2,)), (("sea lion", "hen"), (1, 3))])
WORDS = st.lists(st.sampled_from(["fox", "Dog", "sea lion", "in"]), max_size=2).map(tuple)


@pytest.mark.parametrize("name", RULES)
@given(annotation=annotations(), seed=st.integers(0, 99), data=st.data())
def test_another_text_or_none(name, annotation, seed, data):
    count = len(annotation)
    relatives = tuple(data.draw(st.lists(RELATIVES, min_size=count, max_size=count)))
    words = tuple(data.draw(st.lists(WORDS, min_size=count, max_size=count)))
    full = dataclasses.replace(annotation, relatives=relatives, masked=words)
    output = RULES[name](full, np.random.default_rng(seed))
    assert output is None or output.casefold() != annotation.text.casefold()
    assert output == RULES[name](full, np.random.default_rng(seed))
