"""Blind scores against numbers by hand; probabilities add up to one."""

import math

import pytest

from compclip.text import blind_language
from compclip.text.blind_language import BigramModel, WordFrequency

CAPTIONS = ["A dog runs.", "a dog sleeps", "the cat runs"]


@pytest.fixture
def counts():
    return blind_language.count_captions(CAPTIONS)


def test_words_and_lengths():
    """Words are lower-cased and punctuation is left out; the shorter text is preferred."""
    assert blind_language.split_words("The dog's ball, 2 RED_balls.") == ["the", "dog's", "ball", "2", "red", "balls"]
    score = blind_language.score_by_length
    assert score("a dog ") == score("a cat") == -5 > score("the dog")


def test_frequency_is_a_mean_over_words(counts):
    """9 words, 6 different: each has its count and one, of 9 + 6 + 1."""
    score = WordFrequency(counts)
    assert score("dog") == pytest.approx(math.log(3 / 16))
    assert score("dog zebra") == pytest.approx((math.log(3 / 16) + math.log(1 / 16)) / 2)
    assert score("zebra dog") == score("dog zebra") and score("...") == -math.inf


def test_pairs_by_hand(counts):
    """9 different pairs, whose second words are 7 different: a, dog, runs, sleeps, the, cat and the end."""
    model = BigramModel(counts)
    assert len(counts.pairs) == 9 and len(model.preceded) == 7
    # `dog` has followers runs and sleeps, once each; `runs` is behind dog and cat.
    assert model.probability("dog", "runs") == pytest.approx((1 - 0.75 + 0.75 * 2 * 3 / 17) / 2)
    assert model.probability("zebra", "runs") == pytest.approx(3 / 17)
    pairs = [("<s>", "a"), ("a", "dog"), ("dog", "</s>")]
    assert model("a dog") == pytest.approx(sum(math.log(model.probability(*pair)) for pair in pairs))
    assert model("a dog runs") > model("dog a runs") and model("a dog runs") > model("a dog zebra")


@pytest.mark.parametrize("first", ["<s>", "dog", "runs", "zebra"])
def test_probabilities_add_up_to_one(counts, first):
    """Over all words that stand behind another, and one for all unknown ones."""
    model = BigramModel(counts)
    second_words = {second for _, second in counts.pairs}
    assert sum(model.probability(first, word) for word in [*second_words, "unknown"]) == pytest.approx(1)
