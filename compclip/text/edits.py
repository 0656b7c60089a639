"""What the rewriting rules share: which words may be touched, and how a word changes its place."""

from __future__ import annotations

from compclip.text.annotation import Annotation, Span

_BEFORE = frozenset('"“”„«([{—')
_AFTER = frozenset('"“”»)]}—.,;:!?…')


def bounded(text: str, start: int, end: int) -> bool:
    """Whether only white space or sentence punctuation touches text[start:end] ("man's" and "T-shirt" stay whole)."""
    if start and not (text[start - 1].isspace() or text[start - 1] in _BEFORE):
        return False
    if end == len(text) or text[end].isspace():
        return True
    return text[end] in _AFTER and not text[end + 1 : end + 2].isalnum()  # not within "dog.jpg"


def is_word(annotation: Annotation, token: int) -> bool:
    """Whether a token is a bounded word with a letter or a digit."""
    start, end = annotation.starts[token], annotation.ends[token]
    text = annotation.text
    return any(map(str.isalnum, text[start:end])) and bounded(text, start, end)


def leads(annotation: Annotation, start: int) -> bool:
    """Whether a sentence with a capital first letter begins at this character."""
    return annotation.text[start].isupper() and any(begin == start for begin, _ in annotation.sentences)


def moved(annotation: Annotation, span: Span, to_lead: bool) -> str:
    """The text of a token span as it should be written elsewhere: a capital only where it stands at a beginning.

    Names keep theirs, and so do "I" and words in capitals.
    """
    start, end = annotation.chars(span)
    words = annotation.text[start:end]
    if to_lead:
        return words[0].upper() + words[1:]
    if not leads(annotation, start) or annotation.pos[span[0]] == "PROPN":
        return words
    first = annotation.word(span[0])
    return words if first == "I" or first[:2].isupper() and len(first) > 1 else words[0].lower() + words[1:]


def put(text: str, span: Span, words: str) -> str:
    """`text` with the characters of `span` replaced."""
    return text[: span[0]] + words + text[span[1] :]


def exchange(annotation: Annotation, x: Span, y: Span) -> str:
    """The text with two token spans (x before y, not overlapping) in each other's place."""
    text, low, high = annotation.text, annotation.chars(x), annotation.chars(y)
    first = moved(annotation, y, leads(annotation, low[0]))
    second = moved(annotation, x, leads(annotation, high[0]))
    return text[: low[0]] + first + text[low[1] : high[0]] + second + text[high[1] :]


def same(a: str, b: str) -> bool:
    """Whether two texts differ in case at most: such a text is no negative."""
    return a.casefold() == b.casefold()
