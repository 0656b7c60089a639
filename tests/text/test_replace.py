"""Replacement by stored candidates."""

import dataclasses

import numpy as np
import pytest

from compclip.text import replace
from tests.text.conftest import SENTENCES, outcomes


def test_all_candidates_and_no_other(annotated):
    """One noun with three candidates and one verb with one: half of the replacements are the verb's."""
    candidates = ((), ("fox", "wolf", "hen"), ("greets",), (), (), ())
    sentence = dataclasses.replace(annotated["The dog chases the cat."], candidates=candidates)
    output = [replace.wordnet(sentence, np.random.default_rng(seed)) for seed in range(400)]
    assert set(output) == {*(f"The {noun} chases the cat." for noun in candidates[1]), "The dog greets the cat."}
    assert 150 < sum("greets" in text for text in output) < 250


@pytest.mark.parametrize("text", [s for s in SENTENCES if s])
def test_one_word_changes_to_a_new_one(annotated, text):
    caption_words = {w.strip(".,").lower() for w in text.split()}
    for output in outcomes(replace.wordnet, annotated[text], tries=60) - {None}:
        before, after = text.split(), output.split()
        changed = [new for old, new in zip(before, after, strict=True) if old != new]
        assert len(changed) == 1
        assert changed[0].strip(".,").lower() not in caption_words
        assert output[0].isupper() == text[0].isupper()
