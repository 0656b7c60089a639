"""Word forms: rules alone, and with the dictionary's exceptions."""

import pytest

from compclip.text import wordnet
from compclip.text.agreement import inflect


@pytest.mark.parametrize(
    ("lemma", "tag", "pos", "form"),
    [
        ("dog", "NN", "n", "dog"),
        ("dog", "NNS", "n", "dogs"),
        ("bus", "NNS", "n", "buses"),
        ("box", "NNS", "n", "boxes"),
        ("city", "NNS", "n", "cities"),
        ("toy", "NNS", "n", "toys"),
        ("wolf", "NNS", "n", "wolves"),
        ("child", "NNS", "n", "children"),
        ("sheep", "NNS", "n", "sheep"),
        ("fireman", "NNS", "n", "firemen"),
        ("human", "NNS", "n", "humans"),
        ("tomato", "NNS", "n", "tomatoes"),
        ("piano", "NNS", "n", "pianos"),
        ("run", "VBG", "v", "running"),
        ("make", "VBG", "v", "making"),
        ("lie", "VBG", "v", "lying"),
        ("see", "VBG", "v", "seeing"),
        ("open", "VBG", "v", "opening"),
        ("play", "VBG", "v", "playing"),
        ("grab", "VBG", "v", "grabbing"),
        ("watch", "VBZ", "v", "watches"),
        ("fly", "VBZ", "v", "flies"),
        ("go", "VBZ", "v", "goes"),
        ("play", "VBD", "v", "played"),
        ("carry", "VBD", "v", "carried"),
        ("eat", "VBD", "v", "ate"),
        ("eat", "VBN", "v", "eaten"),
        ("sing", "VBD", "v", "sang"),
        ("sing", "VBN", "v", "sung"),
        ("run", "VBD", "v", "ran"),
        ("run", "VBN", "v", "run"),
        ("sit", "VBD", "v", "sat"),
        ("sit", "VBN", "v", "sat"),
        ("put", "VBD", "v", "put"),
        ("come", "VBN", "v", "come"),
        ("hold", "VBN", "v", "held"),
        ("eat", "VB", "v", "eat"),
        ("big", "JJR", "a", "bigger"),
        ("happy", "JJS", "a", "happiest"),
        ("tall", "JJR", "a", "taller"),
        ("good", "JJR", "a", "better"),
        ("large", "JJS", "a", "largest"),
        ("beautiful", "JJR", "a", None),
    ],
)
def test_forms(lemma, tag, pos, form):
    assert inflect(lemma, tag, wordnet.irregular_forms(pos)) == form
