"""Sub-graphs of a caption's scene as texts, and hard negatives of them (MosaiCLIP, EMNLP 2023, Sec. 3.3, 3.4 and B).

A sub-graph is an object with attributes, or two objects with the relation between them, with all of their attributes
or none. It is written by a template: "brown dog", "brown dog chases black cat". Pairs of a sub-graph and a negative of
it are of three kinds. `object`: an attribute of an object is another one. `relation`: two objects change places, an
object or the relation is another one, or a graph of other things is joined. `attribute`: the attributes of two objects
change places, or one is another. Other words are drawn evenly from sets.

Ours: the parse (`scene_graph`) in place of theirs; words of captions (`caption_words`, the prepositions of
`scene_graph`) in place of their 1,594 objects, 524 attributes and 50 relations of Visual Genome; no word of the caption
is drawn; one edit makes a negative; none is a sub-graph of the caption. Two objects do not change places where both
stand beside each other: "cat near dog" is as true as "dog near cat", which is one relation in eleven on COCO.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from compclip.text import agreement, caption_words, scene_graph, word_edits
from compclip.text.agreement import inflect
from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

OBJECT = "object"
RELATION = "relation"
ATTRIBUTE = "attribute"
KINDS = (OBJECT, RELATION, ATTRIBUTE)
COMMON = 10  # captions in which a preposition of the default set stands at least
NO_THINGS = word_edits.word_set(  # of the groups of words: where in a picture, and when
    "top bottom front back left right upper lower foreground background day night morning evening summer winter sunset "
    "sunrise during after"
)
TRIES = 4  # draws for each text that is wanted

Texts = tuple[list[str], list[str]]  # true ones, and negatives


class Node(NamedTuple):
    """An object with its attributes, in the order of the text."""

    noun: str
    attributes: tuple[str, ...]
    is_plural: bool

    def write(self) -> str:
        """Write the attributes before the noun."""
        return " ".join((*self.attributes, self.noun))


class Triple(NamedTuple):
    """Two objects and the relation between them."""

    subject: Node
    relation: str
    object: Node

    def write(self) -> str:
        """Write subject, relation and object."""
        return f"{self.subject.write()} {self.relation} {self.object.write()}"


SubGraph = Node | Triple


class WordSets(NamedTuple):
    """Words of things outside of a caption."""

    objects: tuple[str, ...]
    attributes: tuple[str, ...]
    relations: tuple[str, ...]


@functools.cache
def default_sets() -> WordSets:
    """Return objects and attributes of captions, each of which excludes others, and prepositions and verbs."""
    groups = caption_words.groups()
    verbs = (inflect(verb, "VBG", {}) or verb for verb in groups["t"])
    prepositions = (name for name, count in scene_graph.COUNTS.items() if count >= COMMON)
    words = (groups["n"], groups["a"], (*prepositions, *verbs))
    return WordSets(*(tuple(dict.fromkeys(w for w in of_set if w not in NO_THINGS)) for of_set in words))


def parse_sets(words: Mapping[str, Any]) -> WordSets:
    """Check a user's sets; default ones stand for those left out. Raises UserError for an unknown set or no word."""
    sets = default_sets()._asdict()
    return WordSets(**sets | word_edits.parse_word_lists(words, sets, "set of words", least=1))


@reads_columns("tokens", "sentences", "chunks", "lemma")
def draw(
    sets: WordSets, shares: Sequence[float], positives: int, negatives: int, a: Annotation, rng: np.random.Generator
) -> Texts:
    """Draw up to so many sub-graphs and negatives of them as texts, each once.

    Pairs are drawn one by one: their kind by its share among those that the caption has, a sub-graph of the kind, and
    a negative of it. Where there are as many sub-graphs as wanted, further negatives are of these.
    """
    graphs = read_sub_graphs(a)
    texts = {a.text.casefold()}
    for graph in itertools.chain.from_iterable(graphs.values()):
        texts.add(graph.write().casefold())
    others = _Others(a, sets, rng)
    chosen = dict[str, SubGraph]()
    foils = dict[str, None]()
    for _ in range(TRIES * max(positives, negatives)):
        kinds = [i for i, kind in enumerate(KINDS) if graphs[kind] and shares[i]]
        if not kinds or (len(chosen) == positives and len(foils) == negatives):
            break
        ends = list(itertools.accumulate(shares[i] for i in kinds))
        kind = KINDS[kinds[bisect_right(ends[:-1], rng.random() * ends[-1])]]
        graph = graphs[kind][rng.integers(len(graphs[kind]))]
        if graph.write() not in chosen:
            chosen[graph.write()] = graph
            if len(chosen) == positives:
                for name, of_kind in graphs.items():
                    graphs[name] = [g for g in of_kind if g.write() in chosen]
        foil = _make_negative(kind, graph, others) if len(foils) < negatives else ""
        if foil and foil.casefold() not in texts:
            foils.setdefault(foil)
    return list(chosen), list(foils)


@reads_columns("tokens", "sentences", "chunks", "lemma")
def draw_one(sets: WordSets, shares: Sequence[float], a: Annotation, rng: np.random.Generator) -> Texts:
    """Draw one sub-graph and one negative of it, as the first stage of the curriculum asks (Sec. 3.6)."""
    return draw(sets, shares, 1, 1, a, rng)


