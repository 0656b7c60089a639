"""WordNet's words bounded by those that a data set's captions have."""

from dataclasses import replace

import pytest

from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.shard_files import SAMPLES, Manifest, read_batch
from compclip.prepare import annotate_shards
from compclip.prepare.shard_writer import describe_shard, save_samples
from compclip.text import relative_words, spacy_parser, wordnet
from compclip.text.annotation_columns import AnnotationRows

CAPTIONS = ["A red dog and a Fox.", "Red, red wine.", "a blue dog's wolves"]


@pytest.mark.parametrize(
    ("captions", "expected"),
    [(1, {"a", "red", "dog", "and", "fox", "wine", "blue", "s", "wolves"}), (2, {"a", "red", "dog"}), (3, set())],
)
def test_words_that_so_many_captions_have(captions, expected):
    """A caption that has a word twice counts once, and capitals do not count."""
    assert annotate_shards.count_words(CAPTIONS, captions) == expected


def test_candidates_are_of_the_vocabulary():
    """In WordNet's order, in the word's form and capitals, and other than the caption's words."""
    words = frozenset({"cat", "horse", "horses", "blue"})
    assert wordnet.find_candidates("dog", "dog", "NOUN", "NN", vocabulary=words) == ("cat", "horse")
    assert wordnet.find_candidates("Dogs", "dog", "NOUN", "NNS", vocabulary=words) == ("Horses",)
    assert wordnet.find_candidates("dog", "dog", "NOUN", "NN", frozenset({"cat"}), vocabulary=words) == ("horse",)
    assert wordnet.find_candidates("dog", "dog", "NOUN", "NN", vocabulary=frozenset()) == ()


def test_relatives_are_of_the_vocabulary():
    """With their weights; one of several words only if all of these are in it."""
    words, weights = relative_words.find_relatives("dog", "NOUN", "NN")
    bounded = relative_words.find_relatives("dog", "NOUN", "NN", frozenset({"cat", "fox", "sea"}))
    weight_of = dict(zip(words, weights, strict=True))
    assert dict(zip(*bounded, strict=True)) == {w: weight_of[w] for w in ("cat", "fox") if w in weight_of}


def test_annotations_are_of_the_vocabulary():
    """They differ in candidates alone; each has what WordNet gives without one, as far as it is in the vocabulary."""
    texts, words = ["A red dog is near two cats.", "A large dog."], frozenset({"blue", "horse", "small", "three"})
    bounded = list(spacy_parser._annotate_in_batches(texts, True, words))
    for some, every in zip(bounded, spacy_parser.annotate(texts), strict=True):
        assert replace(some, candidates=every.candidates) == every
        for a, b in zip(some.candidates, every.candidates, strict=True):
            assert words >= set(a) >= set(b) & words
    assert [word for words in bounded[0].candidates for word in words] == ["blue", "horse", "three"]


def test_a_data_set_s_own_captions_bound_its_replacements(tmp_path):
    """Of two shards, either may hold the word; another option makes other shards."""
    data = Data(source="csv", path="p", images="i", captioner="none", replacement_captions=1)
    shards = []
    for name, caption in (("00000", "A red dog."), ("00001", "A blue cat.")):
        path = tmp_path / SAMPLES / f"{name}.arrow"
        path.parent.mkdir(exist_ok=True)
        save_samples(path, [Sample(id=name, image=f"{name}.png", captions=(caption,), width=1, height=1)])
        shards.append(describe_shard(path, name, 1, 1))
    manifests = Manifest(tuple(shards)), Manifest(())
    both = (data, replace(data, replacement_captions=0))
    bounded, unbounded = (annotate_shards.annotation_tasks(tmp_path, *manifests, "code", cfg) for cfg in both)
    assert bounded[0].key != unbounded[0].key
    replacements = []
    for task in bounded:
        with annotate_shards.open_annotator(data) as write:
            write(task, tmp_path / "shard.arrow")
        batch = read_batch(tmp_path / "shard.arrow", "annotate")
        annotation = AnnotationRows(batch.column("captions").values)[0]
        replacements.append([word for words in annotation.candidates for word in words])
    assert replacements == [["blue", "cat"], ["red", "dog"]]
