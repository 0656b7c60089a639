"""Rules that take stored texts, and words that a masked language model put into a caption."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import masked_words, stored_texts
from compclip.text.annotation import Annotation
from tests.text.conftest import outcomes
from tests.text.strategies import annotations

DOG = Annotation(
    "A dog.", stored={"negative": ("a DOG.", "A cat.", "No dog."), "paraphrase": ("The hound.", "a DOG.", "A mutt.")}
)
MADE = st.text(st.sampled_from("abAB "), min_size=1, max_size=3)


def test_one_of_the_stored_texts():
    """Never the caption itself, in whatever case; None where nothing is stored. A picture's first negative is no other."""
    assert outcomes(stored_texts.paraphrase, DOG) == {"The hound.", "A mutt."}
    assert outcomes(stored_texts.first_negative, DOG, tries=20) == {None}
    assert outcomes(stored_texts.first_negative, replace(DOG, stored={"negative": ("No.", "x")}), tries=20) == {"No."}
    for rule in (stored_texts.paraphrase, stored_texts.first_negative):
        assert outcomes(rule, Annotation("A dog."), tries=5) == {None}


def test_sentences_keep_what_is_stored(annotated):
    """It tells of the picture; a token's words go with the token."""
    annotation = annotated["A wet street. Cars pass slowly. A red bus stops quickly."]
    words = tuple((f"w{token}",) for token in range(len(annotation)))
    tables = tuple(((f"r{token}",), (1,)) for token in range(len(annotation)))
    sentence = replace(annotation, stored={"negative": ("x",)}, masked=words, relatives=tables).sentence(1)
    assert sentence.text == "Cars pass slowly."
    assert sentence.stored == {"negative": ("x",)}
    assert sentence.masked == (("w4",), ("w5",), ("w6",), ("w7",)) and sentence.relatives == tables[4:8]
    assert annotation.sentence(1).masked == ()


@pytest.fixture
def dog(annotated) -> Annotation:
    """A caption with words for its first two nouns and for its verb; one of them is the caption's own."""
    a = annotated["The dog chases the cat."]
    words = [(), ("cat", "Dog"), ("sees",), (), ("dog", "bird"), ()]
    return replace(a, masked=tuple(map(tuple, words)))


def test_a_word_gives_way_to_one_of_its_predictions(dog):
    """Each word with the same chance, whatever the number of its predictions; a rule can be sent to another process."""
    expected = {f"The {words} cat." for words in ("cat chases the", "dog sees the")}
    expected |= {"The dog chases the dog.", "The dog chases the bird."}
    assert outcomes(masked_words.any_word, dog) == expected
    drawn = [masked_words.any_word(dog, np.random.default_rng(seed)) for seed in range(600)]
    assert 150 < drawn.count("The dog sees the cat.") < 250
    assert outcomes(masked_words.any_word, Annotation("A dog.")) == {None}
    assert outcomes(masked_words.of_pos("VERB"), dog) == {"The dog sees the cat."}
    assert outcomes(masked_words.of_pos("NOUN", "VERB"), dog) == outcomes(masked_words.any_word, dog)
    assert outcomes(masked_words.of_pos("ADJ"), dog) == {None}
    assert outcomes(pickle.loads(pickle.dumps(masked_words.of_pos("VERB"))), dog) == {"The dog sees the cat."}


def test_a_word_that_begins_a_sentence_begins_with_a_capital(annotated):
    a = annotated["Two dogs and three cats sleep."]
    a = replace(a, masked=(("some",), *((),) * (len(a) - 1)))
    assert outcomes(masked_words.any_word, a) == {"Some dogs and three cats sleep."}


@given(annotations(), st.data())
def test_one_place_changes_and_the_text_with_it(a, data):
    words = data.draw(st.lists(st.lists(MADE, max_size=3).map(tuple), min_size=len(a), max_size=len(a)))
    a = replace(a, masked=tuple(words))
    output = masked_words.any_word(a, np.random.default_rng(0))
    if output is not None:
        sides = [(a.text[:start], a.text[end:]) for start, end in zip(a.starts, a.ends, strict=True)]
        assert any(output.startswith(before) and output[len(before) :].endswith(after) for before, after in sides)
