"""Annotations as values."""

from hypothesis import given

from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate
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
    for index, (begin, end) in enumerate(value.sentences):
        sentence = value.sentence(index)
        inside = [value.word(t) for t in range(len(value)) if begin <= value.starts[t] < end]
        assert [sentence.word(t) for t in range(len(sentence))] == inside
        assert sentence.text == value.text[begin:end]
