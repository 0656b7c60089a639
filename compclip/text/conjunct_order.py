"""Which phrases around an "and" say the same in the other order.

Of nouns: both have an article, or share one ("a table and chair"); both have adjectives, or none ("a black shirt and
tie" may speak of a black tie); neither is told from the other ("his launcher and others", "a river and other
mountains"); what follows the second belongs to both, or to it alone ("a man in a cap and a girl in a dress"). Of
adjectives: all. Of verbs: those in -ing, which are at the same time ("jumps and catches" is an order).
"""

from __future__ import annotations

from compclip.text import agreement, caption_words, fitting_words
from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import word_set

TOLD_APART = word_set("other others another same each rest both more")
SCENE_PARTS = word_set("background foreground front distance hand hands side sides middle top back")
PERSONS = word_set(
    "man woman boy girl child kid baby toddler person lady guy adult teenager player gentleman dog cat father "
    "mother son daughter"
)
CLOTHES = word_set(
    "shirt t-shirt dress jacket coat hat cap suit tie sweater uniform outfit short pants jean skirt costume vest "
    "glasses sunglass robe pajama gown jersey helmet red blue green yellow black white orange pink purple brown "
    "gray grey"
)
PLACES = word_set("in on at near under behind beside outside inside by along over")
LASTING = word_set(
    "sit stand walk lie lay play run swim ride kiss hug pose wait sleep talk dance jump watch smile fish look "
    "hike jog float cool suspend attach wrestle gather line sled ski surf skate climb"
)
DETERMINERS = ("det", "poss", "nummod")
COMPLEMENTS = ("prep", "acl", "relcl", "appos", "advcl", "npadvmod", "advmod", "nmod")


