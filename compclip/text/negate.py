"""Negatives by denial: what a caption says is there is said not to be.

`crepe` is of the kind of CREPE's negations (Ma et al., CVPR 2023), whose program was not released: one of three kinds,
a verb or what is said of a noun ("not"), what something is with ("without"), a thing itself ("no", "not in a blue
shirt", "but not on a bench"). `conclip` denies a thing that is not the first (CoN-CLIP, Singh et al., WACV 2025), for
data without the authors' sentences. Both rules are ours. A caption that denies something already gives none.

The rules `…_released` put "no" before any thing ("sliding down no slide"), and know no other form of a verb than
"be", as ours did first and the published negatives of both papers do in part.
"""

from __future__ import annotations

import numpy as np

from compclip.text import caption_words, lexicon, scene_graph, word_edits
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

_LISTS = lexicon.TABLES["negate"]
Edit = tuple[int, int, str]  # characters, and what stands there then
DENIED = word_edits.word_set("no not n't never without nothing nobody none neither nor cannot")
INDEFINITE = word_edits.word_set("a an some any")
BE = word_edits.word_set("is are was were am 's 're")
OBJECTS = ("dobj", "pobj", "conj", "attr", "dep")
FINITE = {"VBZ": "does not", "VBP": "do not", "VBD": "did not"}
SUBJECTS = ("nsubj", "nsubjpass", "expl")
AUXILIARIES = ("aux", "auxpass", "neg", "prt")  # beside such a word a verb takes no "does not"
# where something is or goes: what can be denied of a thing and of a verb
PLACES = word_edits.word_set(_LISTS["places"])
MOVEMENTS = word_edits.word_set("into onto towards toward through across along around over down past")  # ways, of verbs
# verbs that ask for a place or a thing: "attached, but not to a rope" is none of theirs
GOVERNING = word_edits.word_set(_LISTS["governing"])
WITH = word_edits.word_set("cover fill decorate surround top line dress pack load equip adorn mix pair talk deal face")
NO_STATEMENTS = WITH | {"be"}
PARTS = word_edits.word_set(_LISTS["parts"])


