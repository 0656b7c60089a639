"""WordNet's replacements, and the ways to a WordNet."""

import nltk
import pytest

from compclip.text import wordnet, wordnet_files
from compclip.text.wordnet import find_candidates


@pytest.mark.parametrize(("word", "lemma", "pos", "tag", "expected"), [
    ("dog", "dog", "NOUN", "NN", {"cat", "horse"}),  # of its group
    ("dogs", "dog", "NOUN", "NNS", {"cats", "horses"}),
    ("woman", "woman", "NOUN", "NN", {"man"}),  # antonym
    ("women", "woman", "NOUN", "NNS", {"men"}),
    ("red", "red", "ADJ", "JJ", {"blue", "green"}),
    ("black", "black", "ADJ", "JJ", {"white"}),
    ("huge", "huge", "ADJ", "JJ", {"small"}),  # antonym of large, to which huge is similar
    ("taller", "tall", "ADJ", "JJR", {"shorter"}),
    ("sitting", "sit", "VERB", "VBG", {"standing", "lying"}),
    ("rides", "ride", "VERB", "VBZ", {"walks"}),
    ("boulder", "boulder", "NOUN", "NN", {"tree", "log"}),  # WordNet's first: chondrite
    ("glasses", "glass", "NOUN", "NNS", {"headphones"}),  # a plural without a singular, as it stands
    ("path", "path", "NOUN", "NN", {"river", "street"}),
    ("two", "two", "NUM", "CD", {"three", "twelve"}),
    ("quickly", "quickly", "ADV", "RB", {"slowly"}),
    ("bench", "bench", "PROPN", "NNP", {"chair", "couch"}),  # lower case: a slip of the tagger
])  # fmt: skip
def test_antonyms_and_sisters(word, lemma, pos, tag, expected):
    assert expected <= set(find_candidates(word, lemma, pos, tag))


def test_a_verb_with_an_object_gives_way_to_such_verbs():
    """A man rides a horse: he pushes it; he rides through a street: he walks. Things give way to things."""
    assert find_candidates("rides", "ride", "VERB", "VBZ", has_object=True) == ("pushes", "pulls", "washes")
    assert find_candidates("rides", "ride", "VERB", "VBZ") == ("walks",)
    assert {"dropped", "threw"} <= set(find_candidates("ate", "eat", "VERB", "VBD", has_object=True))
    assert set(find_candidates("gun", "gun", "NOUN", "NN")) == {"sword"}
    assert "cliff" in find_candidates("slope", "slope", "NOUN", "NN")
    assert {"blue", "green", "yellow"} <= set(find_candidates("purple", "purple", "NOUN", "NN"))


@pytest.mark.parametrize(("word", "pos", "tag", "never"), [
    ("couch", "NOUN", "NN", {"sofa", "lounge"}),  # synonyms, and what contains the word
    ("large", "ADJ", "JJ", {"big", "huge"}),
    ("bike", "NOUN", "NN", {"bicycle", "cycle"}),
    ("young", "ADJ", "JJ", {"youthful", "immature"}),
    ("dog", "NOUN", "NN", {"animal", "puppy", "canine"}),
    ("big", "ADJ", "JJ", {"large", "great"}),
    ("trick", "NOUN", "NN", {"watch"}),  # an act; captions' watch is a thing
    ("volley", "NOUN", "NN", {"cover"}),
    ("traffic", "NOUN", "NN", {"vegetation"}),  # both are collections
    ("stripes", "NOUN", "NNS", {"jewelries"}),
    ("station", "NOUN", "NN", {"transportation"}),  # "a small transportation"
    ("waves", "NOUN", "NNS", {"bends"}),
    ("monitor", "NOUN", "NN", {"director"}),
    ("make", "VERB", "VB", {"break"}),  # opposites in a rare sense
    ("takes", "VERB", "VBZ", {"gives"}),
    ("skimpy", "ADJ", "JJ", {"sufficient"}),  # an opposite that captions do not hold
    ("reflective", "ADJ", "JJ", {"thoughtless"}),
])  # fmt: skip
def test_never_a_synonym_nor_in_a_sense_that_nobody_means(word, pos, tag, never):
    lemma = {"stripes": "stripe", "waves": "wave", "takes": "take"}.get(word, word)
    assert not never & set(find_candidates(word, lemma, pos, tag))


