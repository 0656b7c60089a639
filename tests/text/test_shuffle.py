"""Bi-gram shuffle."""

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
    orders = "A boy apple eats an/eats an A boy apple/eats an apple A boy/apple A boy eats an/apple eats an A boy"
    expected = {f"{order}." for order in orders.split("/")}
    assert outcomes(shuffle.bigram, annotated["A boy eats an apple."]) == expected


def test_all_orders_of_the_parser_s_tokens(annotated):
    """Six tokens: "A boy", "eats an", "apple ." in five other orders, the mark wherever its pair is."""
    orders = "A boy apple. eats an/eats an A boy apple./eats an apple. A boy/apple. A boy eats an/apple. eats an A boy"
    assert outcomes(shuffle.tokens, annotated["A boy eats an apple."]) == set(orders.split("/"))


def test_a_last_mark_without_a_partner_goes_to_a_pair(annotated):
    """Six words in three pairs, and a full stop: before the first pair, between two, at the end."""
    output = outcomes(shuffle.tokens, annotated["Two dogs and three cats sleep."])
    order = "and three Two dogs cats sleep"
    assert {f"{order}.", "and three. Two dogs cats sleep", f". {order}"} <= output
    assert {" ".join(sorted(text.replace(".", " .").split())) for text in output} == {". Two and cats dogs sleep three"}
    assert not any(text.strip(".") == "Two dogs and three cats sleep" for text in output)


def test_no_single_pair_is_shuffled(annotated):
    assert outcomes(shuffle.tokens, annotated["The dog."], tries=9) == {None}
    assert outcomes(shuffle.tokens, annotated[""], tries=9) == {None}


@given(annotations(), st.integers(0, 99))
def test_the_same_tokens_in_another_order(annotation, seed):
    output = shuffle.tokens(annotation, np.random.default_rng(seed))
    if output is not None:
        assert Counter("".join(output.split())) == Counter("".join(annotation.word(t) for t in range(len(annotation))))
        assert output.split() != annotation.text.split()


def test_final_punctuation_keeps_its_white_space():
    assert outcomes(shuffle.bigram, plain("A dog runs fast !")) == {"runs fast A dog !"}


def test_sentences_stay_apart(annotated):
    text = "A wet street. Cars pass slowly. A red bus stops quickly."
    for output in outcomes(shuffle.bigram, annotated[text], tries=50):
        sentence_words = [sorted(sentence.lower().strip(".").split()) for sentence in output.split(". ")]
        assert sentence_words == [sorted(sentence.lower().strip(".").split()) for sentence in text.split(". ")]


@given(annotations(), st.integers(0, 99))
def test_same_words_in_another_order(annotation, seed):
    output = shuffle.bigram(annotation, np.random.default_rng(seed))
    if output is not None:
        assert Counter("".join(output.split())) == Counter("".join(annotation.text.split()))
        assert output.split() != annotation.text.split()
