"""Units of a caption with their foils: an entity or a relation, and the same with one detail changed (CS-CLIP, Sec. 4).

Ours after the released sampler, from the parse and stored words in place of a language model's. A relation is "subject
relation object"; its foil exchanges the two, unless each is beside the other, or puts another word for the
relation, or for the head of one of them. A word of place gives way to one that excludes it (`fitting_words`), other
prepositions stay. An entity is a noun phrase, half of the time joined with another one of the caption by "and".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compclip.text import fitting_words, replace, scene_graph, swap, word_edits
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

Foil = Callable[[], str]  # draws a word where it has to


@reads_columns("tokens", "chunks", "lemma", "candidates")
def draw(annotation: Annotation, rng: np.random.Generator) -> tuple[str, str] | None:
    """Draw a relation and its foil; an entity and its foil where the caption has no relation."""
    return relation(annotation, rng) or entity(annotation, rng)


def relation(annotation: Annotation, rng: np.random.Generator) -> tuple[str, str] | None:
    """Draw a relation of the caption and one of its foils; None where it has none."""
    relations = scene_graph.read_relations(annotation)
    for i in rng.permutation(len(relations)):
        foils = _relation_foils(annotation, relations[i], rng)
        if foils:
            return _join(annotation, relations[i]), foils[rng.integers(len(foils))]()
    return None


def entity(annotation: Annotation, rng: np.random.Generator) -> tuple[str, str] | None:
    """Draw an entity for whose head a word is stored, and the same with that word; None where there is none."""
    elements = scene_graph.read_entities_and_attributes(annotation)
    entities = [e.root for e in elements if e.kind == scene_graph.ENTITY and annotation.pos[e.root] != "PRON"]
    replaceable = [token for token in entities if annotation.candidates[token]]
    if not replaceable:
        return None
    token = replaceable[rng.integers(len(replaceable))]
    unit = _phrase(annotation, token)
    foil = _other_phrase(annotation, token, rng)
    other_entities = [entity for entity in entities if entity != token]
    if other_entities and rng.random() < 0.5:
        other_phrase = _phrase(annotation, other_entities[rng.integers(len(other_entities))])
        if rng.random() < 0.5:
            return f"{other_phrase} and {unit}", f"{other_phrase} and {foil}"
        return f"{unit} and {other_phrase}", f"{foil} and {other_phrase}"
    return unit, foil


@reads_columns("tokens", "sentences", "chunks", "verbs", "candidates")
def caption_foil(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two parts of the caption; where it has no two, replace an entity by a stored word."""
    return swap.negclip(annotation, rng) or replace.of_pos("NOUN", "PROPN")(annotation, rng)


def _relation_foils(a: Annotation, r: scene_graph.Relation, rng: np.random.Generator) -> list[Foil]:
    foils: list[Foil] = []
    relation = a.text[slice(*a.chars(r.span))]
    are_equal = word_edits.equal_ignoring_case(_phrase(a, r.subject), _phrase(a, r.object))
    if not are_equal and not scene_graph.is_mutual(relation):
        foils.append(lambda: _join(a, r._replace(subject=r.object, object=r.subject)))
    if a.pos[r.root] == "ADP":
        places = fitting_words.find_fitting(a, "action", a.chars(r.span))
        if places and fitting_words.LAST_RESORT not in places:
            foils.append(lambda: _join(a, r, related=places[rng.integers(len(places))]))
    elif a.candidates[r.root]:
        foils.append(lambda: _join(a, r, related=_draw_word(a, r.root, rng)))
    if a.candidates[r.subject]:
        foils.append(lambda: _join(a, r, subject=_other_phrase(a, r.subject, rng)))
    if a.candidates[r.object]:
        foils.append(lambda: _join(a, r, object=_other_phrase(a, r.object, rng)))
    return foils


def _join(a: Annotation, r: scene_graph.Relation, subject: str = "", related: str = "", object: str = "") -> str:
    related = related or a.text[slice(*a.chars(r.span))]
    return f"{subject or _phrase(a, r.subject)} {related} {object or _phrase(a, r.object)}"


def _phrase(a: Annotation, entity: int) -> str:
    return a.text[slice(*scene_graph.find_phrase(a, entity))]


def _other_phrase(a: Annotation, entity: int, rng: np.random.Generator) -> str:
    """Return an entity's phrase with a stored word in the place of its head."""
    start, end = scene_graph.find_phrase(a, entity)
    head_start, head_end = a.chars((entity, entity + 1))
    return a.text[start:head_start] + _draw_word(a, entity, rng) + a.text[head_end:end]


def _draw_word(a: Annotation, token: int, rng: np.random.Generator) -> str:
    return a.candidates[token][rng.integers(len(a.candidates[token]))]
