"""The sentences of captions (CLIC B.1): openings such as "This image depicts:" go, sentences of 4 to 34 words stay.

The released splitter cuts at every full stop and so damages decimals and abbreviations; this one does not.
"""

from __future__ import annotations

import re

import numpy as np

from compclip.text import lexicon
from compclip.text.annotation import Annotation, Span
from compclip.text.rule_columns import reads_columns
from compclip.text.word_edits import capitalize_first, word_set

_LISTS = lexicon.TABLES["sentences"]
MIN_WORDS = 4
MAX_WORDS = 34
# how sentences end: as they are, or as in CLIC's released code
UNCHANGED_ENDS = "kept"
CLIC_ENDS = "clic"

_OPENING = re.compile(
    r"""\s*(?:in\s+)?(?:this|the)\s+(?:\w+\s+)?(?:image|picture|photo|photograph)\s+
    (?:(?:depict|show|demonstrate|display|feature|illustrate|present|capture|portray)s?|is\s+(?:of|showing|depicting))
    (?!\s+that\b)(?:\s*:\s*|\s+)(?=\S)""",
    re.IGNORECASE | re.VERBOSE,
)
_CLIC = re.compile(
    r"""\s*(?:(?:(?:The|This)\s+image\s+(?:displays|showcases|shows|is|features|depicts|illustrates)
    |This\s+image\s+appears\s+to\s+be|a\s+(?:digital|graphic)\s+representation\s+of
    |a\s+collection\s+of|a\s+screenshot\s+of)\s+)+(?=\S)""",
    re.VERBOSE,
)
_CLOSERS = "\"'”’»)]}"
_END = re.compile(
    rf"""(?P<stop>(?<![.!?…])[.!?…]++[{re.escape(_CLOSERS)}]*+)(?=\s|$)
    |(?P<joint>(?<=[a-z][a-z])[.!?])(?=[A-Z][a-z])
    |(?P<paragraph>\n[^\S\n]*\n)""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W_]")  # a letter or a digit
_SPACE = re.compile(r"\s*")
_LONGEST = 20  # no abbreviation is longer
_NEXT_WORD = re.compile(r"[\"“‘'(\[]*([\w']+)")
_LETTERS = re.compile(r"(?:[a-z]\.)*[a-z]", re.IGNORECASE)

# never the end of a sentence / its end only where what follows looks like a beginning
_TITLES = word_set(_LISTS["titles"])
_ENDINGS = word_set(_LISTS["endings"])
_BEFORE_NUMBER = word_set("no nos nr p")
_OPENERS = word_set(_LISTS["openers"])


def clean(text: str) -> str:
    """Drop an opening like "This picture shows:" and capitalise what remains."""
    match = _OPENING.match(text)
    return capitalize_first(text[match.end() :]) if match else text


def clean_clic(text: str) -> str:
    """Drop the openings that CLIC's released program drops: more of them, and with these capitals only.

    "The image is a collection of" is dropped whole; what remains keeps its small letter.
    """
    match = _CLIC.match(text)
    return text[match.end() :] if match else text


CLEAN = {"usual": clean, "clic": clean_clic}


def split(text: str) -> list[Span]:
    """Return the character spans of the sentences, with end marks and without the white space between them.

    A sentence ends at `.`, `!`, `?` or `…` before white space, at a full stop glued between two words ("mat.The"), and
    at an empty line; not within numbers, abbreviations, initials or list numbers.
    """
    spans: list[Span] = []
    begin = _skip_space(text, 0)
    last = len(text.rstrip())
    word = _WORD.search(text)
    first = word.start() if word else last  # end marks before any word end nothing
    for match in _END.finditer(text, first):
        if match.start() < begin or (match["stop"] and not _is_end(text, begin, match)):
            continue
        end = begin + len(text[begin : match.start()].rstrip()) if match["paragraph"] else match.end()
        _append(spans, text, begin, end)
        begin = _skip_space(text, match.end())
    if begin < last:
        _append(spans, text, begin, last)
    return spans


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None  # the pattern matches nothing too
    return match.end()


def _append(spans: list[Span], text: str, begin: int, end: int) -> None:
    """Append a sentence; one without a word joins the sentence before it."""
    if spans and not _WORD.search(text, begin, end):
        spans[-1] = (spans[-1][0], end)
    else:
        spans.append((begin, end))


def has_training_length(sentence: str) -> bool:
    """Return whether a sentence has 4 to 34 words; a word holds a letter or a digit."""
    return MIN_WORDS <= sum(_WORD.search(w) is not None for w in sentence.split()) <= MAX_WORDS


def training_sentences(text: str) -> list[str]:
    """Return the cleaned caption's sentences of 4 to 34 words, in order."""
    text = clean(text)
    sentences = [text[low:high] for low, high in split(text)]
    return list(filter(has_training_length, sentences))


def _is_end(text: str, begin: int, match: re.Match) -> bool:
    """Return whether the end mark of `match` ends the sentence that began at `begin`."""
    following = _NEXT_WORD.match(text, _skip_space(text, match.end()))
    if following is None:
        return True
    word = following[1]
    mark = match["stop"]
    if mark != ".":
        return not word[0].islower() or mark in ("!", "?")
    preceding = text[max(begin, match.start() - _LONGEST) : match.start()]
    last = re.split(r"[\s(\[{\"“‘']", preceding)[-1]
    low = last.lower()
    is_alone = match.start() - len(last) == begin
    if low in _TITLES or (is_alone and low.isdigit()) or (low in _BEFORE_NUMBER and word[0].isdigit()):
        return False
    if low in _ENDINGS or _LETTERS.fullmatch(last):
        return word[0].isupper() and word.lower() in _OPENERS
    return True


# --- of an annotated caption ------------------------------------------------------------------------------------


def first(annotation: Annotation) -> Annotation:
    """Return the first sentence of `select` without making the others."""
    for i, (begin, end) in enumerate(annotation.sentences):
        if has_training_length(annotation.text[begin:end]):
            return annotation.sentence(i)
    return annotation.sentence(0) if annotation.sentences else annotation


@reads_columns("sentences")
def first_of_several(annotation: Annotation, _rng: np.random.Generator) -> str | None:
    """Return the first sentence of a caption of several, as a rule; None for a caption of one."""
    return first(annotation).text if len(annotation.sentences) > 1 else None


def select(annotation: Annotation) -> tuple[Annotation, ...]:
    """Return the caption's sentences of 4 to 34 words (CLIC B.1) as annotations, or all sentences if none fits."""
    sentences = tuple(annotation.sentence(i) for i in range(len(annotation.sentences))) or (annotation,)
    return tuple(p for p in sentences if has_training_length(p.text)) or sentences


def first_nouns(annotation: Annotation) -> list[str]:
    """Return the nouns of a caption's first sentence in lower case, each once, in the order of the text."""
    sentence = first(annotation)
    return list(dict.fromkeys(sentence.word(t).casefold() for t, pos in enumerate(sentence.pos) if pos == "NOUN"))


def join(first: str, second: str) -> str:
    """Join two sentences by a full stop and a space; a question or exclamation keeps its mark."""
    first = first.rstrip()
    if first.endswith(("!", "?")):
        return f"{first} {second}"
    return f"{first.rstrip('. ')}. {second}"


def join_ended(first: str, second: str) -> str:
    """Join two sentences as CLIC's released code does: each ends with a full stop, after any other mark."""
    first = first.rstrip()
    second = second.rstrip()
    return f"{first.removesuffix('.')}. {second.removesuffix('.')}."


def strip_full_stop(text: str) -> str:
    """Return a sentence without its full stop."""
    return text.rstrip().rstrip(".").rstrip()


JOINS = {UNCHANGED_ENDS: join, CLIC_ENDS: join_ended}
