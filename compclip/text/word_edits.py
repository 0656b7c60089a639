"""What the rewriting rules share: which words may be changed, and how a word is written elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from compclip.base.errors import UserError, unknown
from compclip.text.annotation import Annotation, Span

MAX_WORDS = 10_000  # of a user's list
MAX_LENGTH = 100  # characters of such a word
Edit = tuple[Span, str]  # tokens, and the words that stand there instead
VERB_LETTERS = {"VERB": "V", "ADV": "R", "AUX": "A"}
VERB_PHRASE = re.compile("V?R*A*V+")  # over one letter a token
_BEFORE = frozenset('"“”„«([{—')
_REPEATED = re.compile(r"\b(\w+) \1\b", re.IGNORECASE)
_AFTER = frozenset('"“”»)]}—.,;:!?…')


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, which white space separates."""
    return frozenset(text.split())


def split_phrases(text: str, separator: str = ",") -> tuple[str, ...]:
    """Return the words and phrases of `text` that a mark separates, with single spaces; empty ones are left out."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(separator) if phrase.strip())


def parse_word_lists(
    words: Mapping[str, Any], kinds: Iterable[str], what: str, least: int
) -> dict[str, tuple[str, ...]]:
    """Return a user's lists by kind, each word once and in lower case; `what` names a kind in errors.

    Raises UserError for an unknown kind, and for what is no list of at least so many words.
    """
    lists = {}
    for kind, listed in words.items():
        if kind not in kinds:
            raise unknown(what, str(kind), kinds, "words")
        is_list = isinstance(listed, Sequence) and not isinstance(listed, str) and least <= len(listed) <= MAX_WORDS
        if not is_list or not all(map(_is_phrase, listed)):
            raise UserError(
                f"words.{kind}: must be a list of {least} to {MAX_WORDS} words or phrases; quote yes, no, on, off"
            )
        lists[kind] = tuple(dict.fromkeys(" ".join(phrase.lower().split()) for phrase in listed))
    return lists


def _is_phrase(phrase: object) -> bool:
    return isinstance(phrase, str) and bool(phrase.strip()) and len(phrase) <= MAX_LENGTH


def draw_index(rng: np.random.Generator, count: int) -> int:
    """Draw one of the numbers below `count`: equal to `rng.integers(count)`, and faster.

    numpy draws numbers of 32 and of 64 bits alike; a single one takes nothing from the generator.
    """
    return int(rng.integers(count, dtype=np.int32)) if count > 1 else 0


def capitalize_first(words: str) -> str:
    """Return the words with a capital first letter; the other letters stay."""
    return words[:1].upper() + words[1:]


def is_bounded(text: str, start: int, end: int) -> bool:
    """Return whether only white space or punctuation touches text[start:end] ("man's" and "T-shirt" stay whole)."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if before != " " and not before.isspace() and before not in _BEFORE:
        return False
    if after == " " or after.isspace():
        return True
    return after in _AFTER and not text[end + 1 : end + 2].isalnum()  # not within "dog.jpg"


def write_like(old: str, new: str) -> str:
    """Return words in capitals, or with a capital first letter, where those that they replace are written so."""
    if not old[:1].isupper():
        return new
    return new.upper() if old.isupper() and len(old) > 1 else capitalize_first(new)


def are_bounded(a: Annotation, *spans: Span) -> bool:
    """Return whether spans of tokens are bounded so."""
    return all(is_bounded(a.text, *a.chars(span)) for span in spans)


def spell_verbs(a: Annotation) -> str:
    """Return one letter for each token, in which VERB_PHRASE finds verb phrases."""
    return "".join([VERB_LETTERS.get(pos, "-") for pos in a.pos])


def is_word(annotation: Annotation, token: int) -> bool:
    """Return whether a token is a bounded word with a letter or a digit."""
    start = annotation.starts[token]
    end = annotation.ends[token]
    text = annotation.text
    return is_bounded(text, start, end) and (text[start].isalnum() or any(map(str.isalnum, text[start:end])))


def leads_sentence(annotation: Annotation, start: int) -> bool:
    """Return whether a sentence with a capital first letter begins at this character."""
    return annotation.text[start].isupper() and any(begin == start for begin, _ in annotation.sentences)


def adapt_case(annotation: Annotation, span: Span, leading: bool) -> str:
    """Return the text of a token span as it is written elsewhere: capitalised only if `leading`.

    Names keep theirs, and so do "I" and words in capitals.
    """
    start, end = annotation.chars(span)
    words = annotation.text[start:end]
    if leading:
        return capitalize_first(words)
    if not leads_sentence(annotation, start) or annotation.pos[span[0]] == "PROPN":
        return words
    first = annotation.word(span[0])
    return words if first == "I" or first[:2].isupper() and len(first) > 1 else words[0].lower() + words[1:]


def replace_span(text: str, span: Span, words: str) -> str:
    """Return `text` with the characters of `span` replaced."""
    return text[: span[0]] + words + text[span[1] :]


def exchange_spans(annotation: Annotation, x: Span, y: Span, word_before: str = "") -> str:
    """Return the text with two token spans (x before y, not overlapping) exchanged; y takes a word along."""
    text = annotation.text
    start_x = annotation.starts[x[0]]
    end_x = annotation.ends[x[1] - 1]
    start_y = annotation.starts[y[0]]
    end_y = annotation.ends[y[1] - 1]
    words_x = text[start_x:end_x]
    words_y = text[start_y:end_y]
    if words_x[0].isupper() or words_y[0].isupper():  # else no case changes
        leads = leads_sentence(annotation, start_x)
        words_x = adapt_case(annotation, x, leads_sentence(annotation, start_y))
        words_y = adapt_case(annotation, y, leads and not word_before)
        word_before = capitalize_first(word_before) if leads else word_before
    if word_before:
        words_y = f"{word_before} {words_y}"
    return text[:start_x] + words_y + text[end_x:start_y] + words_x + text[end_y:]


def write_words(annotation: Annotation, edits: Iterable[Edit]) -> str:
    """Return the text with words written at token spans, capitalised at the beginning of a sentence.

    Edits are in the order of the text.
    """
    text = annotation.text
    end = 0
    parts = []
    for span, words in edits:
        start = annotation.starts[span[0]]
        parts += [text[end:start], capitalize_first(words) if leads_sentence(annotation, start) else words]
        end = annotation.ends[span[1] - 1]
    return "".join([*parts, text[end:]])


def repeats_word(text: str, original: str) -> bool:
    """Return whether a word stands twice in a row in `text` where it does not in `original`: "the train train"."""
    return any(match[0] not in original for match in _REPEATED.finditer(text))


def equal_ignoring_case(a: str, b: str) -> bool:
    """Return whether two texts are equal but for case: such a text is no negative."""
    return a.casefold() == b.casefold()
