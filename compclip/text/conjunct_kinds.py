"""More phrases around an "and" whose order says nothing, beside those of `conjunct_order`.

Nouns with determiners of their own, and one that gets its own ("a man and young girl" gives "a young girl and a man");
clothes, however they are parsed; two colours of two things ("a black and a white dog"); what persons do or are for a
while ("sits on a bench and looks at the sea"); two places ("on bicycles and in carts"); two clauses without pronouns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compclip.text import agreement, conjunct_order, fitting_words
from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import word_set

ARTICLES = ("a", "an")
CLOTHES = word_set(
    "shirt t-shirt tshirt dress jacket coat hat cap suit tie sweater uniform shorts pants jeans jean short pant skirt "
    "costume vest glasses sunglasses sunglass glass robe gown jersey helmet scarf gloves glove boots boot shoes shoe "
    "sandals sandal sneakers sneaker apron hoodie sweatshirt goggles goggle necklace backpack bandana beanie trousers"
)
STATES = word_set(
    "sit stand lie wear hold look smile wait watch lean gaze stare pose hang carry have be seat kneel sleep rest"
)
STATES_IN_ED = word_set("dress seat cover surround decorate clothe")  # participles beside "wearing"
STATIC = word_set("on in at under near beside behind by above")
ALIKE = ({"man", "woman"}, {"boy", "girl"}, {"lady", "gentleman"})  # "a young man and woman" are both young
AGES = word_set("young old elderly little small middle-aged asian smiling happy")


class Exchange(NamedTuple):
    """Two token spans that change places, and the word that the second takes along, "" for none."""

    first: Span
    second: Span
    word_before: str = ""


def find_exchanges(a: Annotation, conjunctions: list[int]) -> Iterator[Exchange]:
    """Find the exchanges around each "and" of a caption."""
    for conjunction in (t for t in conjunctions if 0 < t < len(a) - 1):
        x, y = a.heads[conjunction], _find_second(a, conjunction)
        found = [_clothes(a, conjunction), _colours(a, conjunction)]
        if y is not None and x < conjunction:
            found += [find(a, conjunction, x, y) for find in FINDERS.get(a.pos[x], ())]
        yield from (exchange for exchange in found if exchange is not None)


# --- nouns ----------------------------------------------------------------------------------------------------


def _nouns(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    if x != conjunction - 1 or not a.pos[x] == a.pos[y] == "NOUN":
        return None
    first, second = (_first_modifier(a, x), x + 1), (_first_modifier(a, y), y + 1)
    if second[0] != conjunction + 1 or not conjunct_order.may_change_places(a, first, second):
        return None
    return _with_determiners(a, first, second)


def _find_second(a: Annotation, conjunction: int) -> int | None:
    """Return the head of what "and" joins to its own head."""
    if a.dep[conjunction] != "cc":
        return None
    return next((t for t in range(conjunction + 1, len(a)) if _joins(a, t, a.heads[conjunction])), None)


def _joins(a: Annotation, token: int, head: int) -> bool:
    return a.dep[token] == "conj" and a.heads[token] == head


def _first_modifier(a: Annotation, noun: int) -> int:
    first = noun
    while first and a.heads[first - 1] in range(first, noun + 1) and a.dep[first - 1] not in ("cc", "punct"):
        first -= 1
    return first


def _with_determiners(a: Annotation, first: Span, second: Span) -> Exchange | None:
    """Return the exchange of two noun phrases with their determiners; None where one might serve both."""
    of_first, of_second = (a.dep[low] in conjunct_order.DETERMINERS for low, _ in (first, second))
    own_first, own_second = (_stands_bare(a, high - 1) for _, high in (first, second))
    article = a.word(first[0]).lower()
    if of_first and of_second:
        return Exchange(first, second)
    if of_second:
        return Exchange(first, second) if own_first else None
    if not of_first or article not in ARTICLES:
        return None
    if own_second:
        return Exchange(first, second)
    if first[1] - first[0] == 2 and second[1] - second[0] > 1:
        return Exchange(first, second, agreement.article_for(a.word(second[0])))
    return _of_alike(a, first, second)


def _stands_bare(a: Annotation, noun: int) -> bool:
    """Return whether a noun needs no article."""
    return a.tag[noun] == "NNS" or a.lemma[noun].lower() in agreement.MASS


def _of_alike(a: Annotation, first: Span, second: Span) -> Exchange | None:
    """Return the exchange of "man" and "woman" alone where an age is said of both."""
    heads = {a.lemma[first[1] - 1].lower(), a.lemma[second[1] - 1].lower()}
    between = [a.word(t).lower() for t in range(first[0] + 1, first[1] - 1)]
    if heads not in ALIKE or not between or not AGES.issuperset(between) or second[1] - second[0] > 1:
        return None
    return Exchange((first[1] - 1, first[1]), second)


def _clothes(a: Annotation, conjunction: int) -> Exchange | None:
    """Return the exchange of two pieces of clothes before and behind an "and"."""
    first = next((chunk for chunk in a.chunks if chunk[1] == conjunction), None)
    second = next((chunk for chunk in a.chunks if chunk[0] == conjunction + 1), None)
    if first is None or second is None or not first[0]:
        return None
    are_clothes = all(a.lemma[high - 1].lower() in CLOTHES for _, high in (first, second))
    is_worn = a.word(first[0] - 1).lower() in ("in", "with", "wearing", "wears", "wear")
    behind = a.word(second[1]).lower() if second[1] < len(a) else ""
    if not are_clothes or not is_worn or behind in ("on", "of", "with", "that", "which", "and", "or"):
        return None
    exchange = _with_determiners(a, first, second)
    are_bare = not any(a.dep[low] in conjunct_order.DETERMINERS for low, _ in (first, second))
    are_described = all(high - low > 1 for low, high in (first, second))
    return exchange or (Exchange(first, second) if are_bare and are_described else None)


def _colours(a: Annotation, conjunction: int) -> Exchange | None:
    """Return the exchange of two adjectives with an article each before one noun."""
    if conjunction < 2 or conjunction + 3 >= len(a):
        return None
    before, x, article, y, noun = (conjunction + by for by in (-2, -1, 1, 2, 3))
    colours = fitting_words.alternatives("color")
    have_articles = all(a.word(t).lower() in (*ARTICLES, "one") for t in (before, article))
    are_adjectives = all(a.tag[t] == "JJ" or a.word(t).lower() in colours for t in (x, y))
    return Exchange((x, x + 1), (y, y + 1)) if have_articles and are_adjectives and a.pos[noun] == "NOUN" else None


# --- verbs, places and clauses --------------------------------------------------------------------------------


def _verbs(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of two states of one subject with all that belongs to them."""
    if a.pos[y] != "VERB" or a.pos[x] not in ("VERB", "AUX"):
        return None
    start = next((t for t in range(conjunction + 1, y + 1) if a.heads[t] == y or t == y), y)
    second = _whole(a, y, start)
    if start != conjunction + 1 or second is None or not _are_states(a, x, y, start):
        return None
    return Exchange((x, conjunction), second) if _is_whole(a, x, conjunction) else None


