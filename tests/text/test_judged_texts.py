"""What the rules make of our own captions is what was judged by eye, and nearly all of it reads as English."""

import pytest

from compclip.text.spacy_parser import annotate
from tests.text import judged_texts
from tests.text.judged_texts import RULES, captions, draw, read_judged

# the least share of texts that a reader believes; of what is missing most is the tagger's: "sheep graze" as two nouns
BELIEVED = {"atoms": 0.95, "crepe": 0.96, "conclip": 0.97, "positive_swap": 0.96, "wordnet": 0.95, "lists": 0.96}
LEAST = {"atoms": 198, "positive_swap": 30, "conclip": 180}  # texts, where the captions give no 200: few say "and"


@pytest.fixture(scope="module")
def annotations():
    """The captions of all judged texts, each with its annotation."""
    texts = list(dict.fromkeys(caption for name in RULES for caption in captions(name)))
    return dict(zip(texts, annotate(texts), strict=True))


@pytest.mark.parametrize("name", RULES)
def test_texts_are_those_that_were_judged(annotations, name):
    """A rule that makes other texts is judged anew: `python -m tests.text.judged_texts RULE`."""
    assert list(draw(RULES[name], [annotations[text] for text in captions(name)])) == list(read_judged(name))


@pytest.mark.parametrize("name", RULES)
def test_a_reader_believes_nearly_all(name):
    marks = list(read_judged(name).values())
    assert len(marks) >= LEAST.get(name, judged_texts.TEXTS) and set(marks) <= {"+", "-"}
    assert marks.count("+") / len(marks) >= BELIEVED[name]
