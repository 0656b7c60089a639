"""Bi-gram shuffle."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import shuffle
from compclip.text.annotation import Annotation
from tests.text.conftest import outcomes
from tests.text.strategies import annotations

ORDERS = "A boy apple{0} eats an{1}/eats an A boy apple{0}{1}/eats an apple{0} A boy{1}"
ORDERS += "/apple{0} A boy eats an{1}/apple{0} eats an A boy{1}"


@pytest.mark.parametrize(("rule", "text", "orders"), [
    (shuffle.bigram, "A boy eats an apple.", ORDERS.format("", ".")),
    (shuffle.tokens, "A boy eats an apple.", ORDERS.format(".", "")),  # the mark is wherever its pair is
    (shuffle.bigram, "A dog runs fast !", "runs fast A dog !"),  # its white space stays
])  # fmt: skip
def test_all_orders_of_the_pairs(annotated, rule, text, orders):
    """Of words, and of the parser's tokens; a single pair is not shuffled."""
    annotation = annotated[text] if "fast" not in text else Annotation(text, sentences=((0, len(text)),))
    assert outcomes(rule, annotation) == set(orders.split("/"))
    assert outcomes(shuffle.tokens, annotated["The dog."], tries=9) == {None}
    assert outcomes(shuffle.tokens, annotated[""], tries=9) == {None}


def test_sentences_stay_apart(annotated):
    """A last mark without a partner goes to a pair: before the first, between two, or to the end."""
    text = "A wet street. Cars pass slowly. A red bus stops quickly."
    for output in outcomes(shuffle.bigram, annotated[text], tries=50):
        sentence_words = [sorted(sentence.lower().strip(".").split()) for sentence in output.split(". ")]
        assert sentence_words == [sorted(sentence.lower().strip(".").split()) for sentence in text.split(". ")]
    output = outcomes(shuffle.tokens, annotated["Two dogs and three cats sleep."])
    order = "and three Two dogs cats sleep"
    assert {f"{order}.", "and three. Two dogs cats sleep", f". {order}"} <= output
    assert {" ".join(sorted(text.replace(".", " .").split())) for text in output} == {". Two and cats dogs sleep three"}
    assert not any(text.strip(".") == "Two dogs and three cats sleep" for text in output)


@pytest.mark.parametrize("rule", [shuffle.bigram, shuffle.tokens])
@given(annotation=annotations(), seed=st.integers(0, 99))
def test_the_same_words_in_another_order(rule, annotation, seed):
    output = rule(annotation, np.random.default_rng(seed))
    if output is not None:
        words = [annotation.word(t) for t in range(len(annotation))]
        letters = "".join(words if rule is shuffle.tokens else annotation.text.split())
        assert Counter("".join(output.split())) == Counter(letters)
        assert output.split() != annotation.text.split()
