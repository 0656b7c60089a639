"""Negatives by denial: what a caption says is there is said not to be.

`crepe` is of the kind of CREPE's negations (Ma et al., CVPR 2023), whose program was not released: one of three kinds,
a verb or what is said of a noun ("not"), what something is with ("without"), a thing itself ("no"). `conclip` denies a
thing that is not the first (CoN-CLIP, Singh et al., WACV 2025), for data without the authors' sentences. Both rules are
ours. A caption that denies something already gives none.
"""

from __future__ import annotations

import numpy as np

from compclip.text import edits
from compclip.text.annotation import Annotation
from compclip.text.words import words

Change = tuple[int, int, str]  # characters, and what stands there then
DENIED = words("no not n't never without nothing nobody none neither nor cannot")
INDEFINITE = words("a an some any")
BE = words("is are was were am 's 're")
OBJECTS = ("dobj", "pobj", "conj", "attr", "dep")


def crepe(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing said: each kind of place that the caption has is as likely as another; None where it has none."""
    kinds = [places for kind in (_predicates, _withs, _things) if (places := kind(annotation))]
    return _changed(annotation, kinds[rng.integers(len(kinds))], rng) if kinds and not denies(annotation) else None


def conclip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing beside the first, by "no" or "without"; None for a caption that names no other."""
    places = [*_withs(annotation), *_things(annotation)]
    return _changed(annotation, places, rng) if places and not denies(annotation) else None


def denies(a: Annotation) -> bool:
    """Whether a caption denies something."""
    return any(a.word(t).lower() in DENIED for t in range(len(a)))


def _changed(a: Annotation, places: list[Change], rng: np.random.Generator) -> str:
    start, end, new = places[rng.integers(len(places))]
    return edits.put(a.text, (start, end), new)


def _predicates(a: Annotation) -> list[Change]:
    """A "not" after a form of "be", and before a participle that says something of the noun in front of it."""
    found = []
    for t in range(len(a)):
        if a.word(t).lower() in BE and a.pos[t] in ("AUX", "VERB") and t + 1 < len(a):
            found.append((a.ends[t], a.ends[t], " not"))
        elif a.dep[t] in ("acl", "relcl") and a.tag[t] in ("VBG", "VBN") and edits.is_word(a, t) and _follows(a, t):
            found.append((a.starts[t], a.starts[t], "not "))
    return found


def _follows(a: Annotation, token: int) -> bool:
    return token > 0 and a.pos[token - 1] in ("NOUN", "PROPN")


def _withs(a: Annotation) -> list[Change]:
    """A "without" for a "with" that has an object."""
    has = {a.heads[t] for t, dep in enumerate(a.dep) if dep == "pobj"}
    found = [t for t in range(len(a)) if a.word(t).lower() == "with" and a.pos[t] == "ADP" and t in has]
    return [(a.ends[t], a.ends[t], "out") for t in found if edits.is_word(a, t)]


def _things(a: Annotation) -> list[Change]:
    """A "no" for "a", "an" or "some" before a thing that is not what the caption begins with."""
    found = []
    for low, high in a.chunks:
        article = low < high - 1 and a.word(low).lower() in INDEFINITE and a.dep[high - 1] in OBJECTS
        if article and low > 0 and edits.is_word(a, low) and not _is_with(a, low - 1):
            found.append((a.starts[low], a.ends[low], "no"))
    return found


def _is_with(a: Annotation, token: int) -> bool:
    return a.word(token).lower() == "with"
