"""Noun phrases as concepts."""

from hypothesis import given

from tests.text.conftest import SENTENCES
from tests.text.strategies import annotations


def noun_phrases(annotation) -> list[str]:
    return [phrase for _, _, phrase in annotation.concepts()]


def test_noun_phrases_without_determiner_and_pronouns(annotated):
    assert noun_phrases(annotated["A small brown dog is chasing a big black cat."]) == [
        "small brown dog",
        "big black cat",
    ]
    assert noun_phrases(annotated["He stops and she runs."]) == []
    assert noun_phrases(annotated["running quickly"]) == []


def test_a_phrase_counts_once_where_it_stood_first(annotated):
    text = "A mug of red tea and a green apple. It is next to the mug of red tea."
    assert annotated[text].concepts() == [(2, 5, "mug"), (9, 16, "red tea"), (23, 34, "green apple")]


def test_spans_hold_their_phrase(annotated):
    for text in SENTENCES:
        assert all(text[a:b] == phrase for a, b, phrase in annotated[text].concepts())


@given(annotations())
def test_phrases_differ_and_are_not_empty(annotation):
    result = noun_phrases(annotation)
    assert all(result)
    assert len({" ".join(p.casefold().split()) for p in result}) == len(result)
