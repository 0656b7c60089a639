"""Hard positives by rule (Hard Positives, supplementary B and D): other words, the same meaning.

REPLACE takes the fixed table of Tables 1-3; SWAP exchanges what stands around "and". Departure: an article follows the
new word ("a white mug" gives "an ivory mug"; the benchmark prints "a upright person").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compclip.text import agreement, caption_words, fitting_words, joined_phrases, lexicon, word_edits
from compclip.text.annotation import Annotation, Span
from compclip.text.joined_phrases import Exchange
from compclip.text.rule_columns import reads_columns
from compclip.text.word_edits import word_set

_LISTS = lexicon.TABLES["positives"]
PREPOSITION = "preposition"
ATTRIBUTE = "attribute"
ACTION = "action"
MODIFIER = "modifier"


@dataclass(frozen=True)
class Replacement:
    """A replacement of the table: `words` (lower case, in order), the new words, and the use that the table means."""

    words: tuple[str, ...]
    new: str
    use: str


TABLE: dict[str, list[Replacement]] = {}  # by the first word
for _use, _pairs in _LISTS["table"].items():
    for _pair in word_edits.split_phrases(_pairs, ";"):
        _old, _new = _pair.split(" > ")
        TABLE.setdefault(_old.split()[0], []).append(Replacement(tuple(_old.split()), _new, _use))
# "in" is a place here: not clothes worn, wherever they are in the phrase ("in a green shirt standing") ...
_WORN = word_edits.word_set(_LISTS["worn"])
# ... nor a colour worn, a fixed phrase, or what encloses nothing
_NO_PLACE = word_edits.word_set(_LISTS["no_place"])
_PASSING = fitting_words.MOTIONS | {"pass"}
_RESTING = ("perch", "rest", "place", "pile", "stack", "set", "balance")  # what is above is then on top
# what has another colour than a thing: people, and kinds ("a brown bear", "red wine", "red hair")
_NO_COLOURED = joined_phrases.PERSONS | word_edits.word_set(
    "hair beard bear bean beans pepper wine tea rice onion light board jay meat picture photo photograph image shot"
)
_NO_SIZED = word_edits.word_set("amount number portion quantity part variety majority shot bit extent")
_OLD_KINDS = ("fashioned", "fashion", "school", "style", "time", "world")


@reads_columns("tokens", "sentences", "lemma")
def replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one relation or attribute of the table by its fixed equivalent; None if the caption has none."""
    occurrences = list(_find_occurrences(annotation))
    if not occurrences:
        return None
    span, entry = occurrences[rng.integers(len(occurrences))]
    start, end = annotation.chars(span)
    new = word_edits.capitalize_first(entry.new) if annotation.text[start].isupper() else entry.new
    text = word_edits.replace_span(annotation.text, (start, end), new)
    has_article = span[0] > 0 and annotation.word(span[0] - 1).lower() in ("a", "an")
    return agreement.fix_articles(text, annotation.text) if has_article else text


