"""More parts around an "and" whose order says nothing, beside those of `conjunct_order` and `joined_phrases`.

Two colours ("a black and a white dog", "one white and one black"); what persons do or are for a while ("sits on a
bench and looks at the sea"); two places ("on bicycles and in carts"); two clauses without pronouns.
"""

from __future__ import annotations

from collections.abc import Iterator

from compclip.text import agreement, caption_words, conjunct_order, fitting_words, joined_phrases
from compclip.text.annotation import Annotation, Span
from compclip.text.joined_phrases import Exchange
from compclip.text.word_edits import word_set

POINTING = joined_phrases.TOLD_APART | {"one", "it", "then", "second", "third"}
BESIDE_COLOURS = word_set("and or of , light dark bright pale")
STATES = word_set(
    "sit stand lie wear hold look smile wait watch lean gaze stare pose hang carry have be seat kneel sleep rest"
)
IN_ORDER = word_set(  # verbs of what has an end: another order is another story
    "jump leap catch throw get go come prepare start begin fall turn pick bring put knock hit kick land return flip "
    "open close enter leave reach chase try stop cut climb dive"
)
ALONE = word_set("laugh talk wave eat drink read")
STATES_IN_ED = word_set("dress seat cover surround decorate clothe")  # participles beside "wearing"
STATIC = word_set("on in at under near beside behind by above")


def find_exchanges(a: Annotation, conjunctions: list[int]) -> Iterator[Exchange]:
    """Find the exchanges around each "and" of a caption."""
    for conjunction in (t for t in conjunctions if 0 < t < len(a) - 1):
        yield from joined_phrases.find_exchanges(a, conjunction)
        x, y = a.heads[conjunction], _find_second(a, conjunction)
        exchanges = [_colours(a, conjunction), _shared_state(a, conjunction)]
        if y is not None and x < conjunction:
            exchanges += [find(a, conjunction, x, y) for find in FINDERS.get(a.pos[x], ())]
        yield from (exchange for exchange in exchanges if exchange is not None)


def _find_second(a: Annotation, conjunction: int) -> int | None:
    """Return the head of what "and" joins to its own head."""
    head = a.heads[conjunction]
    return next((t for t in range(conjunction + 1, len(a)) if a.dep[t] == "conj" and a.heads[t] == head), None)


def _colours(a: Annotation, conjunction: int) -> Exchange | None:
    """Return the exchange of two colours, or of two adjectives with an article each before one noun."""
    words = [a.word(t).lower() if 0 <= t < len(a) else "" for t in range(conjunction - 3, conjunction + 4)]
    colours = fitting_words.alternatives("color")
    if words[2] in colours and words[4] in colours:
        is_part = words[1].endswith("ish") or not {words[1], words[5]}.isdisjoint(BESIDE_COLOURS)
        return None if is_part else Exchange((conjunction - 1, conjunction), (conjunction + 1, conjunction + 2))
    if words[2] == "," and words[1] in colours and words[4] in colours and a.word(max(conjunction - 4, 0)) in colours:
        return Exchange((conjunction - 4, conjunction - 3), (conjunction - 2, conjunction - 1))
    x, y = conjunction - 1, conjunction + 2
    if y >= len(a) or not all(a.tag[t] == "JJ" or a.word(t).lower() in colours for t in (x, y)):
        return None
    are_ones = words[1] == words[4] == "one"
    have_articles = {words[1], words[4]} <= {"a", "an", "one"}
    is_of_noun = have_articles and y + 1 < len(a) and a.pos[y + 1] == "NOUN"
    return Exchange((x, x + 1), (y, y + 1)) if are_ones or is_of_noun else None


# --- verbs, places and clauses --------------------------------------------------------------------------------


