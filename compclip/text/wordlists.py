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
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from compclip.text import agreement, fitting_words, lexicon, word_edits
from compclip.text.annotation import Annotation, Span
from compclip.text.rule_columns import reads_columns

_LISTS = lexicon.TABLES["wordlists"]
DEFAULT_WORDS = _LISTS["default_words"]  # single words up to the first semicolon, then phrases


@dataclass(frozen=True, eq=False)
class WordLists:
    """Words and phrases by kind, in lower case."""

    kinds: Mapping[str, tuple[str, ...]]

    @classmethod
    def parse(cls, words: Mapping[str, Any]) -> WordLists:
        """Check a user's lists; {} gives the default lists. Raises UserError for an unknown kind or no word."""
        kinds = word_edits.parse_word_lists(words, DEFAULT_WORDS, "kind of words", least=2)
        return cls(kinds) if kinds else default_lists()

    @reads_columns("tokens", "chunks", "lemma")
    def rule(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word of the caption for another of its list that fits its place; None where none is in a list.

        `fitting_words` says which fit of the default lists; of a user's lists all do. Articles follow.
        """
        if self.kinds != default_lists().kinds:
            return self.rule_of_text(annotation, rng)
        annotation = fitting_words.correct(annotation)
        options = []
        for kind, span in self._find_places(annotation.text):
            options.append((kind, span, fitting_words.find_fitting(annotation, kind, span)))
        usual = [option for option in options if fitting_words.LAST_RESORT not in option[2]]
        has_words = any(words for _, _, words in usual)
        return _replace_one(annotation.text, usual if has_words else options, rng)

    @reads_columns()
    def rule_of_text(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word for one that fits, as `rule` but without regard to how it is used: of texts not parsed."""
        options = []
        for kind, span in self._find_places(annotation.text):
            options.append((kind, span, self._fitting(kind, annotation.text, span)))
        return _replace_one(annotation.text, options, rng)

    @reads_columns()
    def rule_any(self, annotation: Annotation, rng: np.random.Generator) -> str | None:
        """Exchange one word of the caption for any other of its list; None where none is in a list."""
        text = annotation.text
        spans: dict[str, list[Span]] = {}
        for kind, span in self._find_places(text):
            spans.setdefault(kind, []).append(span)
        if not spans:
            return None
        kind, places = list(spans.items())[rng.integers(len(spans))]
        present = {_read(text, span) for span in places}
        absent = [word for word in self.kinds[kind] if word not in present]
        if not absent:
            return None
        span = places[rng.integers(len(places))]
        new = absent[rng.integers(len(absent))]
        return word_edits.replace_span(text, span, word_edits.capitalize_first(new) if text[span[0]].isupper() else new)

    def _fitting(self, kind: str, text: str, span: Span) -> Sequence[str]:
        """Return the words that may stand for one of a kind."""
        if self.kinds[kind] == default_lists().kinds[kind]:
            return fitting_words.find_alternatives(kind, text, span)
        return self.kinds[kind]

    def _find_places(self, text: str) -> list[tuple[str, Span]]:
        """Return the kinds and spans of characters of the lists' words, kind by kind."""
        places = []
        for kind, words in self.kinds.items():
            for match in _pattern(words).finditer(text):
                if word_edits.is_bounded(text, *match.span()):
                    places.append((kind, match.span()))
        return places


def _read(text: str, span: Span) -> str:
    """Return the words at a span of characters, in lower case and with single spaces."""
    return " ".join(text[slice(*span)].lower().split())


def _replace_one(text: str, options: Sequence[tuple[str, Span, Sequence[str]]], rng: np.random.Generator) -> str | None:
    """Replace one word by one of those given for its kind and span; each kind that has some has the same chance."""
    present: dict[str, set[str]] = {}
    for kind, span, _ in options:
        present.setdefault(kind, set()).add(_read(text, span))
    kinds: dict[str, list[tuple[Span, list[str]]]] = {}
    for kind, span, words in options:
        absent = [word for word in words if word not in present[kind]]
        if absent:
            kinds.setdefault(kind, []).append((span, absent))
    if not kinds:
        return None
    spans_and_words = list(kinds.values())[rng.integers(len(kinds))]
    span, absent = spans_and_words[rng.integers(len(spans_and_words))]
    new = absent[rng.integers(len(absent))]
    new = word_edits.capitalize_first(new) if text[span[0]].isupper() else new
    return agreement.fix_articles(word_edits.replace_span(text, span, new), text)


@dataclass(frozen=True)
class WordListConfig:
    """Options of a method with this rule (SVLC, DAC)."""

    words: dict[str, list[str]] = field(default_factory=dict)  # by kind, in place of ours
    lists: Literal["fitting", "any"] = "fitting"  # words that fit their place; "any": as released, any of the list

    def __post_init__(self) -> None:
        """Check them. Raises UserError."""
        WordLists.parse(self.words)


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
        words, _, phrases = text.partition(";")
        kinds[kind] = (*words.split(), *word_edits.split_phrases(phrases, ";"))
    return WordLists(kinds)