def fit(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return the spans that may be exchanged, None where another order has another reading."""
    if a.pos[_head(a, first)] == "ADJ":
        return (first, second) if not any(_is_noun(a, t) for t in (_head(a, first), _head(a, second))) else None
    if a.pos[_head(a, first)] == "VERB":
        return _fit_verbs(a, first, second)
    return (first, second) if _are_equal_nouns(a, first, second) else None


def _is_noun(a: Annotation, adjective: int) -> bool:
    """Return whether an adjective is the noun of "a sink and white towels", read as one phrase."""
    word = a.word(adjective).lower()
    return (
        word in caption_words.WORDS["n"]
        and word not in caption_words.WORDS["a"] | fitting_words.alternatives("color").keys()
    )


def _head(a: Annotation, span: Span) -> int:
    """Return the token of a span whose head is outside of it."""
    return next((t for t in range(*span) if not span[0] <= a.heads[t] < span[1] or a.heads[t] == t), span[0])


def _fit_verbs(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return both verbs with all that belongs to them; None unless both are participles of one time."""
    x, y = _head(a, first), _head(a, second)
    if a.tag[x] != "VBG" or a.tag[y] != "VBG":
        return None
    end = max([y, *(t for t in range(y, len(a)) if is_below(a, t, y))])
    while a.pos[end] in ("PUNCT", "SPACE"):
        end -= 1
    below = range(y + 1, end + 1)
    if any(a.dep[t] in ("nsubj", "mark", "cc", "conj") for t in below) or not all(is_below(a, t, y) for t in below):
        return None
    if a.pos[first[1] - 1] == "PUNCT" or any(a.dep[t] in ("cc", "conj") for t in range(x + 1, first[1])):
        return None
    return first, (second[0], end + 1)


def is_below(a: Annotation, token: int, head: int) -> bool:
    """Return whether `token` depends on `head`, directly or not, or is it."""
    while a.heads[token] != token and token != head:
        token = a.heads[token]
    return token == head


def _are_equal_nouns(a: Annotation, first: Span, second: Span) -> bool:
    x, y = _head(a, first), _head(a, second)
    have_determiners = all(a.dep[span[0]] in DETERMINERS for span in (first, second))
    if _modifiers(a, x) != _modifiers(a, y) and not have_determiners:
        return False
    return may_change_places(a, first, second) and _have_articles_alike(a, first, second)


def may_change_places(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether two nouns mean the same in the other order, their determiners and adjectives apart."""
    x, y = _head(a, first), _head(a, second)
    words = {a.word(t).lower() for span in (first, second) for t in range(*span)}
    if fitting_words.alternatives("color").keys() & {a.word(x).lower(), a.word(y).lower()}:  # "a red and a white boat"
        return False
    if words & TOLD_APART or any(a.tag[t] in ("PRP", "PRP$", "WP", "JJR") for t in range(*second)):
        return False
    if any(_is_verb_taken_for_noun(a, t) for t in range(second[0] + 1, second[1])) or words & {"left", "right"}:
        return False
    follows_conjunction = first[0] > 0 and a.dep[first[0] - 1] == "cc"  # "a yellow and red apple and bananas"
    if follows_conjunction or (second[1] < len(a) and a.pos[second[1]] == "NOUN"):  # "helmet and life jacket"
        return False
    is_activity = a.word(y).lower().endswith("ing") and a.tag[y] == "NN"
    return not is_activity and _complements_fit(a, first, second) and not _is_counted_there(a, x, y)


def _is_verb_taken_for_noun(a: Annotation, token: int) -> bool:
    """Return whether a noun behind a noun may be the sentence's verb: "a cup and an apple lie on the desk"."""
    lemma = a.lemma[token].lower()
    return a.pos[token] == "NOUN" == a.pos[token - 1] and (lemma in caption_words.WORDS["v"] or lemma.endswith("s"))


def may_be_misread(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether the parser may have joined what the caption does not.

    A verb read as a noun ("has a drink and smiles"), or the first of a further "and" ("a cup and pots and pans").
    """
    y, high = _head(a, second), second[1]
    has_determiner = any(a.dep[t] in DETERMINERS for t in range(max(first[0] - 1, 0), first[1]))
    may_be_verb = a.pos[y] == "NOUN" and a.lemma[y].lower() in caption_words.WORDS["v"] - fitting_words.NO_PLACES
    goes_on = high < len(a) and a.dep[high] == "cc" and a.heads[high] == y
    return goes_on or (has_determiner and high - second[0] == 1 and may_be_verb)


def _modifiers(a: Annotation, noun: int) -> bool:
    """Return whether words before a noun might speak of the next noun as well."""
    return any(a.heads[t] == noun and a.dep[t] in ("amod", "compound", "nmod") for t in range(noun))


def _have_articles_alike(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether each phrase has a determiner, or one before the first serves both in the same number."""
    of_first, of_second = (a.dep[span[0]] in DETERMINERS for span in (first, second))
    if of_first or of_second or not first[0]:
        return of_first == of_second
    before, article = a.dep[first[0] - 1], a.word(first[0] - 1).lower()
    if before == "amod":
        return False
    x, y = _head(a, first), _head(a, second)
    return article not in ("a", "an") or (a.tag[x] == a.tag[y] == "NN" and a.lemma[y].lower() not in agreement.MASS)


def _complements_fit(a: Annotation, first: Span, second: Span) -> bool:
    """Return whether what follows the nouns stays with what it is said of."""
    x, y = _head(a, first), _head(a, second)
    of_first = [t for t in range(x + 1, second[0]) if a.heads[t] == x and a.dep[t] in COMPLEMENTS]
    of_second = [t for t in range(y + 1, len(a)) if a.heads[t] == y and a.dep[t] in COMPLEMENTS]
    if any(
        a.tag[t] == "PRP" and is_below(a, t, y) for t in range(y + 1, len(a))
    ):  # "the river and the hills behind it"
        return False
    if of_first:
        both_persons = a.lemma[x].lower() in PERSONS and a.lemma[y].lower() in PERSONS
        return bool(of_second) and both_persons and _covers(a, y, second)
    following = [t for t in range(second[1], min(second[1] + 1, len(a))) if a.pos[t] in ("ADP", "VERB", "PRON")]
    return all(_is_of_both(a, token) for token in (*of_second, *following))


def _covers(a: Annotation, head: int, span: Span) -> bool:
    return all(t < span[1] or a.pos[t] == "PUNCT" for t in range(head, len(a)) if is_below(a, t, head))


def _is_of_both(a: Annotation, token: int) -> bool:
    """Return whether what follows two nouns is said of both: a place, or what persons do for a while."""
    if a.pos[token] == "ADP":
        things = [a.lemma[t].lower() for t in range(token + 1, len(a)) if a.heads[t] == token and a.dep[t] == "pobj"]
        words = {*things, *(a.word(t).lower() for t in range(token + 1, min(token + 3, len(a))))}
        return a.word(token).lower() in PLACES and not words & (CLOTHES | SCENE_PARTS)
    has_object = any(a.heads[t] == token and a.dep[t] == "dobj" for t in range(token + 1, len(a)))
    if a.tag[token] in ("VBZ", "VBP", "VBD") or a.pos[token] == "AUX":
        return True
    return a.lemma[token].lower() in LASTING and not has_object


def _is_counted_there(a: Annotation, x: int, y: int) -> bool:
    """Return whether a verb before them counts the first: "there is a man and two dogs"."""
    return a.tag[x] != a.tag[y] and a.dep[x] in ("attr", "nsubj") and a.heads[x] < x
