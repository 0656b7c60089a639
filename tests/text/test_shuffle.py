"""Bi-gram shuffle."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import shuffle
from compclip.text.annotation import Annotation
from tests.text.conftest import outcomes
from tests.text.strategies import annotations


def plain(text: str) -> Annotation:
    return Annotation(text, sentences=((0, len(text)),))


def test_all_orders_of_the_pairs(annotated):
    assert outcomes(shuffle.bigram, annotated["A boy eats an apple."]) == {
        "A boy apple eats an.",
        "eats an A boy apple.",
        "eats an apple A boy.",
        "apple A boy eats an.",
        "apple eats an A boy.",
    }


def test_final_punctuation_keeps_its_white_space():
    assert outcomes(shuffle.bigram, plain("A dog runs fast !")) == {"runs fast A dog !"}


def test_sentences_stay_apart(annotated):
    text = "A wet street. Cars pass slowly. A red bus stops quickly."
    for made in outcomes(shuffle.bigram, annotated[text], tries=50):
        parts = [sorted(part.lower().strip(".").split()) for part in made.split(". ")]
        assert parts == [sorted(part.lower().strip(".").split()) for part in text.split(". ")]


def test_none_where_no_order_differs():
    for text in ("", "A dog.", "dog dog dog dog", "dog"):
        assert outcomes(shuffle.bigram, plain(text), tries=10) == {None}, text


@given(annotations(), st.integers(0, 99))
def test_same_words_in_another_order(annotation, seed):
    made = shuffle.bigram(annotation, np.random.default_rng(seed))
    if made is not None:
        assert Counter("".join(made.split())) == Counter("".join(annotation.text.split()))
        assert made.split() != annotation.text.split()
