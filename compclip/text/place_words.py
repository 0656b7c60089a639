"""Left and right as words of place: taggers take half of them for forms of "leave" or for adverbs ("right").

They are words of place behind "the", a possessive, "to" or "on", and before "of", "side", "hand" and the like; then the
other side is what makes a caption wrong.
"""

from __future__ import annotations

from dataclasses import replace

from compclip.text import word_edits
from compclip.text.annotation import Annotation
from compclip.text.word_edits import word_set

OPPOSITES = {"left": "right", "right": "left"}
BEFORE = word_set(
    "the its his her their my your our far top bottom upper lower front back on to turn turns turning turned"
)
BEHIND = word_set(
    "of side sides hand hands corner corners edge half foot leg arm arms ear eye end lane wall page portion part third "
    "bottom top front back paw shoulder wing"
)


def correct(a: Annotation) -> Annotation:
    """Return the annotation with "left" and "right" as nouns and adjectives where they say a place."""
    places = [t for t in range(len(a)) if is_place(a, t)]
    if not places:
        return a
    pos, tag, lemma = list(a.pos), list(a.tag), list(a.lemma)
    for t in places:
        is_adjective = t + 1 < len(a) and a.word(t + 1).lower() in BEHIND - {"of"}
        pos[t], tag[t] = ("ADJ", "JJ") if is_adjective else ("NOUN", "NN")
        lemma[t] = a.word(t).lower()
    return replace(a, pos=tuple(pos), tag=tuple(tag), lemma=tuple(lemma))


def is_place(a: Annotation, token: int) -> bool:
    """Return whether a token is "left" or "right" as a place: not in "he left the room"."""
    if a.word(token).lower() not in OPPOSITES or not word_edits.is_word(a, token):
        return False
    before = a.word(token - 1).lower() if token else ""
    behind = a.word(token + 1).lower() if token + 1 < len(a) else ""
    if before in BEFORE:
        return behind not in ("a", "an", "the", "behind")
    return behind in BEHIND


def find_opposite(a: Annotation, token: int) -> str:
    """Return the other side, written as the token is, "" for a token that is none."""
    if not is_place(a, token):
        return ""
    word, opposite = a.word(token), OPPOSITES[a.word(token).lower()]
    if word.isupper():
        return opposite.upper()
    return opposite.capitalize() if word[0].isupper() else opposite