@reads_columns("tokens", "sentences", "chunks", "lemma")
def swap(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the phrases around an "and" where this keeps the meaning and reads well; None without such an "and".

    `fit_conjuncts` and `find_exchanges` say which do: no article, adjective, place or order in time may get another
    reading.
    """
    conjunctions = _find_conjunctions(annotation)
    if not conjunctions:
        return None
    a = fitting_words.correct(annotation)
    exchanges = []
    for conjunction in conjunctions:
        pair = _find_conjuncts(a, conjunction)
        fitting_pair = fit_conjuncts(a, *pair) if pair else None
        if fitting_pair:
            exchanges.append((*fitting_pair, ""))
    exchanges += find_exchanges(a, conjunctions)
    texts: dict[str, None] = {}
    for exchange in exchanges:
        text = word_edits.exchange_spans(a, *exchange)
        if not is_list_longer(a, exchange[1]) and not word_edits.equal_ignoring_case(text, a.text):
            texts.setdefault(text)
    return agreement.fix_articles(list(texts)[rng.integers(len(texts))], a.text) if texts else None


@reads_columns("tokens", "sentences")
def swap_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the phrases around any "and" that joins nouns, adjectives or verbs (D.1); None without such an "and"."""
    pairs = list(filter(None, [_find_conjuncts(annotation, t) for t in _find_conjunctions(annotation)]))
    text = word_edits.exchange_spans(annotation, *pairs[rng.integers(len(pairs))]) if pairs else annotation.text
    return None if word_edits.equal_ignoring_case(text, annotation.text) else text


@reads_columns("written_replace")
def written_replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return the language model's REPLACE of the whole caption (D.1), stored by the rewrite stage; None without one."""
    return annotation.written_replace or None


@reads_columns("written_swap")
def written_swap(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return the language model's SWAP of the whole caption (D.1); None without one."""
    return annotation.written_swap or None


RULES = {  # by who writes them
    "rules": {"swap": swap, "replace": replace},
    "rules_released": {"swap": swap_released, "replace": replace},
    "llm": {"swap": written_swap, "replace": written_replace},
}


# --- replace --------------------------------------------------------------------------------------------------


def _find_occurrences(a: Annotation) -> Iterator[tuple[Span, Replacement]]:
    """Find the table's words as the table means them: not painted "by" him, nor "3 m long"."""
    is_use = {PREPOSITION: _is_preposition, ATTRIBUTE: _is_attribute, ACTION: _is_action, MODIFIER: _is_modifier}
    words = a.lower_words()
    for token, word in enumerate(words):
        for entry in TABLE.get(word, ()):
            span = (token, token + len(entry.words))
            occurs = tuple(words[slice(*span)]) == entry.words and word_edits.is_bounded(a.text, *a.chars(span))
            if occurs and is_use[entry.use](a, token, entry.words):
                yield span, entry


def _is_preposition(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    last = token + len(words) - 1
    objects = a.dependents(last, "pobj", start=last)
    if not objects or (words == ("in",) and not _encloses(a, token, objects[0])):
        return False
    if words == ("by",):  # "fed by hand", "drives by a bus"
        verb = a.lemma[a.heads[token]].lower()
        return a.dep[token] == "prep" and a.lemma[objects[0]].lower() != "hand" and verb not in _PASSING
    is_higher = words == ("above",) and a.lemma[a.heads[token]].lower() not in _RESTING
    return len(words) > 1 or (a.pos[token] == "ADP" and not is_higher)


def _encloses(a: Annotation, preposition: int, thing: int) -> bool:
    """Return whether something is within what it is said to be in: no "dressed in", no "in a hat", no "in midair"."""
    words = a.lower_words(preposition + 1, thing + 1)
    lemmas = a.lower_lemmas(preposition + 1, thing + 1)
    ends = {a.lemma[thing].lower(), _next_word(a, preposition)}
    is_governed = a.lemma[a.heads[preposition]].lower() in fitting_words.GOVERNED
    return not is_governed and _WORN.isdisjoint(words + lemmas) and _NO_PLACE.isdisjoint(ends)


def _is_attribute(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    measured = token > 0 and a.dep[token - 1] in ("npadvmod", "nummod", "punct") and a.heads[token - 1] == token
    colour_noun = words[0] == "silver" and a.dep[token] in ("amod", "compound")
    return (a.pos[token] == "ADJ" or colour_noun) and not measured and not _is_of_kind(a, token, words[0])


def _is_of_kind(a: Annotation, token: int, word: str) -> bool:
    """Return whether an attribute is part of a name, or said of what another word would not be said of."""
    things = {a.lemma[a.heads[token]].lower(), a.word(a.heads[token]).lower(), _next_word(a, token)}
    if word in fitting_words.alternatives("color"):
        return not things.isdisjoint(_NO_COLOURED)
    return not things.isdisjoint(_NO_SIZED) or (word == "old" and _next_word(a, token).startswith(_OLD_KINDS))


def _is_action(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    """Return whether a verb has the object that the new words need ("in", "traveling on"), and no particle ("up")."""
    needs_object = words in (("wearing",), ("wears",), ("holding",), ("riding",))
    if a.pos[token] != "VERB" or (words == ("wears",) and a.dep[token] != "ROOT"):
        return False
    if a.dependents(token, "prt", start=token):
        return False
    if words == ("sitting",) and not _sits(a, token):
        return False
    return not needs_object or bool(a.dependents(token, "dobj", start=token))


def _sits(a: Annotation, verb: int) -> bool:
    """Return whether somebody sits: a computer is not "seated on a desk"."""
    subjects = a.dependents(verb, "nsubj", stop=verb)
    subject = subjects[-1] if subjects and a.tag[subjects[-1]] not in ("WDT", "WP") else a.heads[verb]
    is_food = subject > 0 and a.word(subject - 1).lower() == "hot"
    is_living = a.lemma[subject].lower() in joined_phrases.LIVING and not is_food
    return is_living or a.pos[subject] in ("PRON", "PROPN", "VERB")


def _is_modifier(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    is_described = token > 0 and a.heads[token - 1] == token and a.pos[token - 1] in ("ADJ", "ADV")  # "odd looking"
    return (
        (a.dep[token] == "amod" and not is_described)
        or (words == ("looking",) and _next_word(a, token) == "at")
        or (words == ("eating",) and a.pos[token] == "VERB")
    )


def _next_word(a: Annotation, token: int) -> str:
    return a.word(token + 1).lower() if token + 1 < len(a) else ""


# --- swap -----------------------------------------------------------------------------------------------------


def _find_conjunctions(a: Annotation) -> list[int]:
    return [t for t, dep in enumerate(a.dep) if dep == "cc" and a.word(t).lower() == "and"]


def _find_conjuncts(a: Annotation, conjunction: int) -> tuple[Span, Span] | None:
    """Return the two phrases around an "and", None where they are of different kinds or not next to it."""
    first = a.heads[conjunction]
    second = _find_second(a, conjunction)
    if a.dep[conjunction] != "cc" or not first < conjunction < second:
        return None
    kind = {"NOUN": "N", "PROPN": "N", "ADJ": "J", "VERB": "V"}
    if a.pos[first] not in kind or kind[a.pos[first]] != kind.get(a.pos[second]):
        return None
    spans = _conjunct_spans(a, first, conjunction, second, kind[a.pos[first]])
    return spans if spans and word_edits.are_bounded(a, *spans) else None


def _conjunct_spans(a: Annotation, first: int, conjunction: int, second: int, kind: str) -> tuple[Span, Span] | None:
    """Return the spans of both conjuncts; words after the second belong to it where the first has such words too."""
    end = conjunction - 1 if a.pos[conjunction - 1] == "PUNCT" else conjunction
    has_complement = end > first + 1
    objects = a.dependents(second, "dobj", "prt", "xcomp", "ccomp", start=second)
    stop = _last_dependent(a, second) + 1 if has_complement or (kind == "V" and objects) else second + 1
    if kind == "V":
        plain = second == conjunction + 1 and a.tag[first] == a.tag[second]
        return ((first, end), (second, stop)) if plain else None
    begin = _first_modifier(a, first)
    second_begin = _first_modifier(a, second)
    if second_begin != conjunction + 1:
        return None
    if a.pos[begin] == "DET" and a.pos[second_begin] != "DET" and begin < first:
        begin += 1  # "a white shirt and black tie": the article stays and serves both
    loose = kind == "N" and a.pos[second_begin] == "DET" and a.pos[begin] != "DET" and a.word(begin - 1).lower() == "of"
    return None if begin and loose else ((begin, end), (second_begin, stop))


def _first_modifier(a: Annotation, token: int) -> int:
    """Return the first token of the unbroken run of modifiers before `token`."""
    first = token
    while (
        first and is_below(a, first - 1, token) and a.dep[first - 1] not in ("cc", "punct", "preconj", "nsubj", "aux")
    ):
        first -= 1
    return first


def _last_dependent(a: Annotation, token: int) -> int:
    """Return the last token below `token` in the parse, without punctuation at the end."""
    last = token
    while last + 1 < len(a) and is_below(a, last + 1, token):
        last += 1
    while last > token and a.pos[last] in ("PUNCT", "SPACE"):
        last -= 1
    return last


# --- which adjectives and verbs may change places -------------------------------------------------------------------
# Which adjectives and verbs around an "and" say the same in the other order, and what may be misread.
#
# Of adjectives: all. Of verbs: those in -ing, which are at the same time ("jumps and catches" is an order).


def fit_conjuncts(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return the spans that may be exchanged, None where another order has another reading."""
    x = _head(a, first)
    if a.pos[x] == "ADJ":
        return None if _is_noun(a, x) or _is_noun(a, _head(a, second)) else (first, second)
    return _fit_verbs(a, first, second) if a.pos[x] == "VERB" else None


def _is_noun(a: Annotation, adjective: int) -> bool:
    """Return whether an adjective is the noun of "a sink and white towels", read as one phrase."""
    word = a.word(adjective).lower()
    is_adjective = word in caption_words.WORDS["a"] or word in fitting_words.alternatives("color")
    return word in caption_words.WORDS["n"] and not is_adjective


def _head(a: Annotation, span: Span) -> int:
    """Return the token of a span whose head is outside of it."""
    return next((t for t in range(*span) if not span[0] <= a.heads[t] < span[1] or a.heads[t] == t), span[0])


def _fit_verbs(a: Annotation, first: Span, second: Span) -> tuple[Span, Span] | None:
    """Return both verbs with all that belongs to them; None unless both are participles of one time."""
    x = _head(a, first)
    y = _head(a, second)
    if a.tag[x] != "VBG" or a.tag[y] != "VBG" or a.pos[first[1] - 1] == "ADP":
        return None
    may_share = first[1] - first[0] == 1 and a.lemma[x].lower() not in joined_phrases.LASTING
    if may_share and a.dependents(y, "dobj", start=y):
        return None  # "cutting and preparing a pizza"
    stop = _last_below(a, y) + 1
    if not {"nsubj", "mark", "cc", "conj"}.isdisjoint(a.dep[y + 1 : stop]) or not _are_below(a, range(y, stop), y):
        return None
    if a.pos[first[1] - 1] == "PUNCT" or not {"cc", "conj"}.isdisjoint(a.dep[x + 1 : first[1]]):
        return None
    return first, (second[0], stop)


def is_below(a: Annotation, token: int, head: int) -> bool:
    """Return whether `token` depends on `head`, directly or not, or is it."""
    while a.heads[token] != token and token != head:
        token = a.heads[token]
    return token == head


def _are_below(a: Annotation, tokens: range, head: int) -> bool:
    return all(is_below(a, t, head) for t in tokens)


def _last_below(a: Annotation, head: int) -> int:
    """Return the last token below a head, or the head; punctuation at the end is left out."""
    last = len(a) - 1
    while not is_below(a, last, head):
        last -= 1
    while a.pos[last] in ("PUNCT", "SPACE"):
        last -= 1
    return last


def is_list_longer(a: Annotation, second: Span) -> bool:
    """Return whether the parser joins a further part to the second: "a cup and pots and pans"."""
    high = second[1]
    return high < len(a) and a.dep[high] == "cc" and a.heads[high] == _head(a, second)


# --- more parts whose order says nothing ----------------------------------------------------------------------------
# Beside those of `fit_conjuncts` and `joined_phrases`. Two colours ("a black and a white dog", "one white and one
# black"); what persons do or are for a while ("sits on a bench and looks at the sea"); two places ("on bicycles and
# in carts"); two clauses without pronouns.


_CLAUSES = {"cc", "conj", "mark", *agreement.SUBJECTS}  # what a list or a clause of its own has
POINTING = joined_phrases.TOLD_APART | {"one", "it", "then", "second", "third"}
BESIDE_COLOURS = word_set("and or of , light dark bright pale")
STATES = word_set(_LISTS["states"])
IN_ORDER = word_set(_LISTS["in_order"])  # verbs of what has an end: another order is another story
ALONE = word_set("laugh talk wave eat drink read")
STATES_IN_ED = word_set("dress seat cover surround decorate clothe")  # participles beside "wearing"
STATIC = word_set("on in at under near beside behind by above")


def find_exchanges(a: Annotation, conjunctions: list[int]) -> Iterator[Exchange]:
    """Find the exchanges around each "and" of a caption."""
    for conjunction in conjunctions:
        if not 0 < conjunction < len(a) - 1:
            continue
        yield from joined_phrases.find_exchanges(a, conjunction)
        x = a.heads[conjunction]
        y = _find_second(a, conjunction)
        exchanges = [_colours(a, conjunction), _shared_state(a, conjunction)]
        for find in FINDERS.get(a.pos[x], ()) if x < conjunction < y else ():
            exchanges.append(find(a, conjunction, x, y))
        yield from filter(None, exchanges)


def _find_second(a: Annotation, conjunction: int) -> int:
    """Return the head of what "and" joins to its own head; 0 where it joins nothing."""
    seconds = a.dependents(a.heads[conjunction], "conj", start=conjunction + 1)
    return seconds[0] if seconds else 0


def _colours(a: Annotation, conjunction: int) -> Exchange | None:
    """Return the exchange of two colours, or of two adjectives with an article each before one noun."""
    words = ["", "", "", *a.lower_words(), "", "", ""][conjunction : conjunction + 7]  # the "and" is the fourth
    colours = fitting_words.alternatives("color")
    if words[2] in colours and words[4] in colours:
        is_part = words[1].endswith("ish") or not {words[1], words[5]}.isdisjoint(BESIDE_COLOURS)
        return None if is_part else Exchange((conjunction - 1, conjunction), (conjunction + 1, conjunction + 2))
    if words[2] == "," and words[1] in colours and words[4] in colours and a.word(max(conjunction - 4, 0)) in colours:
        return Exchange((conjunction - 4, conjunction - 3), (conjunction - 2, conjunction - 1))
    x = conjunction - 1
    y = conjunction + 2
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
    if a.pos[conjunction - 1] == "ADP" or "EX" in a.tag[:conjunction]:
        return None
    start = _begin(a, y, conjunction)
    first = _begin(a, x, 0)
    second = _whole(a, y, start)
    if start != conjunction + 1 or second is None or not _are_at_a_time(a, x, y, first, start):
        return None
    owns = "PRP$" in a.tag[slice(*second)]
    if owns and not joined_phrases.LIVING.isdisjoint(a.lower_lemmas(x, conjunction)):  # whose would it be
        return None
    return Exchange((first, conjunction), second) if _is_whole(a, x, conjunction) else None


def _begin(a: Annotation, verb: int, low: int) -> int:
    """Return the first auxiliary of a verb behind a token, or the verb."""
    return (*a.dependents(verb, "aux", "auxpass", start=low, stop=verb), verb)[0]


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
    y = conjunction + 1
    root = a.dep.index("ROOT") if "ROOT" in a.dep else 0
    is_last = y + 1 == len(a) or a.pos[y + 1] == "PUNCT"
    is_verb = a.lemma[y].lower() in STATES | ALONE and a.tag[y] in ("NNS", "VBZ") and a.tag[root] == "VBZ"
    if not is_last or not is_verb or not root < conjunction or a.lemma[root].lower() in IN_ORDER:
        return None
    between = slice(root + 1, conjunction)
    is_simple = _CLAUSES.isdisjoint(a.dep[between]) and "PUNCT" not in a.pos[between]
    return Exchange((root, conjunction), (y, y + 1)) if is_simple and a.pos[root] == "VERB" else None


def _whole(a: Annotation, head: int, start: int) -> Span | None:
    """Return the tokens from `start` to the last below `head`, None where others stand between or it is a list."""
    stop = _last_below(a, head) + 1
    tokens = range(start, stop)
    if not _CLAUSES.isdisjoint(a.dep[start:head] + a.dep[head + 1 : stop]) or not _are_below(a, tokens, head):
        return None
    points = any(_points(a, t) and a.tag[t] != "PRP$" for t in tokens if t != head)
    return None if points else (start, stop)


def _is_whole(a: Annotation, head: int, conjunction: int) -> bool:
    """Return whether all between a head and the "and" belongs to the head, and is no list."""
    is_list = not {"cc", "conj", "punct"}.isdisjoint(a.dep[head + 1 : conjunction])
    return not is_list and _are_below(a, range(head, conjunction), head)


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
    are_static = {a.word(x).lower(), a.word(y).lower()} <= STATIC
    return Exchange((x, conjunction), second) if second and are_static and _is_whole(a, x, conjunction) else None


def _clauses(a: Annotation, conjunction: int, x: int, y: int) -> Exchange | None:
    """Return the exchange of two whole clauses that last and do not speak of each other's things."""
    if a.dep[x] != "ROOT" or not _lasts(a, x) or not _lasts(a, y):
        return None
    start, end = a.tokens(next((s for s in a.sentences if s[0] <= a.starts[x] < s[1]), (0, len(a.text))))
    stop = conjunction - 1 if a.pos[conjunction - 1] == "PUNCT" else conjunction
    while end > y and a.pos[end - 1] in ("PUNCT", "SPACE"):
        end -= 1
    if start >= stop or not _are_below(a, range(conjunction + 1, end), y):
        return None
    first_nouns: set[str] = set()
    for t in (*range(start, stop), *range(conjunction + 1, end)):
        lemma = a.lemma[t].lower()
        if _points(a, t) or a.dep[t] in ("cc", "mark", "expl") or (t > conjunction and lemma in first_nouns):
            return None
        if t < stop and a.pos[t] in ("NOUN", "PROPN"):
            first_nouns.add(lemma)
    return Exchange((start, stop), (conjunction + 1, end))


def _lasts(a: Annotation, verb: int) -> bool:
    """Return whether a verb with a subject of its own says what lasts."""
    has_subject = bool(a.dependents(verb, *agreement.SUBJECTS, stop=verb))
    return has_subject and (a.tag[verb] == "VBG" or a.lemma[verb].lower() in STATES)


FINDERS = {  # by the part of speech of what "and" is joined to
    "VERB": (_verbs, _clauses),
    "AUX": (_verbs, _complements, _clauses),
    "ADP": (_places,),
}
