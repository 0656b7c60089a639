"""Splitting and cleaning of dense captions (CLIC B.1), and the sentences that training takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import sentences
from compclip.text.annotation import Annotation
from compclip.text.spacy_parser import annotate


def pieces(text: str) -> list[str]:
    return [text[a:b] for a, b in sentences.split(text)]


@pytest.mark.parametrize(("text", "expected"), [
    ("A dog runs. A cat sleeps.", ["A dog runs.", "A cat sleeps."]),
    ("The cup is 3.5 cm tall. It is red.", ["The cup is 3.5 cm tall.", "It is red."]),
    ("Mr. Smith of the U.S. Army sits. He smiles.", ["Mr. Smith of the U.S. Army sits.", "He smiles."]),
    ("It is 5 p.m. The sun sets.", ["It is 5 p.m.", "The sun sets."]),
    ("Fruit, e.g. apples, lies on No. 5 plates.", ["Fruit, e.g. apples, lies on No. 5 plates."]),
    ("Apples, pears, etc. The dog barks.", ["Apples, pears, etc.", "The dog barks."]),
    ("a dog. it runs", ["a dog.", "it runs"]),
    ("Is it red? Yes! It is...", ["Is it red?", "Yes!", "It is..."]),
    ("yes... maybe so.", ["yes... maybe so."]),
    ("A dog on a mat.The cat sleeps.", ["A dog on a mat.", "The cat sleeps."]),
    ("A photo of www.example.com here.", ["A photo of www.example.com here."]),
    ("1. A dog runs.\n2. A cat sits.", ["1. A dog runs.", "2. A cat sits."]),
    ("A title\n\nA dog runs.", ["A title", "A dog runs."]),
    ("A line that\nis wrapped.", ["A line that\nis wrapped."]),
    ("A dog climbs the stairs .", ["A dog climbs the stairs ."]),
    ('The sign says "Stop." A car waits.', ['The sign says "Stop."', "A car waits."]),
    ("A dog. . 😀", ["A dog. . 😀"]),
    ("J. Smith waves.", ["J. Smith waves."]),
    ("...", ["..."]),
    ("", []),
    (" \n ", []),
])  # fmt: skip
def test_split(text, expected):
    assert pieces(text) == expected


@given(st.text(alphabet='aZ .!?\n"(3😀', max_size=60))
def test_split_keeps_all_but_white_space(text):
    spans = sentences.split(text)
    assert "".join("".join(pieces(text)).split()) == "".join(text.split())
    assert all(a < b <= c for (a, b), (c, _) in zip(spans, spans[1:], strict=False))
    assert all(text[a:b].strip() == text[a:b] != "" for a, b in spans)


@pytest.mark.parametrize(("clean", "text", "expected"), [
    (sentences.clean, "This picture depicts: a dog.", "A dog."),
    (sentences.clean, "The image displays a dog. This image shows it.", "A dog. This image shows it."),
    (sentences.clean, "this picture shows two cats", "Two cats"),
    (sentences.clean, "This image demonstrates a red mug.", "A red mug."),
    (sentences.clean, "The image shows that it rains.", "The image shows that it rains."),
    (sentences.clean, "The picture depends on a wall.", "The picture depends on a wall."),
    (sentences.clean, "This image shows", "This image shows"),
    (sentences.clean_clic, "The image showcases a dog.", "a dog."),  # as CLIC's program
    (sentences.clean_clic, "This image appears to be a digital representation of a dog", "a dog"),
    (sentences.clean_clic, "The image is a collection of red mugs.", "red mugs."),
    (sentences.clean_clic, "This image features two cats. The image shows it.", "two cats. The image shows it."),
    (sentences.clean_clic, "the image shows a dog.", "the image shows a dog."),
    (sentences.clean_clic, "This picture depicts: a dog.", "This picture depicts: a dog."),
    (sentences.clean_clic, "The image is", "The image is"),
])  # fmt: skip
def test_openings_go(clean, text, expected):
    assert clean(text) == expected


def test_many_marks_take_linear_time():
    """A quadratic search would need minutes for this text."""
    assert len(sentences.split(". " * 100_000 + "a dog. " + "." * 100_000 + " " * 100_000 + "b")) == 2


@given(st.lists(st.integers(1, 40), min_size=0, max_size=5))
def test_the_first_sentence_is_the_first_of_all(lengths):
    """Whether or not any of them has 4 to 34 words."""
    sentence_texts = [" ".join(["word"] * n) + "." for n in lengths]
    starts = np.cumsum([0, *(len(p) + 1 for p in sentence_texts)]).tolist()
    spans = tuple((start, start + len(sentence)) for start, sentence in zip(starts, sentence_texts, strict=False))
    output = Annotation(" ".join(sentence_texts), sentences=spans)
    assert sentences.first(output) == sentences.select(output)[0]


def test_nouns_are_those_of_the_first_kept_sentence():
    """Each once, as written but for its case; a sentence that is kept has 4 to 34 words."""
    (caption,) = annotate(["Dogs. The dog sees a DOG and two cats. A horse sleeps in a field."], replacements=False)
    assert sentences.first_nouns(caption) == ["dog", "cats"]
    assert sentences.first_nouns(Annotation("")) == []
    texts = ("A red dog .", "A red dog runs.", "word " * 34, "word " * 35)
    assert [sentences.has_training_length(text) for text in texts] == [False, True, True, False]
    text = "This image depicts: a dog on a 2.5 m wall. Nice. The dog is brown."
    assert sentences.training_sentences(text) == ["A dog on a 2.5 m wall.", "The dog is brown."]
