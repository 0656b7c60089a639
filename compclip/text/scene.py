"""What a caption says of its scene: entities, their attributes, the relations between them, by its parse.

An entity is a noun chunk, called by its head; an attribute an adjective or participle before it, or after a copula; a
relation a preposition (or several words that serve as one, "in front of") or a verb between two entities. The nouns
within such words ("front") are no entities. Our own reading, of the kind that CLoVe's rule replaces words by.
"""

from __future__ import annotations

from typing import NamedTuple

from compclip.text import edits
from compclip.text.annotation import Annotation, Span
from compclip.text.prepositions import LONGEST, PHRASES

ENTITY, ATTRIBUTE, RELATION = "entity", "attribute", "relation"
SUBJECTS = ("nsubj", "nsubjpass")
OF_NOUNS = ("acl", "relcl")  # the noun is the subject of such a verb
OF_VERBS = ("conj", "advcl", "xcomp", "ccomp", "pcomp")  # a verb without a subject has that of the verb above
DEPTH = 8  # verbs above a verb
MODIFIERS = ("amod", "det", "nummod")


class Element(NamedTuple):
    """A part of the scene: the tokens that say it, and the one that stands for them."""

    kind: str
    span: Span
    root: int


def read(a: Annotation) -> list[Element]:
    """The elements, each kind in the order of the text; none of a caption that says too little.

    That is one with fewer than two entities, or with neither relation nor modifier.
    """
    parse = _Parse(a)
    attributes, relations = parse.attributes(), parse.relations()
    if len(parse.entities) < 2 or not (relations or attributes or parse.is_modified()):
        return []
    return _bounded(a, [*parse.things(), *attributes, *relations])


def things_and_attributes(a: Annotation) -> list[Element]:
    """The entities and attributes, also of a caption that says little."""
    parse = _Parse(a)
    return _bounded(a, [*parse.things(), *parse.attributes()])


def _bounded(a: Annotation, found: list[Element]) -> list[Element]:
    return [element for element in found if edits.bounded(a.text, *a.chars(element.span))]


class _Parse:
    """A caption's tokens with what hangs on them."""

    def __init__(self, a: Annotation) -> None:
        self.a = a
        self.phrases = _phrases(a)
        within = {token for span in self.phrases for token in range(*span)}
        self.entities = {head for chunk in a.chunks if (head := _head(a, chunk)) not in within}
        self.last = {span[1] - 1: span for span in self.phrases}
        self.subjects: dict[int, int] = {}
        for token, dep in enumerate(a.dep):
            if dep in SUBJECTS:
                self.subjects.setdefault(a.heads[token], token)

    def is_modified(self) -> bool:
        """Whether an entity has a modifier, an article too."""
        a = self.a
        return any(d in MODIFIERS and a.heads[t] in self.entities for t, d in enumerate(a.dep))

    def things(self) -> list[Element]:
        """The entities, each by its head."""
        return [Element(ENTITY, (token, token + 1), token) for token in sorted(self.entities)]

    def attributes(self) -> list[Element]:
        """Modifiers of entities, of the nouns that these are compounded of, and what is joined to such modifiers."""
        a, found = self.a, set[int]()
        owners = self.entities | {t for t, d in enumerate(a.dep) if d == "compound" and a.heads[t] in self.entities}
        for token, dep in enumerate(a.dep):
            head = a.heads[token]
            predicate = dep == "acomp" and self.subjects.get(head) in self.entities
            if predicate or (dep == "amod" and head in owners) or (dep == "conj" and head in found):
                found.add(token)
        return [Element(ATTRIBUTE, (t, t + 1), t) for t in sorted(found - self.entities)]

    def relations(self) -> list[Element]:
        """Verbs with a subject and an object, prepositions between two entities or below such a verb."""
        a, found = self.a, dict[int, Element]()
        for thing in sorted(self.entities):
            head = a.heads[thing]
            if a.dep[thing] in ("dobj", "attr") and self.subject(head) in self.entities:
                found.setdefault(head, Element(RELATION, (head, head + 1), head))
            elif a.dep[thing] == "pobj":
                span = self.last.get(head, (head, head + 1))
                if (head in self.last or a.pos[head] == "ADP") and self.holder(span) in self.entities:
                    found.setdefault(span[0], Element(RELATION, span, head))
        return [found[token] for token in sorted(found)]

    def holder(self, preposition: Span) -> int:
        """What a preposition's object stands in relation to: the noun, or the subject of the verb, that it hangs on."""
        above = self.a.heads[preposition[0]]
        return above if above in self.entities else self.subject(above)

    def subject(self, verb: int) -> int:
        """The subject of a verb, -1 where it has none."""
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


def _head(a: Annotation, chunk: Span) -> int:
    """The token of a chunk by which it hangs in the sentence."""
    low, high = chunk
    return next((t for t in range(high - 1, low - 1, -1) if not low <= a.heads[t] < high or a.heads[t] == t), high - 1)


def _phrases(a: Annotation) -> list[Span]:
    """Where several words serve as one preposition; of those that begin at a token, the longest."""
    words = [a.word(t).lower() for t in range(len(a))]
    spans: list[Span] = []
    for start in range(len(words)):
        sizes = range(LONGEST, 1, -1) if not spans or start >= spans[-1][1] else ()
        size = next((n for n in sizes if tuple(words[start : start + n]) in PHRASES), 0)
        if size:
            spans.append((start, start + size))
    return spans
