"""CLoVe's replace rule: the reading of a scene, the weighted words, the draw."""

import functools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from compclip.base.errors import UserError
from compclip.text import relative_words, scene_graph, spacy_parser, word_edits, wordnet
from compclip.text import replace as replacing
from compclip.text.annotation import NO_WORDS as NONE
from compclip.text.annotation import Annotation
from compclip.text.wordnet_files import HYPERNYM, HYPONYM, Synset
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


def texts_of_kind(a: Annotation, kind: str) -> list[str]:
    return [a.text[slice(*a.chars(e.span))] for e in scene_graph.read_scene(a) if e.kind == kind]


@pytest.mark.parametrize("text", READ)
def test_the_parts_of_a_scene(annotated, text):
    kinds = (scene_graph.ENTITY, scene_graph.ATTRIBUTE, scene_graph.RELATION)
    assert tuple(texts_of_kind(annotated[text], kind) for kind in kinds) == READ[text]


@given(annotations())
def test_parts_of_anything_are_words_of_it(annotation):
    for element in scene_graph.read_scene(annotation):
        assert element.span[0] <= element.root < element.span[1] <= len(annotation)
        assert word_edits.is_bounded(annotation.text, *annotation.chars(element.span))


@pytest.mark.parametrize(("word", "pos", "tag", "relative"), [
    ("women", "NOUN", "NNS", "men"),  # an antonym, inflected
    ("red", "ADJ", "JJ", "blue"),  # by the nouns of both
    ("riding", "VERB", "VBG", "walking"),
    ("couch", "NOUN", "NN", "bench"),  # a cousin: under seat, as sofa's kind is
    ("quickly", "ADV", "RB", "slowly"),
])  # fmt: skip
def test_weighted_words(word, pos, tag, relative):
    words, weights = relative_words.find_relatives(word, pos, tag)
    assert relative in words and word not in words and len(set(words)) == len(words) == len(weights)
    assert len(words) <= relative_words.COMMON + relative_words.RARE and min(weights) > 0
    common = weights[: relative_words.COMMON]
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
    assert {name for name, _ in relative_words.relative_lemmas(word, "v")} <= offered


def list_cousins(start: Synset) -> list[Synset]:
    """The cousins of a synset as CLoVe's program lists them, one for each way (text_negatives_data.py:148-153)."""
    cousins = []
    for parent in wordnet.related(start, HYPERNYM):
        for grandparent in wordnet.related(parent, HYPERNYM):
            for uncle in wordnet.related(grandparent, HYPONYM):
                for cousin in wordnet.related(uncle, HYPONYM):
                    if cousin != start:
                        cousins.append(cousin)
    return cousins


def list_lemmas(sense: Synset, pos: str) -> list[tuple[Synset, str]]:
    """The words of a sense's cousins, of an adjective by the nouns that it derives from and back (lines 116-135)."""
    if pos != "a":
        return [(cousin, word) for cousin in list_cousins(sense) for word in cousin.words]
    nouns = {noun for noun, _ in wordnet.dictionary().derived(sense) if noun.pos == "n"}
    derived = [pair for noun in nouns for cousin in list_cousins(noun) for pair in wordnet.dictionary().derived(cousin)]
    return [(adjective, word) for adjective, word in derived if adjective.pos in "as" and adjective != sense]


@pytest.mark.parametrize(
    ("word", "pos"), [("eyeglasses", "n"), ("sofa", "n"), ("red", "a"), ("sleeping", "v"), ("quickly", "r")]
)
def test_weights_by_paths_are_the_released_sums(word, pos):
    """Each way to a cousin adds its count, at least 1 (lines 291-302); what is missing is a name or an insult."""
    senses = [s for base in wordnet.dictionary().bases(word, pos) for s in wordnet.synsets_of(base, pos)]
    synonyms, expected = {name for sense in senses for name in sense.words}, Counter[str]()
    for sense in senses:
        antonyms = [pair for name in sense.words for pair in wordnet.dictionary().antonyms(sense, name)]
        for synset, name in antonyms + list_lemmas(sense, pos):
            if name not in synonyms:
                expected[name] += max(wordnet.times_met(synset, synset.words.index(name)), 1)
    weights = dict(relative_words.relative_lemmas(word, pos, relative_words.PATHS))
    assert weights and weights.keys() <= expected.keys()
    for name, weight in expected.items():
        if name in weights and name not in of_insults(senses, pos):
            assert weights[name] == weight
        elif name not in weights:
            assert not name.islower() or not name.replace("_", "").isalpha() or name in of_insults(senses, pos)