def read_sub_graphs(a: Annotation) -> dict[str, list[SubGraph]]:
    """Return the sub-graphs of which each kind makes negatives, without repetition, in the order of the text.

    What the caption denies is in none: "a kitchen with no people" has no people.
    """
    denied = scene_graph.find_denied(a)
    attributes = scene_graph.read_attributes(a)
    singles: list[SubGraph] = []
    several: list[SubGraph] = []
    for entity, tokens in sorted(attributes.items()):
        attributes[entity] = [token for token in tokens if token not in denied]
        if entity not in denied and a.pos[entity] != "PRON":
            node = _read_node(a, entity, attributes[entity])
            singles += [node._replace(attributes=(word,)) for word in node.attributes]
            several += [node] if len(node.attributes) > 1 else []
    triples: list[SubGraph] = []
    described: list[SubGraph] = []
    bare: list[SubGraph] = []
    for r in scene_graph.read_relations(a):
        subject = _read_node(a, r.subject, attributes.get(r.subject, ()))
        thing = _read_node(a, r.object, attributes.get(r.object, ()))
        triple = Triple(subject, word_edits.adapt_case(a, r.span, leading=False), thing)
        triples.append(triple)
        if subject.attributes or thing.attributes:
            described.append(triple)
            bare.append(triple._replace(subject=_strip(subject), object=_strip(thing)))
    return {
        OBJECT: list(dict.fromkeys(singles + several)),
        RELATION: list(dict.fromkeys(triples + bare)),
        ATTRIBUTE: list(dict.fromkeys(described)),
    }


def _strip(node: Node) -> Node:
    return node._replace(attributes=())


def _read_node(a: Annotation, entity: int, attributes: Sequence[int]) -> Node:
    """Return an entity with the nouns that make up its name ("tennis ball") and its attributes."""
    low = entity
    while low > 0 and a.dep[low - 1] == "compound" and low - 1 not in attributes:
        low -= 1
    words = tuple(word_edits.adapt_case(a, (token, token + 1), leading=False) for token in attributes)
    noun = word_edits.adapt_case(a, (low, entity + 1), leading=False)
    return Node(noun, words, a.tag[entity] in ("NNS", "NNPS"))


@functools.lru_cache(maxsize=32)
def _find_countable(nouns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the nouns that have a plural; all where none has."""
    return tuple(noun for noun in nouns if noun not in agreement.MASS) or nouns


class _Others:
    """Words that a caption does not have, drawn from sets."""

    def __init__(self, a: Annotation, sets: WordSets, rng: np.random.Generator) -> None:
        self.sets = sets
        self.rng = rng
        self.text = f" {' '.join(a.words())} ".casefold()
        self.lemmas = {lemma.casefold() for lemma in a.lemma}

    def draw(self, words: Sequence[str]) -> str:
        """Draw a word or phrase that is not in the caption; "" where none is found."""
        for _ in range(TRIES):
            word = words[int(self.rng.integers(len(words)))]
            if f" {word} " not in self.text and word not in self.lemmas:
                return word
        return ""

    def replace_noun(self, node: Node) -> Node:
        """Return another object with the same attributes, in the same number: several are none of a mass."""
        noun = self.draw(_find_countable(self.sets.objects) if node.is_plural else self.sets.objects)
        return node._replace(noun=agreement.pluralise(noun) if noun and node.is_plural else noun)

    def replace_attribute(self, node: Node) -> Node:
        """Return the object with one of its attributes replaced."""
        index = int(self.rng.integers(len(node.attributes)))
        words = list(node.attributes)
        words[index] = self.draw(self.sets.attributes)
        return node._replace(attributes=tuple(words))

    def random_graph(self) -> SubGraph:
        """Return an object with an attribute, half of the time in a relation to another one."""
        sets = self.sets
        first = Node(self.draw(sets.objects), (self.draw(sets.attributes),), False)
        if self.rng.random() < 0.5:
            return first
        return Triple(first, self.draw(sets.relations), Node(self.draw(sets.objects), (), False))


def _make_negative(kind: str, graph: SubGraph, others: _Others) -> str:
    """Write one negative of a sub-graph; "" where a word was not found."""
    if isinstance(graph, Node):  # one attribute from the set, as in B
        return _write_whole(graph._replace(attributes=(others.draw(others.sets.attributes),)))
    return (_relation_negatives if kind == RELATION else _attribute_negatives)(graph, others)


def _relation_negatives(t: Triple, others: _Others) -> str:
    """Exchange the objects, replace one of them or the relation, or join a graph of other things."""
    which = int(others.rng.integers(scene_graph.is_mutual(t.relation), 5))  # 0, the exchange, where that would be false
    if which == 4:
        joint = others.draw(others.sets.relations)
        joined = _write_whole(others.random_graph())
        return f"{t.write()} {joint} {joined}" if joint and joined else ""
    edits = (
        lambda: Triple(t.object, t.relation, t.subject),
        lambda: t._replace(subject=others.replace_noun(t.subject)),
        lambda: t._replace(object=others.replace_noun(t.object)),
        lambda: t._replace(relation=others.draw(others.sets.relations)),
    )
    return _write_whole(edits[which]())


def _attribute_negatives(t: Triple, others: _Others) -> str:
    """Exchange the attributes of two objects, where both have some, or replace one."""
    x = t.subject
    y = t.object
    edits = []
    if x.attributes and y.attributes:
        edits.append(
            lambda: t._replace(subject=x._replace(attributes=y.attributes), object=y._replace(attributes=x.attributes))
        )
    if x.attributes:
        edits.append(lambda: t._replace(subject=others.replace_attribute(x)))
    if y.attributes:
        edits.append(lambda: t._replace(object=others.replace_attribute(y)))
    return _write_whole(edits[others.rng.integers(len(edits))]())


def _write_whole(graph: SubGraph) -> str:
    """Write a graph; "" where a word of it is missing."""
    return graph.write() if all(_list_words(graph)) else ""


def _list_words(graph: SubGraph) -> list[str]:
    if isinstance(graph, Node):
        return [graph.noun, *graph.attributes]
    return [graph.relation, *_list_words(graph.subject), *_list_words(graph.object)]