def _verbs(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of what one subject does at a time, with all that belongs to it."""
    if a.pos[y] not in ("VERB", "AUX") or a.pos[x] not in ("VERB", "AUX"):
        return None
    if a.pos[conjunction - 1] == "ADP" or any(a.tag[t] == "EX" for t in range(conjunction)):
        return None
    start, first = _begin(a, y, conjunction), _begin(a, x, 0)
    second = _whole(a, y, start)
    if start != conjunction + 1 or second is None or not _are_at_a_time(a, x, y, first, start):
        return None
    owns = any(a.tag[t] == "PRP$" for t in range(*second))
    if owns and any(a.lemma[t].lower() in joined_phrases.LIVING for t in range(x, conjunction)):  # whose would it be
        return None
    return Exchange((first, conjunction), second) if _is_whole(a, x, conjunction) else None


def _begin(a: Annotation, verb: int, low: int) -> int:
    """Return the first auxiliary of a verb behind a token, or the verb."""
    return next((t for t in range(low, verb) if a.heads[t] == verb and a.dep[t] in ("aux", "auxpass")), verb)


def _are_at_a_time(a: Annotation, x: int, y: int, first: int, second: int) -> bool:
    """Return whether two verbs of one form say what lasts."""
    tags = a.tag[first], a.tag[second]
    if tags in (("VBN", "VBG"), ("VBG", "VBN")):
        return a.lemma[first if tags[0] == "VBN" else second].lower() in STATES_IN_ED
    is_one_form = tags[0] == tags[1] or tags == ("VBP", "VB")
    are_verbs = {a.lemma[x], a.lemma[y]} <= caption_words.WORDS["v"] | {"be", "have"}
    return is_one_form and are_verbs and tags[0] in ("VBZ", "VBP", "VBD") and not {a.lemma[x], a.lemma[y]} & IN_ORDER


def _shared_state(a: Annotation, conjunction: int) -> Exchange | None:
    """Return the exchange of a verb with all that belongs to it and one word at the end: "holds a cup and smiles"."""
    y, root = conjunction + 1, a.dep.index("ROOT") if "ROOT" in a.dep else 0
    is_last = y + 1 == len(a) or a.pos[y + 1] == "PUNCT"
    is_verb = a.lemma[y].lower() in STATES | ALONE and a.tag[y] in ("NNS", "VBZ") and a.tag[root] == "VBZ"
    if not is_last or not is_verb or not root < conjunction or a.lemma[root].lower() in IN_ORDER:
        return None
    between = range(root + 1, conjunction)
    is_simple = not any(a.dep[t] in ("cc", "conj", "mark", *agreement.SUBJECTS) or a.pos[t] == "PUNCT" for t in between)
    return Exchange((root, conjunction), (y, y + 1)) if is_simple and a.pos[root] == "VERB" else None


def _whole(a: Annotation, head: int, start: int) -> Span | None:
    """Return the tokens from `start` to the last below `head`, None where others stand between or it is a list."""
    end = max(t for t in range(head, len(a)) if conjunct_order.is_below(a, t, head))
    while a.pos[end] in ("PUNCT", "SPACE"):
        end -= 1
    below = [t for t in range(start, end + 1) if t != head]
    if not all(conjunct_order.is_below(a, t, head) for t in below):
        return None
    points = any(_points(a, t) and a.tag[t] != "PRP$" for t in below)
    if points or any(a.dep[t] in ("cc", "conj", "mark", *agreement.SUBJECTS) for t in below):
        return None
    return start, end + 1


def _is_whole(a: Annotation, head: int, conjunction: int) -> bool:
    """Return whether all between a head and the "and" belongs to the head, and is no list."""
    between = range(head + 1, conjunction)
    return all(conjunct_order.is_below(a, t, head) and a.dep[t] not in ("cc", "conj", "punct") for t in between)


def _points(a: Annotation, token: int) -> bool:
    """Return whether a word speaks of what another part of the caption names."""
    return a.tag[token] in ("PRP", "PRP$") or a.word(token).lower() in POINTING


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
    "VERB": (_verbs, _clauses),
    "AUX": (_verbs, _complements, _clauses),
    "ADP": (_places,),
}