@pytest.mark.parametrize(("word", "pos", "tag"), [("dog", "NOUN", "NN"), ("run", "VERB", "VB"), ("red", "ADJ", "JJ")])
def test_no_candidate_shares_a_sense_with_the_word(word, pos, tag):
    pos_letter = wordnet.POS_LETTERS[pos]
    for other in find_candidates(word, word, pos, tag):
        assert not set(wordnet.synsets_of(word, pos_letter)) & set(wordnet.synsets_of(other, pos_letter))
        assert wordnet.synsets_of(other, pos_letter), other


def test_what_the_caption_says_is_left_out():
    """Words are written as the word was."""
    lower = find_candidates("dog", "dog", "NOUN", "NN")
    assert find_candidates("Dog", "dog", "NOUN", "NN") == tuple(w.capitalize() for w in lower)
    assert find_candidates("DOG", "dog", "NOUN", "NN") == tuple(w.upper() for w in lower)
    assert "cat" not in find_candidates("dog", "dog", "NOUN", "NN", frozenset({"cat"}))
    assert all(w[0] in "aeiou" for w in find_candidates("shirt", "shirt", "NOUN", "NN", article="an"))


WITHOUT = (
    "/NOUN/NN London/PROPN/NNP zzzz/NOUN/NN is/AUX/VBZ one/NUM/CD is/VERB/VBZ the/DET/DT x-ray/NOUN/NN naïve/ADJ/JJ"
)


@pytest.mark.parametrize("case", WITHOUT.split())
def test_words_without_candidates(case):
    word, pos, tag = case.split("/")
    assert find_candidates(word, {"is": "be"}.get(word, word), pos, tag) == ()


# --- installation ---------------------------------------------------------------------------------------------


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """An environment without WordNet: NLTK sees an empty folder, nothing can be fetched, no apt."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk_data")])
    monkeypatch.setattr(wordnet_files.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(nltk, "download", lambda *args, **overrides: False)
    monkeypatch.setattr(wordnet_files, "_copy_from_debian", lambda: None)
    monkeypatch.setattr(wordnet_files.os, "geteuid", lambda: 1000)
    return tmp_path


def test_debian_files_are_copied_with_lexnames(bare, monkeypatch):
    """A part of a dictionary is not taken."""
    dictionary = bare / "debian"
    dictionary.mkdir()
    for name in wordnet_files.REQUIRED_FILES:
        (dictionary / name).write_text(name)
    place = wordnet_files._copy_dictionary
    monkeypatch.setattr(wordnet_files, "_copy_from_debian", lambda: place(dictionary, wordnet_files.target_folder()))
    path, source = wordnet_files.install()
    assert (path, source) == (bare / "nltk_data" / "corpora" / "wordnet", "Debian files")
    assert wordnet_files.find_folder() == path
    assert (path / "data.noun").read_text() == "data.noun"
    assert wordnet_files.install() == (path, "NLTK data")
    monkeypatch.undo()
    monkeypatch.setattr(wordnet_files.sys, "prefix", str(bare))
    (dictionary / "data.noun").unlink()
    assert wordnet_files._copy_from_debian(dictionary) is None


def test_lexnames_has_the_45_lexicographer_files():
    lines = wordnet_files.lexnames().splitlines()
    assert len(lines) == 45
    assert lines[0] == "00\tadj.all\t3" and lines[3] == "03\tnoun.Tops\t1" and lines[29] == "29\tverb.body\t2"
