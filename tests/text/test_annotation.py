"""Annotations as values."""

from hypothesis import given

from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate
from tests.text.conftest import SENTENCES
from tests.text.strategies import annotations


def test_a_sentence_is_what_annotating_it_alone_would_give(annotated):
    annotation = annotated["A mug of red tea and a green apple. It is next to the mug of red tea."]
    texts = [annotation.sentence(i).text for i in range(2)]
    assert texts == ["A mug of red tea and a green apple.", "It is next to the mug of red tea."]
    for index, alone in enumerate(annotate(texts)):
        sentence = annotation.sentence(index)
        for name in ("starts", "ends", "sentences", "chunks", "verbs"):
            assert getattr(sentence, name) == getattr(alone, name), name
        assert all(0 <= head < len(sentence) for head in sentence.heads)
        assert len(sentence.candidates) == len(sentence)


@given(annotations())
def test_sentences_hold_their_own_tokens(value: Annotation):
    """And phrases differ and are not empty."""
    for index, (begin, end) in enumerate(value.sentences):
        sentence = value.sentence(index)
        inside = [value.word(t) for t in range(len(value)) if begin <= value.starts[t] < end]
        assert [sentence.word(t) for t in range(len(sentence))] == inside
        assert sentence.text == value.text[begin:end]
    result = noun_phrases(value)
    assert all(result)
    assert len({" ".join(p.casefold().split()) for p in result}) == len(result)


def noun_phrases(annotation) -> list[str]:
    return [phrase for _, _, phrase in annotation.concepts()]


def test_noun_phrases_without_determiner_and_pronouns(annotated):
    chase = annotated["A small brown dog is chasing a big black cat."]
    assert noun_phrases(chase) == ["small brown dog", "big black cat"]
    assert noun_phrases(annotated["He stops and she runs."]) == []
    assert noun_phrases(annotated["running quickly"]) == []
    text = (
        "A mug of red tea and a green apple. It is next to the mug of red tea."  # each counts once, where it is first
    )
    assert annotated[text].concepts() == [(2, 5, "mug"), (9, 16, "red tea"), (23, 34, "green apple")]
    for text in SENTENCES:
        assert all(text[a:b] == phrase for a, b, phrase in annotated[text].concepts())
