"""Score a text without its picture: by its length, by how frequent its words are, by a model of word pairs.

A word is a run of letters and digits, lower-cased; punctuation is left out.

length      minus the number of characters: the shorter text wins
frequency   mean log frequency of the words in the captions, add-one smoothed over the words known and one unknown
bigram      log probability of the text, each word behind the one before, and of its end: interpolated Kneser-Ney of
            order 2 (Ney, Essen and Kneser, 1994) with one discount of 0.75, above add-one smoothed words

What such a score gets right says nothing of pictures: the benchmark's own texts tell its answers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

TextScore = Callable[[str], float]  # of more the text is preferred
LENGTH, FREQUENCY, BIGRAM = SCORES = ("length", "frequency", "bigram")
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
START = "<s>"
END = "</s>"
DISCOUNT = 0.75  # a usual value between 0 and 1; not fitted


def split_words(text: str) -> list[str]:
    """Return the lower-cased words of a text."""
    return WORD.findall(text.lower())


@dataclass(frozen=True)
class CaptionCounts:
    """How often captions have each word and each pair of neighbours, start and end among them."""

    captions: int
    words: Counter[str]
    pairs: Counter[tuple[str, str]]


def count_captions(captions: Iterable[str]) -> CaptionCounts:
    """Count the words and pairs of captions."""
    number = 0
    words = Counter[str]()
    pairs = Counter[tuple[str, str]]()
    for caption in captions:
        number += 1
        caption_words = split_words(caption)
        words.update(caption_words)
        pairs.update(pairwise((START, *caption_words, END)))
    return CaptionCounts(number, words, pairs)


def score_by_length(text: str) -> float:
    """Return minus the number of characters."""
    return -float(len(text.strip()))


@dataclass(frozen=True)
class WordFrequency:
    """Mean log frequency of a text's words in captions; that of an empty text is minus infinity."""

    counts: CaptionCounts

    def __call__(self, text: str) -> float:
        """Return the mean in nats."""
        words = split_words(text)
        known = self.counts.words
        total = math.log(known.total() + len(known) + 1)
        return math.fsum(math.log(known[word] + 1) for word in words) / len(words) - total if words else -math.inf


@dataclass(frozen=True)
class BigramModel:
    """Log probability of a text: its words, each behind the one before, and its end."""

    counts: CaptionCounts
    before: Counter[str] = field(default_factory=Counter, init=False)  # how often a word has a follower
    followers: Counter[str] = field(default_factory=Counter, init=False)  # how many different ones
    preceded: Counter[str] = field(default_factory=Counter, init=False)  # how many different words stand before a word

    def __post_init__(self) -> None:
        for (first, second), count in self.counts.pairs.items():
            self.before[first] += count
            self.followers[first] += 1
            self.preceded[second] += 1

    def __call__(self, text: str) -> float:
        """Return the sum in nats."""
        words = (START, *split_words(text), END)
        return math.fsum(math.log(self.probability(*pair)) for pair in pairwise(words))

    def probability(self, first: str, second: str) -> float:
        """Return how likely `second` is behind `first`; over all words known and one unknown they add up to 1."""
        word = (self.preceded[second] + 1) / (len(self.counts.pairs) + len(self.preceded) + 1)
        if not self.before[first]:
            return word
        seen = max(self.counts.pairs[first, second] - DISCOUNT, 0.0)
        return (seen + DISCOUNT * self.followers[first] * word) / self.before[first]


def make_score(name: str, counts: CaptionCounts) -> TextScore:
    """Return the score of that name, one of SCORES."""
    scores: dict[str, TextScore] = {
        LENGTH: score_by_length,
        FREQUENCY: WordFrequency(counts),
        BIGRAM: BigramModel(counts),
    }
    return scores[name]


# --- six numbers of a text ------------------------------------------------------------------------------------------
# Describe a text by six numbers without its picture, by language models that have not seen the picture's captions.
#
# Pictures are in folds; the models of a fold count the captions of the others alone.


FOLDS = 5


class FoldedLanguage:
    """Language models of captions, one for each fold, which has not seen that fold's captions."""

    def __init__(self, captions: Sequence[str], fold_of: Sequence[int]) -> None:
        self.models = []
        for fold in range(FOLDS):
            counts = count_captions(c for c, f in zip(captions, fold_of, strict=True) if f != fold)
            self.models.append((WordFrequency(counts), BigramModel(counts), counts))

    def features(self, text: str, fold: int) -> list[float]:
        """Return length, words, mean log frequency, log probability, the rarest word's frequency, and unseen pairs."""
        frequency, bigram, counts = self.models[fold]
        words = split_words(text)
        rarest = min((counts.words[word] for word in words), default=0)
        mean = frequency(text)
        unseen = sum(pair not in counts.pairs for pair in pairwise(words))
        log_rarest = math.log1p(rarest)
        return [score_by_length(text), -float(len(words)), max(mean, -1e3), bigram(text), log_rarest, -float(unseen)]
