"""Word forms: rules alone, and with the dictionary's exceptions."""

import pytest

from compclip.text import wordnet
from compclip.text.agreement import inflect

FORMS = """
NN n: dog dog
NNS n: dog dogs, bus buses, box boxes, city cities, toy toys, wolf wolves, child children, sheep sheep
NNS n: fireman firemen, human humans, tomato tomatoes, piano pianos
VB v: eat eat
VBG v: run running, make making, lie lying, see seeing, open opening, play playing, grab grabbing
VBZ v: watch watches, fly flies, go goes
VBD v: play played, carry carried, eat ate, sing sang, run ran, sit sat, put put
VBN v: eat eaten, sing sung, run run, sit sat, come come, hold held
JJR a: big bigger, tall taller, good better, beautiful None
JJS a: happy happiest, large largest
"""


@pytest.mark.parametrize("line", FORMS.strip().splitlines())
def test_forms(line):
    tag, pos, pairs = line.replace(":", "").split(" ", 2)
    for pair in pairs.split(", "):
        lemma, form = pair.split()
        assert str(inflect(lemma, tag, wordnet.irregular_forms(pos))) == form  # None: of two words
