"""CLoVe's replace rule: the reading of a scene, the weighted words, the draw."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.text import replace as replacing
from compclip.text import scene_graph, spacy_parser, word_edits, wordnet
from compclip.text.annotation import NO_WORDS as NONE
from compclip.text.annotation import Annotation
from compclip.text.wordnet_files import HYPERNYM, HYPONYM
from tests.text.conftest import SENTENCES, outcomes
from tests.text.strategies import annotations

READ = {
    "A small brown dog is chasing a big black cat.": (["dog", "cat"], ["small", "brown", "big", "black"], ["chasing"]),
    "A cow on top of an old hill.": (["cow", "hill"], ["old"], ["on top of"]),
    "A couch and a television in a room.": (["couch", "television", "room"], [], ["in"]),
    "A man wearing a hat is holding a cup in a field.": (
        ["man", "hat", "cup", "field"], [], ["wearing", "holding", "in"],
    ),
    "The dog.": ([], [], []),  # one entity
    "The sky is blue.": ([], [], []),
}  # fmt: skip


def said(a: Annotation, kind: str) -> list[str]:
    return [a.text[slice(*a.chars(e.span))] for e in scene_graph.read_scene(a) if e.kind == kind]


@pytest.mark.parametrize("text", READ)
def test_the_parts_of_a_scene(annotated, text):
    kinds = (scene_graph.ENTITY, scene_graph.ATTRIBUTE, scene_graph.RELATION)
    assert tuple(said(annotated[text], kind) for kind in kinds) == READ[text]


def test_an_attribute_may_follow_its_noun(annotated):
    a = annotated["The sky is blue."]
    assert [a.word(e.root) for e in scene_graph.read_entities_and_attributes(a)] == ["sky", "blue"]


@given(annotations())
def test_parts_of_anything_are_words_of_it(annotation):
    for element in scene_graph.read_scene(annotation):
        assert element.span[0] <= element.root < element.span[1] <= len(annotation)
        assert word_edits.is_bounded(annotation.text, *annotation.chars(element.span))


@pytest.mark.parametrize(
    ("word", "pos", "tag", "known"),
    [
        ("women", "NOUN", "NNS", "men"),  # an antonym, inflected
        ("red", "ADJ", "JJ", "blue"),  # by the nouns of both
        ("riding", "VERB", "VBG", "walking"),
        ("couch", "NOUN", "NN", "bench"),  # a cousin: under seat, as sofa's kind is
        ("quickly", "ADV", "RB", "slowly"),
    ],
)
def test_weighted_words(word, pos, tag, known):
    words, weights = wordnet.find_relatives(word, pos, tag)
    assert known in words and word not in words and len(set(words)) == len(words) == len(weights)
    assert len(words) <= wordnet.COMMON + wordnet.RARE and min(weights) > 0
    common = weights[: wordnet.COMMON]
    assert list(common) == sorted(common, reverse=True)


@pytest.mark.parametrize("word", ["look", "jump", "sitting"])
def test_a_verb_whose_hypernym_has_none_gives_no_cousins_by_it(word):
    """As in the authors' program: a sense of "look" lies right below "be", and no hypernym of "be" offers "stand"."""
    base = wordnet.dictionary().bases(word, "v")
    senses = [sense for lemma in base for sense in wordnet.synsets_of(lemma, "v")]
    relations = (HYPERNYM, HYPERNYM, HYPONYM, HYPONYM)
    cousins = functools.reduce(
        lambda level, kind: [s for x in level for s in wordnet.related(x, kind)], relations, senses
    )
    opposites = [s for sense in senses for w in sense.words for s, _ in wordnet.dictionary().antonyms(sense, w)]
    offered = {name for synset in [*cousins, *opposites] for name in synset.words}
    assert {name for name, _ in wordnet.relative_lemmas(word, "v")} <= offered


def test_synonyms_and_insults_are_none():
    assert not {"sofa", "lounge"} & set(wordnet.find_relatives("couch", "NOUN", "NN")[0])
    assert not {name for name, _ in wordnet.relative_lemmas("woman", "n")} & {"whore", "bitch", "slut"}


def test_rare_words_keep_their_weight():
    """Forty-eight common words; of a hundred others with a weight of 2 the 16 that stand for them have 200 together."""
    result = [(f"w{i}", 1000 - i) for i in range(wordnet.COMMON)] + [(f"r{i}", 2) for i in range(100)]
    kept = wordnet.thin_rare(result)
    assert kept[: wordnet.COMMON] == result[: wordnet.COMMON] and len(kept) == wordnet.COMMON + wordnet.RARE
    assert {weight for _, weight in kept[wordnet.COMMON :]} == {12}  # 200 / 16, rounded
    assert wordnet.thin_rare(result[: wordnet.COMMON + wordnet.RARE]) == result[: wordnet.COMMON + wordnet.RARE]


