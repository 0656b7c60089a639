"""Pairs of things, and of attributes, whose exchange reads well and makes a caption wrong (for `swap.atoms`).

A thing is a noun that heads a chunk: no pronoun, no measure ("a group of") and no part of a picture ("background"). It
takes the number of its new place; where it has no such form ("two snow"), it takes its determiners along, and verbs
agree with it: "two dogs are in the snow" gives "the snow is in two dogs". Attributes are adjectives and participles of
different things. Left out are exchanges that keep the meaning: of plain things that "and" or "next to" joins, and of
the attributes of one thing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from compclip.text import agreement, caption_words, fitting_words, lexicon, scene_graph, word_edits
from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import Edit, word_set

_LISTS = lexicon.TABLES["exchangeable_atoms"]
MOST_PAIRS = 256  # that are tried: a caption of hundreds of equal nouns has as many pairs as their square
Exchange = tuple[Edit, ...]  # in the order of the text
PLURALS = ("NNS", "NNPS")
DETERMINERS = ("det", "poss", "nummod", "predet")
QUANTITIES = word_set("several many few some various numerous")
FOR_MANY = word_set("other together both each all side another one")  # words that may count a thing from afar
MODIFIERS = ("amod", "compound", "nummod", "acl", "relcl", "prep", "poss", "appos", "nmod")
MEASURES = word_set(_LISTS["measures"])
NO_THINGS = word_set(_LISTS["no_things"])
NO_ATTRIBUTES = word_set(_LISTS["no_attributes"])
BARE = word_set("line progress bloom flight use need sight reverse unison")
THINGS_IN_ING = word_set(_LISTS["things_in_ing"])
SYMMETRIC = (
    "and",
    ",",
    "or",
    "next to",
    "near",
    "beside",
    "with",
    "alongside",
    "close to",
    "along with",
    "by",
    ", and",
)


def draw_exchanges(a: Annotation, rng: np.random.Generator) -> Iterator[Exchange]:
    """Draw the exchanges of things and those of attributes: either kind first, and its pairs, by chance."""
    a = fitting_words.correct(a)
    elements = scene_graph.read_entities_and_attributes(a)
    things = []
    attributes = []
    for element in elements:
        if element.kind == scene_graph.ENTITY and _is_thing(a, element.root):
            things.append(element.root)
        elif element.kind == scene_graph.ATTRIBUTE and _is_attribute(a, element.root):
            attributes.append(element.root)
    for kind in rng.permutation(2):
        tokens = (things, attributes)[kind]
        for number in rng.permutation(math.comb(len(tokens), 2))[:MOST_PAIRS].tolist():
            first, second = _choose_pair(number, len(tokens))
            x, y = tokens[first], tokens[second]
            if not kind:
                exchange = _exchange_things(a, x, y)
            else:
                exchange = _exchange_words(a, x, y) if _are_exchangeable(a, x, y, attributes) else None
            if exchange is not None:
                yield exchange


def _choose_pair(number: int, count: int) -> tuple[int, int]:
    """Return the pair at a place of `itertools.combinations(range(count), 2)`, of which a long caption has millions."""
    from_end = math.comb(count, 2) - 1 - number
    row = (math.isqrt(8 * from_end + 1) - 1) // 2
    return count - 2 - row, count - 1 - (from_end - math.comb(row + 1, 2))


def _exchange_words(a: Annotation, x: int, y: int) -> Exchange:
    return _write(a, x, y, a.word(y)), _write(a, y, x, a.word(x))


def _write(a: Annotation, token: int, source: int, word: str) -> Edit:
    """Return the edit that writes a word at a token; one from the beginning of a sentence loses its capital."""
    return (token, token + 1), _lower(word) if _leads(a, source) else word


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _leads(a: Annotation, token: int) -> bool:
    return a.pos[token] != "PROPN" and word_edits.leads_sentence(a, a.starts[token])


def _is_thing(a: Annotation, token: int) -> bool:
    lemma = a.lemma[token].lower()
    is_measure = lemma in MEASURES and token + 1 < len(a) and a.word(token + 1).lower() == "of"
    # "sheep graze" and "the man waits", slips of the tagger
    may_be_root = a.dep[token] in ("ROOT", "conj") and lemma in caption_words.WORDS["v"]
    is_bare = not a.dependents(token, *DETERMINERS, stop=token)
    has_compound = token - 1 in a.dependents(token, "compound", stop=token)
    is_verb = may_be_root and (has_compound or is_bare)
    is_said = a.tag[token] == "NN" and is_bare and _is_activity_or_colour(lemma)
    is_other = is_measure or is_verb or is_said or fitting_words.may_be_verb(a, token)
    return a.pos[token] == "NOUN" and lemma not in NO_THINGS and not is_other


def _is_activity_or_colour(lemma: str) -> bool:
    """Return whether a noun without determiner is none of a thing: "teaches climbing", "dressed in blue", "in line"."""
    is_activity = lemma in BARE or (lemma.endswith("ing") and lemma not in THINGS_IN_ING)
    return is_activity or lemma in fitting_words.alternatives("color")


def _exchange_things(a: Annotation, x: int, y: int) -> Exchange | None:
    """Return the exchange of two nouns; None where one does not fit, or all stays true."""
    if a.lemma[x].lower() == a.lemma[y].lower():
        return None
    are_modified = a.dependents(x, *MODIFIERS) or a.dependents(y, *MODIFIERS)
    if not are_modified and _are_joined(a, x, y):
        return None
    of_x = a.dependents(x, *DETERMINERS, stop=x)
    of_y = a.dependents(y, *DETERMINERS, stop=y)
    are_singular = a.tag[x] == a.tag[y] == "NN"
    are_countable = are_singular and not {a.lemma[x], a.lemma[y]} & agreement.MASS
    are_owned = a.dependents(x, "poss", stop=x) or a.dependents(y, "poss", stop=y)
    if are_countable and not are_owned and (_is_headline(a, x) or _is_headline(a, y)):
        return _exchange_words(a, x, y)
    if are_countable and bool(of_x) != bool(of_y):  # "at sunset"
        return _exchange_phrases(a, x, y)
    for_x = agreement.noun_for_place(a, y, x, of_x)
    for_y = agreement.noun_for_place(a, x, y, of_y)
    if for_x and for_y:
        return _write(a, x, y, for_x), _write(a, y, x, for_y)
    return _exchange_phrases(a, x, y)


def _is_headline(a: Annotation, noun: int) -> bool:
    """Return whether a sentence begins with a singular noun without a determiner, as headlines do: "Dog on a bed"."""
    chunk = a.chunk_at(noun)
    if chunk is None or a.tag[noun] != "NN" or a.dependents(noun, *DETERMINERS, stop=noun):
        return False
    return a.begins_sentence(chunk[0])


def _exchange_phrases(a: Annotation, x: int, y: int) -> Exchange | None:
    """Return the exchange of two nouns with their determiners, verbs in the number of the new nouns.

    None where a possessive is before one, or a word elsewhere may count it: "each other".
    """
    chunk_x = a.chunk_at(x)
    chunk_y = a.chunk_at(y)
    if not chunk_x or not chunk_y or _is_measured(a, x) or _is_measured(a, y):
        return None
    phrase_x = (chunk_x[0], x + 1)
    phrase_y = (chunk_y[0], y + 1)
    split_x = _split_phrase(a, phrase_x)
    split_y = _split_phrase(a, phrase_y)
    changes_number = (a.tag[x] in PLURALS) != (a.tag[y] in PLURALS)
    if not split_x or not split_y or (changes_number and _is_counted_elsewhere(a)):
        return None
    of_x, before_x = split_x
    of_y, before_y = split_y
    edits = [(phrase_x, of_y + before_x + _word(a, y)), (phrase_y, of_x + before_y + _word(a, x))]
    if changes_number:
        of_first = agreement.verbs_in_number(a, x, a.tag[x] not in PLURALS)
        of_second = agreement.verbs_in_number(a, y, a.tag[y] not in PLURALS)
        if of_first is None or of_second is None:
            return None
        edits += [_write(a, verb, verb, word) for verb, word in (*of_first, *of_second)]
    return tuple(sorted(edits))


def _is_measured(a: Annotation, noun: int) -> bool:
    """Return whether a noun is what there is a measure of: "a body of water"."""
    of = a.heads[noun]
    return a.dep[noun] == "pobj" and a.word(of).lower() == "of" and a.lemma[a.heads[of]].lower() in MEASURES


def _split_phrase(a: Annotation, phrase: Span) -> tuple[str, str] | None:
    """Return the determiners before a noun and what stands between them and the noun; None with a possessive."""
    low, high = phrase
    if "poss" in a.dep[low:high] or "PRON" in a.pos[low:high]:
        return None
    first = low
    while first + 1 < high and (a.dep[first] in DETERMINERS or a.word(first).lower() in QUANTITIES):
        first += 1
    determiners = a.text[a.starts[low] : a.starts[first]]
    modifiers = a.text[a.starts[first] : a.starts[high - 1]]
    return (_lower(determiners), _lower(modifiers)) if _leads(a, low) else (determiners, modifiers)


def _word(a: Annotation, token: int) -> str:
    return _lower(a.word(token)) if _leads(a, token) else a.word(token)


def _is_counted_elsewhere(a: Annotation) -> bool:
    """Return whether a pronoun, or a verb read as a noun, may have the number of a thing."""
    if any(fitting_words.may_be_verb(a, t) for t in range(len(a))):
        return True
    return "PRP" in a.tag or "PRP$" in a.tag or not FOR_MANY.isdisjoint(a.lower_words())


def _are_joined(a: Annotation, x: int, y: int) -> bool:
    """Return whether words stand between two nouns that say the same of either of them."""
    between = [a.word(t).lower() for t in range(x + 1, y) if a.dep[t] not in ("det", "amod", "compound", "aux")]
    return " ".join(between) in SYMMETRIC


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


def _are_exchangeable(a: Annotation, x: int, y: int, attributes: list[int]) -> bool:
    """Return whether attributes are of different things, and not all that tells two equal ones from each other."""
    owner_x, owner_y = sorted((_owner(a, x), _owner(a, y)))
    if owner_x == owner_y or a.word(x).casefold() == a.word(y).casefold():
        return False
    is_part = sum(_owner(a, t) in (owner_x, owner_y) for t in attributes) > 2
    return a.lemma[owner_x] != a.lemma[owner_y] or is_part or not _are_joined(a, owner_x, owner_y)
