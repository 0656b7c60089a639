"""Read a caption's scene from its parse: entities, their attributes, and the relations between them.

An entity is a noun chunk, called by its head; an attribute an adjective or participle before it, or after a copula; a
relation a preposition (or several words that serve as one, "in front of") or a verb between two entities. The nouns
within such words ("front") are no entities. Our own reading, of the kind that CLoVe's rule replaces words by.

The prepositions of English, of one word or several, come with how often each stands in captions of photographs: counted
by `python -m perf.truth.text_shares --prepositions` over the captions of COCO (770) and Flickr8k (5,000) in the shared
data, as a relation between two things, by `read_scene`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from compclip.text import lexicon, word_edits
from compclip.text.annotation import Annotation, Span, Weighted

ENTITY = "entity"
ATTRIBUTE = "attribute"
RELATION = "relation"
SUBJECTS = ("nsubj", "nsubjpass")
OF_NOUNS = ("acl", "relcl")  # the noun is the subject of such a verb
OF_VERBS = ("conj", "advcl", "xcomp", "ccomp", "pcomp")  # a verb without a subject has that of the verb above
DEPTH = 8  # verbs above a verb
MODIFIERS = ("amod", "det", "nummod")
COMPLEMENTS = ("prep", "xcomp", "ccomp", "pcomp", "npadvmod")  # of an adjective
PREDICATIVE = word_edits.word_set(
    "able afraid alike alive alone ashamed asleep awake aware due next ready unable visible"
)

PREPOSITIONS = lexicon.TABLES["scene_graph"]["prepositions"]  # each with its count
COUNTS: dict[str, int] = {}
for _entry in word_edits.split_phrases(PREPOSITIONS):
    _name, _, _count = _entry.rpartition(" ")
    COUNTS[_name] = int(_count)
PHRASES = frozenset(tuple(name.split()) for name in COUNTS if " " in name)
MUTUAL = (" near", " next to", " beside", " close to", " alongside")  # ends of relations that hold both ways
DENIALS = ("no", "neither")  # determiners of what is not there
OF_ACTIONS = ("to", "for")  # prepositions that say nothing without the verb above them
AIMED = word_edits.word_set("look stare star gaze glance smile point wave aim bark laugh")  # with "at"; "staring"
LONGEST = max(map(len, PHRASES), default=0)


class Relation(NamedTuple):
    """A relation between two entities: tokens of subject and object, and the span and root of what relates them."""

    subject: int
    span: Span
    root: int
    object: int


class SceneElement(NamedTuple):
    """An entity, attribute or relation: its tokens, and the token that represents them."""

    kind: str
    span: Span
    root: int


def read_scene(a: Annotation) -> list[SceneElement]:
    """Return the elements, each kind in the order of the text; [] for a caption that says too little.

    Such a caption has fewer than two entities, or neither relation nor modifier.
    """
    parse = _Parse(a)
    attributes = parse.find_attributes()
    relations = parse.find_relations()
    if len(parse.entities) < 2 or not (relations or attributes or parse.is_modified()):
        return []
    return _keep_bounded(a, [*parse.find_entities(), *attributes, *relations])


def read_entities_and_attributes(a: Annotation) -> list[SceneElement]:
    """Return the entities and attributes, also of a caption that says little."""
    parse = _Parse(a)
    return _keep_bounded(a, [*parse.find_entities(), *parse.find_attributes()])


def read_attributes(a: Annotation) -> dict[int, list[int]]:
    """Return the tokens of each entity's attributes that may stand before it, in the order of the text.

    Numbers are none, nor what is behind a copula alone ("asleep") or with a phrase ("full of water"). Entities
    without attributes are left out.
    """
    attributes: dict[int, list[int]] = {}
    for token, entity in sorted(_Parse(a).find_owners().items()):
        is_completed = a.lemma[token].lower() in PREDICATIVE or a.dependents(token, *COMPLEMENTS)
        may_precede = a.pos[token] in ("ADJ", "VERB") and not (a.dep[token] == "acomp" and is_completed)
        if may_precede and word_edits.is_word(a, token) and word_edits.is_word(a, entity):
            attributes.setdefault(entity, []).append(token)
    return attributes


def read_relations(a: Annotation) -> list[Relation]:
    """Return the relations with their two entities, in the order of the objects, that read well as three words.

    Left out are those of a pronoun, of what the caption denies, and prepositions that need their verb: "surrounded by
    trees", "attached to a pole", "poses for a picture", "looking at a cake".
    """
    denied = find_denied(a)
    relations = []
    for r in _Parse(a).list_relations():
        is_told = "PRON" not in (a.pos[r.subject], a.pos[r.object]) and denied.isdisjoint((r.subject, r.root, r.object))
        if is_told and word_edits.are_bounded(a, r.span) and not _needs_verb(a, r):
            relations.append(r)
    return relations


def _needs_verb(a: Annotation, relation: Relation) -> bool:
    head = a.heads[relation.span[0]]
    if a.dep[relation.root] == "agent" or a.pos[head] not in ("VERB", "AUX"):
        return a.dep[relation.root] == "agent"
    word = a.text[slice(*a.chars(relation.span))].lower()
    return word in OF_ACTIONS or (word == "at" and a.lemma[head].lower() in AIMED)


def find_denied(a: Annotation) -> set[int]:
    """Return "without" and the words with "no" or "not", and all tokens below them: "no people" has none."""
    denied = set()
    for t, word in enumerate(a.lower_words()):
        if word == "without":
            denied.add(t)
        if a.dep[t] == "neg" or (a.dep[t] == "det" and word in DENIALS):
            denied.add(a.heads[t])
    return {t for t in range(len(a)) if denied and not denied.isdisjoint(_list_above(a, t))}


def _list_above(a: Annotation, token: int) -> list[int]:
    """Return a token and those that it depends on."""
    tokens = [token]
    while a.heads[tokens[-1]] not in tokens:
        tokens.append(a.heads[tokens[-1]])
    return tokens


def is_mutual(relation: str) -> bool:
    """Return whether a relation holds the other way round as well: "near"."""
    return f" {relation}".casefold().endswith(MUTUAL)


def find_phrase(a: Annotation, entity: int) -> Span:
    """Return the characters of an entity's noun chunk behind its determiner; the word alone outside of a chunk."""
    low, high = a.chunk_at(entity) or (entity, entity + 1)
    while low < entity and a.pos[low] in ("DET", "SPACE", "PUNCT", "PRON"):
        low += 1
    return a.chars((low, high))


