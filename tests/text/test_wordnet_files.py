"""The dictionary files against NLTK's reader of the same files, and damaged ones."""

import shutil
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.corpus.reader.wordnet import WordNetCorpusReader

from compclip.base.errors import UserError
from compclip.text import wordnet, wordnet_files
from compclip.text.wordnet_files import ALSO, HYPERNYM, HYPONYM, SIMILAR, Dictionary

WORDS = {
    "n": "dog person color anchor man entity zyrian a hood",
    "v": "run be eat stand zoom abash",
    "a": "red large big galore zygotic able wet upset",
    "r": "quickly now well zestfully",
}
FORMS = {
    "n": "dogs wolves men boxes churches ponies oxen zzzs s",
    "v": "ran standing eats tried zzzing",
    "a": "redder best abler",
    "r": "best harder",
}
CASES = [(word, pos) for pos, words in WORDS.items() for word in words.split()]


class English(WordNetCorpusReader):
    """Without the mapping between versions."""

    def map_wn(self, version: str = "wordnet") -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def slow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return English(str(wordnet_files.find_folder()), None)


@pytest.fixture(scope="module")
def listed(slow):
    return sorted(slow._lemma_pos_offset_map)


@pytest.fixture(scope="module")
def files():
    return Dictionary(wordnet_files.find_folder())


@pytest.mark.parametrize(("word", "pos"), CASES)
def test_synsets_are_those_of_the_slow_reader(slow, files, word, pos):
    """In its order, with words, keys, glosses, and what they point to."""
    expected, result = slow.synsets(word, pos), files.synsets(word, pos)
    assert [s.offset for s in result] == [s.offset() for s in expected] and result
    for ours, theirs in zip(result, expected, strict=True):
        lemmas = theirs.lemmas()
        told = (theirs.pos(), theirs.lemma_names(), theirs.definition())
        assert (ours.pos, list(ours.words), ours.definition) == told
        assert wordnet_files.LEXNAMES[ours.field] == theirs.lexname()
        assert [files.key(ours, i) for i in range(len(lemmas))] == [lemma.key() for lemma in lemmas]
        antonyms = [(a.synset().offset(), a.name()) for lemma in lemmas for a in lemma.antonyms()]
        assert [(s.offset, w) for our_word in ours.words for s, w in files.antonyms(ours, our_word)] == antonyms
        derived = [d for lemma in lemmas for d in lemma.derivationally_related_forms()]
        assert {(s.offset, w) for s, w in files.derived(ours)} == {(d.synset().offset(), d.name()) for d in derived}
        related_of = {HYPERNYM: theirs.hypernyms, HYPONYM: theirs.hyponyms, SIMILAR: theirs.similar_tos}
        for symbol, related in [*((s, list_of()) for s, list_of in related_of.items()), (ALSO, theirs.also_sees())]:
            assert {s.offset for s in files.related(ours, symbol)} == {s.offset() for s in related}


@pytest.mark.parametrize(("form", "pos"), [(form, pos) for pos, forms in FORMS.items() for form in forms.split()])
def test_lemmas_of_forms_are_those_of_the_slow_reader(slow, files, form, pos):
    assert next(iter(files.bases(form, pos)), None) == slow.morphy(form, pos)
    assert files.bases(form, pos) == list(dict.fromkeys(slow._morphy(form, pos)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_word_is_found_where_the_slow_reader_has_it(slow, files, listed, data):
    """Any of its words, any text, and what the lines hold beside their words."""
    other = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.sampled_from(["dog n", " 1"]))
    word = data.draw(st.one_of(st.integers(0, len(listed) - 1).map(listed.__getitem__), other))
    pos = data.draw(st.sampled_from("nvar"))
    expected = slow._lemma_pos_offset_map.get(word, {}).get(pos, [])
    assert [s.offset for s in files.synsets(word, pos)] == expected


@pytest.mark.parametrize("name", ["index.noun", "data.noun"])
@pytest.mark.parametrize("content", ["", "x", "hound n 2 0 2 1 99999999 00000000\n", "hound n x\n" * 100])
def test_a_damaged_dictionary_is_an_error(tmp_path, monkeypatch, name, content):
    """Neither a traceback nor a search without end; a dictionary that merely has no such word has no candidates."""
    shutil.copytree(wordnet_files.find_folder(), tmp_path / "wordnet")
    (tmp_path / "wordnet" / name).write_text(content)
    monkeypatch.setattr(wordnet_files, "find_folder", lambda: tmp_path / "wordnet")
    caches = (wordnet.dictionary, wordnet._inflected_candidates, wordnet._candidate_lemmas, wordnet.synsets_of)
    for cached in caches:
        cached.cache_clear()
    try:
        assert wordnet.find_candidates("hound", "hound", "NOUN", "NN") == () and (name, content) == ("index.noun", "x")
    except UserError as error:
        assert "damaged" in str(error) and "compclip stage wordnet --install" in str(error)
    finally:
        for cached in caches:
            cached.cache_clear()