@reads_columns("tokens", "chunks", "lemma")
def crepe(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing; every kind of edit that the caption allows has the same chance. None where it allows none."""
    places = _find_objects_and_places(annotation)
    return _deny_one(annotation, [_find_statements(annotation), _find_companions(annotation), places], rng)


@reads_columns("tokens", "chunks")
def crepe_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing by "not", "without" or "no", wherever it stands; None where the caption allows none."""
    things = _find_things(annotation)
    return _deny_one(annotation, [_find_predicates(annotation), _find_withs(annotation), things], rng)


@reads_columns("tokens", "chunks", "lemma")
def conclip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing that is not the first; None for a caption without such a thing."""
    return _deny_one(annotation, [_find_companions(annotation) + _find_objects_and_places(annotation)], rng)


@reads_columns("tokens", "chunks")
def conclip_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Deny one thing that is not the first, by "no" or "without"; None for a caption without such a thing."""
    return _deny_one(annotation, [_find_withs(annotation) + _find_things(annotation)], rng)


def denies(a: Annotation) -> bool:
    """Return whether a caption denies something."""
    return not DENIED.isdisjoint(a.lower_words())


def _deny_one(a: Annotation, kinds: list[list[Edit]], rng: np.random.Generator) -> str | None:
    """Make one edit, each kind that has some by the same chance; None for a caption that denies something already."""
    kinds = list(filter(None, kinds))
    if not kinds or denies(a):
        return None
    edits = kinds[rng.integers(len(kinds))]
    start, end, new = edits[rng.integers(len(edits))]
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
    edits = []
    for t, word in enumerate(a.lower_words()):
        is_with = word == "with" and a.pos[t] == "ADP" and word_edits.is_word(a, t)
        if is_with and a.dependents(t, "pobj"):
            edits.append((a.ends[t], a.ends[t], "out"))
    return edits


def _find_things(a: Annotation) -> list[Edit]:
    """Find each "a", "an" or "some" that becomes "no": before a thing that does not begin the caption."""
    edits = []
    for low, high in a.chunks:
        article = low < high - 1 and a.word(low).lower() in INDEFINITE and a.dep[high - 1] in OBJECTS
        if article and low > 0 and word_edits.is_word(a, low) and a.word(low - 1).lower() != "with":
            edits.append((a.starts[low], a.ends[low], "no"))
    return edits


def _find_statements(a: Annotation) -> list[Edit]:
    """Find verbs and what is said of nouns: as `_find_predicates`, and finite verbs, by "does not"."""
    edits = _find_predicates(a)
    for t, tag in enumerate(a.tag):
        lemma = a.lemma[t].lower()
        if tag not in FINITE or a.pos[t] != "VERB" or a.dep[t] == "conj" or lemma in NO_STATEMENTS:
            continue
        verbs = [a.pos[verb] for verb in a.dependents(t, "conj")]  # "jumps and runs"
        helpers = [a.pos[helper] for helper in a.dependents(t, *AUXILIARIES)]
        is_left_alone = "VERB" in verbs or "AUX" in helpers or "PART" in helpers
        if a.dependents(t, *SUBJECTS) and not is_left_alone and word_edits.is_word(a, t):
            edits.append((a.starts[t], a.ends[t], f"{FINITE[tag]} {lemma}"))
    return edits


def _find_companions(a: Annotation) -> list[Edit]:
    """Find each "with" before a thing, which becomes "without": not "filled with", nor "with each other"."""
    things = {a.heads[t]: t for t, dep in enumerate(a.dep) if dep == "pobj" and a.pos[t] in ("NOUN", "PROPN")}
    edits = []
    for t, thing in sorted(things.items()):
        before = a.word(t - 1).lower() if t else ""
        is_bound = before in ("along", "together", "up") or a.lemma[a.heads[t]].lower() in WITH
        is_with = a.word(t).lower() == "with" and word_edits.is_word(a, t)
        if is_with and not is_bound and a.lemma[thing].lower() not in PARTS:
            edits.append((a.ends[t], a.ends[t], "out"))
    return edits


def _find_objects_and_places(a: Annotation) -> list[Edit]:
    """Find objects, which get "no", and places: "not" before those of a thing, "but not" before those of a verb."""
    scene_phrases = {span[1] - 1: span[0] for span in scene_graph.find_phrases(a)}
    edits = []
    for low, high in a.chunks:
        noun = high - 1
        article = a.word(low).lower()
        if low == 0 or a.pos[noun] != "NOUN" or a.lemma[noun].lower() in PARTS or not word_edits.is_word(a, low):
            continue
        if a.dep[low - 1] == "prt" and a.word(low - 1).lower() in PLACES:  # "sliding down a slide", by some parses
            edits.append((a.starts[low - 1], a.starts[low - 1], "but not "))
        elif a.dep[noun] == "pobj":
            edits += _deny_place(a, a.heads[noun], scene_phrases)
        elif low < noun and article in INDEFINITE and _takes_no(a, noun):
            edits.append((a.starts[low], a.ends[low], "no"))
    return edits


def _takes_no(a: Annotation, noun: int) -> bool:
    """Return whether a noun is an object, what is there, or joined to something that is no subject."""
    if a.dep[noun] == "conj":
        first = noun
        while a.dep[first] == "conj" and a.heads[first] < first:
            first = a.heads[first]
        return a.dep[first] not in SUBJECTS and a.dep[first] != "ROOT" and a.pos[first] == "NOUN"
    return a.dep[noun] in ("dobj", "attr")


def _deny_place(a: Annotation, preposition: int, phrases: dict[int, int]) -> list[Edit]:
    first = phrases.get(preposition, preposition)
    holder = a.heads[first]
    if first == 0 or a.dep[first] != "prep" or not (preposition in phrases or a.word(preposition).lower() in PLACES):
        return []
    if a.pos[holder] == "NOUN" and holder == first - 1:
        lemma = a.lemma[holder].lower()
        is_verb = a.dep[holder] in ("ROOT", "conj") and lemma in caption_words.WORDS["v"]  # "sheep graze", by a slip
        is_of_verb = is_verb or a.word(preposition).lower() in MOVEMENTS or lemma in PARTS
        return [(a.starts[first], a.starts[first], "but not " if is_of_verb else "not ")]
    is_governed = a.lemma[holder].lower() in GOVERNING or a.pos[first - 1] in ("ADP", "CCONJ")
    return [(a.starts[first], a.starts[first], "but not ")] if a.pos[holder] == "VERB" and not is_governed else []
