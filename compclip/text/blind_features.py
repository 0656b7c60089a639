"""Describe a text by six numbers without its picture, by language models that have not seen the picture's captions.

Pictures are in folds; the models of a fold count the captions of the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from compclip.text import blind_language
from compclip.text.blind_language import BigramModel, CaptionCounts, WordFrequency

FOLDS = 5
LENGTH, FREQUENCY, BIGRAM = 0, 2, 3  # columns of features that are rows of the report by themselves


class FoldedLanguage:
    """Language models of captions, one for each fold, which has not seen that fold's captions."""

    def __init__(self, captions: Sequence[str], fold_of: Sequence[int]) -> None:
        self.models = []
        for fold in range(FOLDS):
            counts = blind_language.count_captions(c for c, f in zip(captions, fold_of, strict=True) if f != fold)
            self.models.append((WordFrequency(counts), BigramModel(counts), counts))

    def features(self, text: str, fold: int) -> list[float]:
        """Return length, words, mean log frequency, log probability, the rarest word's frequency, and unseen pairs."""
        frequency, bigram, counts = self.models[fold]
        words = blind_language.split_words(text)
        rarest = min((counts.words[word] for word in words), default=0)
        mean = frequency(text) if words else frequency("")
        return [
            blind_language.score_by_length(text),
            -float(len(words)),
            max(mean, -1e3),
            bigram(text),
            math.log1p(rarest),
            -float(_count_unseen(words, counts)),
        ]


def _count_unseen(words: Sequence[str], counts: CaptionCounts) -> int:
    return sum(pair not in counts.pairs for pair in zip(words, words[1:], strict=False))