def of_insults(senses: list[Synset], pos: str) -> set[str]:
    """Words that some cousin has as an insult: their weight by it is left out."""
    pairs = [pair for sense in senses for pair in list_lemmas(sense, pos)]
    return {n for s, n in pairs if wordnet.is_offensive(s) or wordnet.UNFIT & set(n.split("_"))}


def test_rare_words_keep_their_weight():
    """Forty-eight common words; of a hundred others with a weight of 2 the 16 that stand for them have 200 together."""
    result = [(f"w{i}", 1000 - i) for i in range(relative_words.COMMON)] + [(f"r{i}", 2) for i in range(100)]
    common = relative_words.COMMON
    number = common + relative_words.RARE
    thinned = relative_words.thin_rare(result)
    assert thinned[:common] == result[:common] and len(thinned) == number
    assert {weight for _, weight in thinned[common:]} == {12}  # 200 / 16, rounded
    assert relative_words.thin_rare(result[:number]) == result[:number]


@pytest.mark.parametrize(
    ("word", "pos"), [("three", "NUM"), ("the", "DET"), ("he", "PRON"), ("zzzz", "NOUN"), ("3d", "NOUN")]
)
def test_words_without_relatives(word, pos):
    """Nor are synonyms and insults any."""
    assert relative_words.find_relatives(word, pos, "NN") == NONE
    assert not {"sofa", "lounge"} & set(relative_words.find_relatives("couch", "NOUN", "NN")[0])
    assert not {name for name, _ in relative_words.relative_lemmas("woman", "n")} & {"whore", "bitch", "slut"}


def test_all_words_and_no_other(annotated):
    """An element with two words is drawn twice as often; of its words nine in ten of one draw, one in ten of the other."""
    chase = annotated["The dog chases the cat."]
    a = replace(chase, relatives=(NONE, (("fox", "sea lion"), (3, 1)), (("sees",), (9,)), NONE, NONE, NONE))
    expected = {"The fox chases the cat.", "The sea lion chases the cat.", "The dog sees the cat."}
    assert outcomes(replacing.clove, a) == expected
    a = replace(chase, relatives=(NONE, (("fox", "hen"), (9, 1)), (("sees",), (1,)), NONE, NONE, NONE))
    output = [replacing.clove(a, np.random.default_rng(seed)) for seed in range(900)]
    assert 550 < sum("dog" not in text for text in output) < 650
    assert 240 < sum("fox" in text for text in output) < 360


def test_prepositions_are_replaced_whole(annotated):
    text = "A cow on top of an old hill."
    a = replace(annotated[text], relatives=(NONE,) * len(annotated[text]))
    output = outcomes(replacing.clove, a)
    assert {"A cow in an old hill.", "A cow in front of an old hill."} <= output
    assert all(m.startswith("A cow ") and m.endswith(" an old hill.") and m != text for m in output)
    words, weights = scene_graph.other_prepositions("In")
    assert "in" not in words and len(words) == len(scene_graph.COUNTS) - 1
    assert weights[words.index("on")] == scene_graph.COUNTS["on"] > 1000
    assert weights[words.index("via")] == 1  # met in no caption
    assert scene_graph.other_prepositions("on  top of")[0].count("on top of") == 0


def test_words_are_written_as_those_that_they_replace(annotated):
    a = annotated["The dog chases the cat."]
    for word, relative, expected in (("DOG", "fox", "FOX"), ("Dog", "sea lion", "Sea lion")):
        shown = replace(a, text=a.text.replace("dog", word), relatives=(NONE, ((relative,), (1,)), *[NONE] * 4))
        assert outcomes(replacing.clove, shown, tries=5) == {f"The {expected} chases the cat."}


def test_data_without_relatives_are_an_error(annotated):
    with pytest.raises(UserError, match=r"replace=clove: the data have no relatives; set data.<name>.relatives"):
        replacing.clove(annotated["The dog."], np.random.default_rng(0))
    assert replacing.clove(annotated[""], np.random.default_rng(0)) is None


@pytest.mark.parametrize("text", [s for s in SENTENCES if s])
def test_one_place_changes(annotated, text):
    a = annotated[text]
    with_relatives = replace(a, relatives=spacy_parser.find_relatives(a))
    for seed in range(20):
        output = replacing.clove(with_relatives, np.random.default_rng(seed))
        if output is not None:
            elements = scene_graph.read_scene(with_relatives)
            places = [replacing.find_replacements(with_relatives, element)[0] for element in elements]
            assert any(output.startswith(text[:low]) and output.endswith(text[high:]) for low, high in places)
            assert output.casefold() != text.casefold()
