"""Negatives by denial: what a caption says is there is said not to be.

`crepe` is of the kind of CREPE's negations (Ma et al., CVPR 2023), whose program was not released: one of three kinds,
a verb or what is said of a noun ("not"), what something is with ("without"), a thing itself ("no"). `conclip` denies a
thing that is not the first (CoN-CLIP, Singh et al., WACV 2025), for data without the authors' sentences. Both rules are
ours. A caption that denies something already gives none.
"""

from __future__ import annotations

import numpy as np

from compclip.text import word_edits
from compclip.text.annotation import Annotation

Edit = tuple[int, int, str]  # characters, and what stands there then
DENIED = word_edits.word_set("no not n't never without nothing nobody none neither nor cannot")
INDEFINITE = word_edits.word_set("a an some any")
BE = word_edits.word_set("is are was were am 's 're")
OBJECTS = ("dobj", "pobj", "conj", "attr", "dep")


def crepe(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing; every kind of edit that the caption allows has the same chance. None where it allows none."""
    kinds = [places for kind in (_find_predicates, _find_withs, _find_things) if (places := kind(annotation))]
    return _apply_one(annotation, kinds[rng.integers(len(kinds))], rng) if kinds and not denies(annotation) else None


def conclip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing that is not the first, by "no" or "without"; None for a caption without such a thing."""
    places = [*_find_withs(annotation), *_find_things(annotation)]
    return _apply_one(annotation, places, rng) if places and not denies(annotation) else None


def denies(a: Annotation) -> bool:
    """Return whether a caption denies something."""
    return any(a.word(t).lower() in DENIED for t in range(len(a)))


def _apply_one(a: Annotation, places: list[Edit], rng: np.random.Generator) -> str:
    start, end, new = places[rng.integers(len(places))]
    return word_edits.replace_span(a.text, (start, end), new)


def _find_predicates(a: Annotation) -> list[Edit]:
    """Find where "not" fits: after a form of "be", and before a participle that modifies the noun before it."""
    edits = []
    for t in range(len(a)):
        if a.word(t).lower() in BE and a.pos[t] in ("AUX", "VERB") and t + 1 < len(a):
            edits.append((a.ends[t], a.ends[t], " not"))
            continue
        is_participle = a.dep[t] in ("acl", "relcl") and a.tag[t] in ("VBG", "VBN")
        if is_participle and word_edits.is_word(a, t) and t > 0 and a.pos[t - 1] in ("NOUN", "PROPN"):
            edits.append((a.starts[t], a.starts[t], "not "))
    return edits


def _find_withs(a: Annotation) -> list[Edit]:
    """Find each "with" that has an object, which becomes "without"."""
    has = {a.heads[t] for t, dep in enumerate(a.dep) if dep == "pobj"}
    tokens = [t for t in range(len(a)) if a.word(t).lower() == "with" and a.pos[t] == "ADP" and t in has]
    return [(a.ends[t], a.ends[t], "out") for t in tokens if word_edits.is_word(a, t)]


def _find_things(a: Annotation) -> list[Edit]:
    """Find each "a", "an" or "some" that becomes "no": before a thing that does not begin the caption."""
    edits = []
    for low, high in a.chunks:
        article = low < high - 1 and a.word(low).lower() in INDEFINITE and a.dep[high - 1] in OBJECTS
        if article and low > 0 and word_edits.is_word(a, low) and a.word(low - 1).lower() != "with":
            edits.append((a.starts[low], a.ends[low], "no"))
    return edits
