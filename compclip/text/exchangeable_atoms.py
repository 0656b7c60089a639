"""Pairs of things, and of attributes, whose exchange reads well and makes a caption wrong (for `swap.atoms`).

A thing is a noun that heads a chunk: no pronoun, no measure ("a group of") and no part of a picture ("background"). It
takes the number of its new place. Attributes are adjectives and participles of different things. Left out are exchanges
that keep the meaning: of plain things that "and" or "next to" joins, and of the attributes of one thing.
"""

from __future__ import annotations

import itertools

from compclip.text import agreement, caption_words, scene_graph
from compclip.text.annotation import Annotation
from compclip.text.word_edits import word_set

Edit = tuple[int, int, str]  # a token, the one that its new word is from, and that word
Exchange = tuple[Edit, ...]  # in the order of the text
DETERMINERS = ("det", "poss", "nummod", "predet")
MODIFIERS = ("amod", "compound", "nummod", "acl", "relcl", "prep", "poss", "appos", "nmod")
MEASURES = word_set(
    "group couple pair bunch lot body piece row number set stack pile bowl plate glass cup slice bottle crowd line "
    "variety kind type sort part side end edge top bottom middle center series team herd flock view"
)
NO_THINGS = word_set(
    "background foreground front back top bottom middle center end edge side corner distance way day night time "
    "afternoon morning evening one other others left right something someone anything each place kind sort lot "
    "midair mid-air air motion action style fun hold picture image photo photograph view"
)
NO_ATTRIBUTES = word_set(
    "several many few some other own same different multiple various numerous more most such certain entire whole "
    "first second third next last single double only full"
)
SYMMETRIC = frozenset({
    ("and",), (",",), ("or",), ("next", "to"), ("near",), ("beside",), ("with",), ("alongside",), ("close", "to"),
    ("along", "with"), ("by",), (",", "and"),
})  # fmt: skip


def find_pairs(a: Annotation) -> tuple[list[Exchange], list[Exchange]]:
    """Return the exchanges of things, and those of attributes."""
    elements = scene_graph.read_entities_and_attributes(a)
    things = [e.root for e in elements if e.kind == scene_graph.ENTITY and _is_thing(a, e.root)]
    attributes = [e.root for e in elements if e.kind == scene_graph.ATTRIBUTE and _is_attribute(a, e.root)]
    exchanges = [_exchange_things(a, x, y) for x, y in itertools.combinations(things, 2)]
    return [e for e in exchanges if e], [
        ((x, y, a.word(y)), (y, x, a.word(x)))
        for x, y in itertools.combinations(attributes, 2)
        if _are_exchangeable(a, x, y)
    ]


def _is_thing(a: Annotation, token: int) -> bool:
    lemma = a.lemma[token].lower()
    is_measure = lemma in MEASURES and token + 1 < len(a) and a.word(token + 1).lower() == "of"
    is_verb = (
        a.dep[token] in ("ROOT", "conj") and lemma in caption_words.WORDS["v"]
    )  # "sheep graze", a slip of the tagger
    return a.pos[token] == "NOUN" and lemma not in NO_THINGS and not is_measure and not is_verb


def _exchange_things(a: Annotation, x: int, y: int) -> Exchange | None:
    """Return the exchange of two nouns in the numbers of their places; None where one does not fit, or all stays true.

    Singular nouns of which one has no "a" take their determiners along: "The water plays in a dog".
    """
    if a.lemma[x].lower() == a.lemma[y].lower() or (_is_plain(a, x) and _is_plain(a, y) and _are_joined(a, x, y)):
        return None
    of_x, of_y = _find_determiner(a, x), _find_determiner(a, y)
    if a.tag[x] == a.tag[y] == "NN" and bool(of_x) != bool(of_y) and not {a.lemma[x], a.lemma[y]} & agreement.MASS:
        return None  # "at sunset"
    for_x = agreement.noun_for_place(a, y, x, of_x)
    for_y = agreement.noun_for_place(a, x, y, of_y)
    if for_x and for_y:
        return (x, y, for_x), (y, x, for_y)
    if a.tag[x] == a.tag[y] == "NN" and of_x and of_y and a.pos[of_x[0]] == a.pos[of_y[0]] == "DET":
        pairs = ((of_x[0], of_y[0]), (x, y), (of_y[0], of_x[0]), (y, x))
        return tuple((token, source, a.word(source)) for token, source in pairs)
    return None


def _find_determiner(a: Annotation, noun: int) -> tuple[int, ...]:
    """Return the token that determines a noun; () where none does."""
    return tuple(t for t in range(noun) if a.heads[t] == noun and a.dep[t] in DETERMINERS)[:1]


def _is_plain(a: Annotation, noun: int) -> bool:
    return not any(head == noun and dep in MODIFIERS for head, dep in zip(a.heads, a.dep, strict=True))


def _are_joined(a: Annotation, x: int, y: int) -> bool:
    """Return whether words stand between two nouns that say the same of either of them."""
    between = [a.word(t).lower() for t in range(x + 1, y) if a.dep[t] not in ("det", "amod", "compound", "aux")]
    return tuple(between) in SYMMETRIC


def _is_attribute(a: Annotation, token: int) -> bool:
    is_adjective = a.pos[token] == "ADJ" and a.tag[token] == "JJ"
    is_participle = a.pos[token] == "VERB" and a.dep[token] == "amod" and a.tag[token] in ("VBN", "VBG")
    return (is_adjective or is_participle) and a.word(token).lower() not in NO_ATTRIBUTES


def _owner(a: Annotation, attribute: int) -> int:
    """Return the noun that an attribute describes, or the verb that joins them."""
    token = attribute
    while a.dep[token] == "conj" and a.heads[token] != token and a.pos[a.heads[token]] in ("ADJ", "VERB"):
        token = a.heads[token]
    owner = a.heads[token]
    return a.heads[owner] if a.dep[owner] == "compound" else owner


def _are_exchangeable(a: Annotation, x: int, y: int) -> bool:
    owner_x, owner_y = sorted((_owner(a, x), _owner(a, y)))
    if owner_x == owner_y or a.word(x).casefold() == a.word(y).casefold():
        return False
    return a.lemma[owner_x] != a.lemma[owner_y] or not _are_joined(a, owner_x, owner_y)