@pytest.mark.parametrize(
    ("word", "pos"), [("three", "NUM"), ("the", "DET"), ("he", "PRON"), ("zzzz", "NOUN"), ("3d", "NOUN")]
)
def test_words_without_relatives(word, pos):
    assert wordnet.find_relatives(word, pos, "NN") == NONE


def test_other_prepositions():
    words, weights = scene_graph.other_prepositions("In")
    assert "in" not in words and len(words) == len(scene_graph.COUNTS) - 1
    assert weights[words.index("on")] == scene_graph.COUNTS["on"] > 1000
    assert weights[words.index("via")] == 1  # met in no caption
    assert scene_graph.other_prepositions("on  top of")[0].count("on top of") == 0


def chasing(annotated, *tables) -> Annotation:
    """The dog and the cat with words for dog, chases and cat."""
    dog, chases, cat = tables
    return replace(annotated["The dog chases the cat."], relatives=(NONE, dog, chases, NONE, cat, NONE))


def test_all_words_and_no_other(annotated):
    a = chasing(annotated, (("fox", "sea lion"), (3, 1)), (("sees",), (9,)), NONE)
    assert outcomes(replacing.clove, a) == {
        "The fox chases the cat.",
        "The sea lion chases the cat.",
        "The dog sees the cat.",
    }


def test_an_element_counts_twice_where_it_has_two_words(annotated):
    """Two of three draws are the dog's; of the first of them nine in ten are the fox, of the second one in ten."""
    a = chasing(annotated, (("fox", "hen"), (9, 1)), (("sees",), (1,)), NONE)
    output = [replacing.clove(a, np.random.default_rng(seed)) for seed in range(900)]
    assert 550 < sum("dog" not in text for text in output) < 650
    assert 240 < sum("fox" in text for text in output) < 360


def test_weights_are_chances(annotated):
    a = chasing(annotated, (("fox", "hen", "ox"), (8, 1, 1)), NONE, NONE)
    first = [replacing.draw_weighted(a.relatives[1], 0, np.random.default_rng(seed)) for seed in range(500)]
    assert 360 < first.count("fox") < 440
    assert {replacing.draw_weighted((("a", "b"), (1, 1)), n, np.random.default_rng(7)) for n in (0, 1)} == {"a", "b"}


def test_prepositions_are_replaced_whole(annotated):
    text = "A cow on top of an old hill."
    a = replace(annotated[text], relatives=(NONE,) * len(annotated[text]))
    output = outcomes(replacing.clove, a)
    assert {"A cow in an old hill.", "A cow in front of an old hill."} <= output
    assert all(m.startswith("A cow ") and m.endswith(" an old hill.") and m != text for m in output)


def test_words_are_written_as_those_that_they_replace(annotated):
    a = annotated["The dog chases the cat."]
    shouted = replace(a, text=a.text.replace("dog", "DOG"), relatives=(NONE, (("fox",), (1,)), *[NONE] * 4))
    assert outcomes(replacing.clove, shouted, tries=5) == {"The FOX chases the cat."}
    named = replace(a, text=a.text.replace("dog", "Dog"), relatives=(NONE, (("sea lion",), (1,)), *[NONE] * 4))
    assert outcomes(replacing.clove, named, tries=5) == {"The Sea lion chases the cat."}


def test_a_sentence_keeps_its_words(annotated):
    text = "A wet street. Cars pass slowly. A red bus stops quickly."
    a = annotated[text]
    table = (("green",), (1,))
    whole = replace(a, relatives=tuple(table if a.word(t) == "red" else NONE for t in range(len(a))))
    part = whole.sentence(2)
    assert part.relatives[1] == table and len(part.relatives) == len(part)


def test_data_without_relatives_are_an_error(annotated):
    with pytest.raises(UserError, match=r"replace=clove: the data have no relatives; set data.<name>.relatives"):
        replacing.clove(annotated["The dog."], np.random.default_rng(0))
    assert replacing.clove(annotated[""], np.random.default_rng(0)) is None


@pytest.mark.parametrize("text", [s for s in SENTENCES if s])
def test_one_place_changes(annotated, text):
    a = annotated[text]
    whole = replace(a, relatives=spacy_parser.find_relatives(a))
    for seed in range(20):
        output = replacing.clove(whole, np.random.default_rng(seed))
        assert output == replacing.clove(whole, np.random.default_rng(seed))
        if output is not None:
            places = [replacing.find_replacements(whole, element)[0] for element in scene_graph.read_scene(whole)]
            assert any(output.startswith(text[:low]) and output.endswith(text[high:]) for low, high in places)
            assert output.casefold() != text.casefold()


@given(annotations(), st.data())
def test_anything_gives_another_text_or_none(annotation, data):
    word = st.sampled_from([NONE, (("fox",), (2,)), (("sea lion", "hen"), (1, 3))])
    tables = tuple(data.draw(st.lists(word, min_size=len(annotation), max_size=len(annotation))))
    output = replacing.clove(replace(annotation, relatives=tables), np.random.default_rng(0))
    assert output is None or output != annotation.text
