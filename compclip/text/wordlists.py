"""SVLC's rule R: a word of one of five lists gives way to another word of its list (Doveh et al., CVPR 2023).

The lists are ours, of the kinds and near the sizes of the authors', which have no licence; `methods.svlc.words` takes
the user's own, words or phrases for each kind: {color: [red, blue], material: [wood, stainless steel]}.

`rule` keeps to words that fit (`fitting_words`); `rule_any` takes any other word of the list, as the authors' program.

Departures from the released code: whole words are found and exchanged, one of them, by offset (it finds parts of words
and exchanges every occurrence); the kind is drawn among those that occur; phrases are found too, the longest first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.text import agreement, fitting_words, lexicon, word_edits
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

_LISTS = lexicon.TABLES["wordlists"]
MAX_WORDS = 10_000  # words of a list
MAX_LENGTH = 100  # characters of a word
_WORD = re.compile(r"[^\W_][\w'’ -]*")
DEFAULT_WORDS = _LISTS["default_words"]  # single words up to the first semicolon, then phrases


@dataclass(frozen=True, eq=False)
class WordLists:
    """Words and phrases by kind, in lower case."""

    kinds: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, words: Mapping[str, Any]) -> WordLists:
        """Check a user's lists; {} gives the default lists. Raises UserError for an unknown kind or no word."""
        for kind, words_of_kind in words.items():
            if kind not in DEFAULT_WORDS:
                raise unknown("kind of words", str(kind), DEFAULT_WORDS, "words")
            if (
                not isinstance(words_of_kind, Sequence)
                or not 1 < len(words_of_kind) <= MAX_WORDS
                or not all(map(_is_word, words_of_kind))
            ):
                raise UserError(
                    f"words.{kind}: must be a list of 2 to {MAX_WORDS} words or phrases; quote yes, no, on, off"
                )
        kinds = {
            kind: tuple(dict.fromkeys(" ".join(w.lower().split()) for w in words_of_kind))
            for kind, words_of_kind in words.items()
        }
        return cls(kinds) if kinds else default_lists()

    @reads_columns("tokens", "chunks", "lemma")
    def rule(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word of the caption for another of its list that fits its place; None where none is in a list.

        `fitting_words` says which fit of the default lists; of a user's lists all do. Articles follow.
        """
        text = annotation.text
        places = self._find_places(annotation.text)
        if self.kinds != default_lists().kinds:
            return self._replace_fitting(text, places, rng)
        annotation = fitting_words.correct(annotation)
        fitting = {
            kind: {span: fitting_words.find_fitting(annotation, kind, span) for span in spans}
            for kind, spans in places.items()
        }
        words = {word for spans in fitting.values() for alternatives in spans.values() for word in alternatives}
        if words - {fitting_words.LAST_RESORT}:
            fitting = {
                kind: {
                    span: alternatives
                    for span, alternatives in spans.items()
                    if fitting_words.LAST_RESORT not in alternatives
                }
                for kind, spans in fitting.items()
            }
        return _replace_one(text, fitting, rng)

    @reads_columns()
    def rule_of_text(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word for one that fits, as `rule` but without regard to how it is used: of texts not parsed."""
        return self._replace_fitting(annotation.text, self._find_places(annotation.text), rng)

    @reads_columns()
    def rule_any(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word of the caption for any other of its list; None where none is in a list."""
        text = annotation.text
        kinds = [(self.kinds[kind], spans) for kind, spans in self._find_places(text).items() if spans]
        if not kinds:
            return None
        words, places = kinds[rng.integers(len(kinds))]
        present = {" ".join(text[slice(*span)].lower().split()) for span in places}
        absent = [word for word in words if word not in present]
        if not absent:
            return None
        span = places[rng.integers(len(places))]
        new = absent[rng.integers(len(absent))]
        return word_edits.replace_span(text, span, word_edits.capitalize_first(new) if text[span[0]].isupper() else new)

    def _find_places(self, text: str) -> dict[str, list[tuple[int, int]]]:
        """Return the spans of characters of each kind's words."""
        places = {kind: [m.span() for m in _pattern(words).finditer(text)] for kind, words in self.kinds.items()}
        return {kind: [s for s in spans if word_edits.is_bounded(text, *s)] for kind, spans in places.items()}

    def _replace_fitting(
        self, text: str, places: Mapping[str, Sequence[tuple[int, int]]], rng: np.random.Generator
    ) -> str | None:
        """Replace one word at some places by one that may stand for it."""
        fitting = {kind: {span: self._fitting(kind, text, span) for span in spans} for kind, spans in places.items()}
        return _replace_one(text, fitting, rng)

    def _fitting(self, kind: str, text: str, span: tuple[int, int]) -> Sequence[str]:
        """Return the words that may stand for one of a kind."""
        if self.kinds[kind] == default_lists().kinds[kind]:
            return fitting_words.find_alternatives(kind, text, span)
        return self.kinds[kind]


def _replace_one(
    text: str, fitting: Mapping[str, Mapping[tuple[int, int], Sequence[str]]], rng: np.random.Generator
) -> str | None:
    """Replace one word by one of those given for its span; each kind that has some has the same chance."""
    kinds = []
    for spans in fitting.values():
        present = {" ".join(text[slice(*span)].lower().split()) for span in spans}
        options = [(span, [w for w in words if w not in present]) for span, words in spans.items()]
        options = [(span, words) for span, words in options if words]
        if options:
            kinds.append(options)
    if not kinds:
        return None
    options = kinds[rng.integers(len(kinds))]
    span, words = options[rng.integers(len(options))]
    new = words[rng.integers(len(words))]
    new = word_edits.capitalize_first(new) if text[span[0]].isupper() else new
    return agreement.fix_articles(word_edits.replace_span(text, span, new), text)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and len(word) <= MAX_LENGTH and _WORD.fullmatch(word) is not None


@functools.lru_cache(maxsize=32)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern of any of the words or phrases, whole, the longest first."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    alternatives = [r"\s+".join(map(re.escape, word.split())) for word in longest]
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


@functools.cache
def default_lists() -> WordLists:
    """Return the lists that come with the package."""
    kinds: dict[str, tuple[str, ...]] = {}
    for kind, text in DEFAULT_WORDS.items():
        words, *phrases = text.split(";")
        kinds[kind] = (*words.split(), *(" ".join(phrase.split()) for phrase in phrases))
    return WordLists(kinds)