def _are_states(a: Annotation, x: int, y: int, start: int) -> bool:
    """Return whether two verbs of one form say what lasts."""
    if start == y:
        tags, of_x, of_y = (a.tag[x], a.tag[y]), a.lemma[x].lower(), a.lemma[y].lower()
        if tags in (("VBN", "VBG"), ("VBG", "VBN")):
            return (of_x if tags[0] == "VBN" else of_y) in STATES_IN_ED
        return tags in (("VBZ", "VBZ"), ("VBP", "VBP")) and of_x in STATES and of_y in STATES
    return (
        a.lemma[x] == "be" and a.word(x) == a.word(start) and a.dep[start] in ("aux", "auxpass") and a.tag[y] == "VBG"
    )


def _whole(a: Annotation, head: int, start: int) -> Span | None:
    """Return the tokens from `start` to the last below `head`, None where others stand between or it is a list."""
    end = max(t for t in range(head, len(a)) if conjunct_order.is_below(a, t, head))
    while a.pos[end] in ("PUNCT", "SPACE"):
        end -= 1
    below = [t for t in range(start, end + 1) if t != head]
    if not all(conjunct_order.is_below(a, t, head) for t in below):
        return None
    if any(a.dep[t] in ("cc", "conj", "mark", *agreement.SUBJECTS) or _points(a, t) for t in below):
        return None
    return start, end + 1