def _keep_bounded(a: Annotation, elements: list[SceneElement]) -> list[SceneElement]:
    return [element for element in elements if word_edits.are_bounded(a, element.span)]


class _Parse:
    """A caption with the entities, prepositional phrases and subjects of its parse."""

    def __init__(self, a: Annotation) -> None:
        self.a = a
        self.phrases = find_phrases(a)
        self.entities = {_chunk_head(a, chunk) for chunk in a.chunks}
        self.last: dict[int, Span] = {}
        for span in self.phrases:
            self.entities.difference_update(range(*span))
            self.last[span[1] - 1] = span
        self.subjects: dict[int, int] = {}
        for token, dep in enumerate(a.dep):
            if dep in SUBJECTS:
                self.subjects.setdefault(a.heads[token], token)

    def is_modified(self) -> bool:
        """Return whether an entity has a modifier; an article is one."""
        a = self.a
        return any(d in MODIFIERS and a.heads[t] in self.entities for t, d in enumerate(a.dep))

    def find_entities(self) -> list[SceneElement]:
        """Return the entities, each by its head."""
        return [SceneElement(ENTITY, (token, token + 1), token) for token in sorted(self.entities)]

    def find_attributes(self) -> list[SceneElement]:
        """Return modifiers of entities and of nouns in compounds with them, and conjuncts of such modifiers."""
        return [SceneElement(ATTRIBUTE, (t, t + 1), t) for t in sorted(self.find_owners().keys() - self.entities)]

    def find_owners(self) -> dict[int, int]:
        """Return the entity that each modifier is of; a modifier may be an entity itself."""
        a = self.a
        owners = dict[int, int]()
        nouns = {entity: entity for entity in self.entities}
        for entity in self.entities:
            for token in a.dependents(entity, "compound"):
                nouns.setdefault(token, entity)
        for token, dep in enumerate(a.dep):
            head = a.heads[token]
            if dep == "acomp" and self.subjects.get(head) in self.entities:
                owners[token] = self.subjects[head]
            elif dep == "amod" and head in nouns:
                owners[token] = nouns[head]
            elif dep == "conj" and head in owners:
                owners[token] = owners[head]
        return owners

    def find_relations(self) -> list[SceneElement]:
        """Return verbs with a subject and an object, and prepositions between two entities or below such a verb."""
        relations = dict[int, SceneElement]()
        for relation in self.list_relations():
            relations.setdefault(relation.span[0], SceneElement(RELATION, relation.span, relation.root))
        return [relations[token] for token in sorted(relations)]

    def list_relations(self) -> list[Relation]:
        """Return the same with the entities that they relate, one for each object."""
        a = self.a
        relations = list[Relation]()
        for entity in sorted(self.entities):
            head = a.heads[entity]
            span = self.last.get(head, (head, head + 1))
            subject = -1
            if a.dep[entity] in ("dobj", "attr"):
                span = (head, head + 1)
                subject = self.find_subject(head)
            elif a.dep[entity] == "pobj" and (head in self.last or a.pos[head] == "ADP"):
                subject = self.find_holder(span)
            if subject in self.entities:
                relations.append(Relation(subject, span, head, entity))
        return relations

    def find_holder(self, preposition: Span) -> int:
        """Return what a preposition relates its object to: the noun above it, or the subject of the verb above it."""
        above = self.a.heads[preposition[0]]
        return above if above in self.entities else self.find_subject(above)

    def find_subject(self, verb: int) -> int:
        """Return the subject of a verb, -1 where it has none."""
        for _ in range(DEPTH):
            if verb in self.subjects:
                return self.subjects[verb]
            above = self.a.heads[verb]
            if self.a.dep[verb] in OF_NOUNS:
                return above
            if self.a.dep[verb] not in OF_VERBS or above == verb:
                break
            verb = above
        return -1


def _chunk_head(a: Annotation, chunk: Span) -> int:
    """Return the token of a chunk whose head is outside of it."""
    low, high = chunk
    for token in range(high - 1, low - 1, -1):
        if a.heads[token] == token or not low <= a.heads[token] < high:
            return token
    return high - 1


def find_phrases(a: Annotation) -> list[Span]:
    """Find prepositions of several words; of those that begin at a token, the longest."""
    words = a.lower_words()
    spans: list[Span] = []
    start = 0
    while start < len(words):
        size = next((n for n in range(LONGEST, 1, -1) if tuple(words[start : start + n]) in PHRASES), 1)
        if size > 1:
            spans.append((start, start + size))
        start += size
    return spans


@functools.lru_cache(maxsize=1 << 10)
def other_prepositions(preposition: str) -> Weighted:
    """Return all other prepositions, each with its count as weight, at least 1."""
    preposition = " ".join(preposition.lower().split())
    counts = {name: max(count, 1) for name, count in COUNTS.items() if name != preposition}
    return tuple(counts), tuple(counts.values())
