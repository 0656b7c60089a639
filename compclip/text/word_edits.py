"""What the rewriting rules share: which words may be changed, and how a word is written elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from compclip.text.annotation import Annotation, Span

_BEFORE = frozenset('"“”„«([{—')
_AFTER = frozenset('"“”»)]}—.,;:!?…')


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, which white space separates."""
    return frozenset(text.split())


def capitalize_first(words: str) -> str:
    """Return the words with a capital first letter; the other letters stay."""
    return words[:1].upper() + words[1:]


def is_bounded(text: str, start: int, end: int) -> bool:
    """Return whether only white space or punctuation touches text[start:end] ("man's" and "T-shirt" stay whole)."""
    if start and not (text[start - 1].isspace() or text[start - 1] in _BEFORE):
        return False
    if end == len(text) or text[end].isspace():
        return True
    return text[end] in _AFTER and not text[end + 1 : end + 2].isalnum()  # not within "dog.jpg"


def is_word(annotation: Annotation, token: int) -> bool:
    """Return whether a token is a bounded word with a letter or a digit."""
    start, end = annotation.starts[token], annotation.ends[token]
    text = annotation.text
    return any(map(str.isalnum, text[start:end])) and is_bounded(text, start, end)


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


def exchange_spans(annotation: Annotation, x: Span, y: Span) -> str:
    """Return the text with two token spans (x before y, not overlapping) exchanged."""
    text, low, high = annotation.text, annotation.chars(x), annotation.chars(y)
    first = adapt_case(annotation, y, leads_sentence(annotation, low[0]))
    second = adapt_case(annotation, x, leads_sentence(annotation, high[0]))
    return text[: low[0]] + first + text[low[1] : high[0]] + second + text[high[1] :]


def write_words(annotation: Annotation, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with words written at tokens: each edit has the token, where the word is from, and the word.

    Edits stand in the order of the text. A word that comes from the beginning of a sentence loses its capital, and one
    that goes there gets one.
    """
    text, end, parts = annotation.text, 0, []
    for token, source, word in edits:
        start = annotation.starts[token]
        if leads_sentence(annotation, annotation.starts[source]) and annotation.pos[source] != "PROPN":
            word = word[:1].lower() + word[1:]
        parts += [text[end:start], capitalize_first(word) if leads_sentence(annotation, start) else word]
        end = annotation.ends[token]
    return "".join([*parts, text[end:]])


def equal_ignoring_case(a: str, b: str) -> bool:
    """Return whether two texts are equal but for case: such a text is no negative."""
    return a.casefold() == b.casefold()