def _is_whole(a: Annotation, head: int, conjunction: int) -> bool:
    """Return whether all between a head and the "and" belongs to the head, and is no list."""
    between = range(head + 1, conjunction)
    return all(conjunct_order.is_below(a, t, head) and a.dep[t] not in ("cc", "conj", "punct") for t in between)


def _points(a: Annotation, token: int) -> bool:
    """Return whether a word speaks of what another part of the caption names."""
    word = a.word(token).lower()
    return a.tag[token] in ("PRP", "PRP$") or word in conjunct_order.TOLD_APART or word in ("one", "it", "then")


def _complements(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of a place and an action: "is in the pool and throwing a ball", with an "is" for each."""
    if a.lemma[x] != "be" or a.tag[y] != "VBG" or y != conjunction + 1 or not x + 1 < conjunction:
        return None
    second = _whole(a, y, y)
    is_place = a.pos[x + 1] == "ADP" and a.word(x + 1).lower() in STATIC and _is_whole(a, x, conjunction)
    return Exchange((x, conjunction), second, a.word(x)) if second and is_place else None


def _places(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of two places."""
    if not a.pos[x] == a.pos[y] == "ADP" or y != conjunction + 1:
        return None
    second = _whole(a, y, y)
    are_static = all(a.word(t).lower() in STATIC for t in (x, y))
    return Exchange((x, conjunction), second) if second and are_static and _is_whole(a, x, conjunction) else None


def _clauses(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of two whole clauses that last and do not speak of each other's things."""
    if a.dep[x] != "ROOT" or not all(_lasts(a, verb) for verb in (x, y)):
        return None
    start, end = a.tokens(next((s for s in a.sentences if s[0] <= a.starts[x] < s[1]), (0, len(a.text))))
    stop = conjunction - 1 if a.pos[conjunction - 1] == "PUNCT" else conjunction
    while end > y and a.pos[end - 1] in ("PUNCT", "SPACE"):
        end -= 1
    clauses = range(start, stop), range(conjunction + 1, end)
    nouns = [{a.lemma[t].lower() for t in clause if a.pos[t] in ("NOUN", "PROPN")} for clause in clauses]
    is_second = all(conjunct_order.is_below(a, t, y) for t in clauses[1])
    is_apart = not any(_points(a, t) or a.dep[t] in ("cc", "mark", "expl") for clause in clauses for t in clause)
    if not (is_second and is_apart and nouns[0].isdisjoint(nouns[1]) and start < stop):
        return None
    return Exchange((start, stop), (conjunction + 1, end))


def _lasts(a: Annotation, verb: int) -> bool:
    """Return whether a verb with a subject of its own says what lasts."""
    has_subject = any(a.heads[t] == verb and a.dep[t] in agreement.SUBJECTS for t in range(verb))
    return has_subject and (a.tag[verb] == "VBG" or a.lemma[verb].lower() in STATES)


FINDERS = {  # by the part of speech of what "and" is joined to
    "NOUN": (_nouns,),
    "VERB": (_verbs, _clauses),
    "AUX": (_verbs, _complements, _clauses),
    "ADP": (_places,),
}
