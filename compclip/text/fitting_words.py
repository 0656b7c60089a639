"""Which words of SVLC's lists fit in the place of which: of one use, and untrue where the other is true.

Colours and materials give way to the first words of other families, sizes and states to their opposites, places to
places that exclude them. A word without a line here stays as it is. `USES` are words of place that fit in some uses
alone: "at the beach", "down a river", "looking at a dog". "Without" stands for "with" where a caption has nothing else.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from compclip.text import caption_words, lexicon
from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import is_bounded, split_phrases, word_set

_LISTS = lexicon.TABLES["fitting_words"]
COLOURS = _LISTS["colours"]
MATERIALS = _LISTS["materials"]
CLOTHS = _LISTS["cloths"]
GROUNDS = "dirt mud; gravel stone cobblestone; sand; concrete cement asphalt; wood"
SURFACES = "sandy; muddy"
OPPOSITES = _LISTS["opposites"]
PLACES = _LISTS["places"]
USES = _LISTS["uses"]  # words of place that have these alternatives where `_has_use` says so
LAST_RESORT = "without"  # few captions deny: a word that tells all its texts apart
MEETING_PLACES = word_set(_LISTS["meeting_places"])
MOTIONS = word_set(_LISTS["motions"])
LOOKS = ("look", "stare", "gaze")
BODY = word_set(_LISTS["body"])
AWAY = word_set("walk run ride jump leap dive swim drive move come")
TO = ("to", "into", "onto")
PERSONS = word_set("man men woman women lady ladies guy gentleman person people couple dog dogs cat cats horse")
ATTRIBUTIVE = ("amod", "compound", "acomp", "conj", "nmod", "oprd")
GOVERNED = word_set(_LISTS["governed"])  # verbs whose preposition says no place
NO_PLACES = word_set(_LISTS["no_places"])  # objects that say what is worn, when, or where in the picture
FORMATIONS = ("line", "lines", "row", "rows")  # "in line"
OBJECTS = ("DET", "NOUN", "ADJ", "NUM", "PRON", "PROPN")


@functools.cache
def alternatives(kind: str) -> dict[str, tuple[str, ...]]:
    """Return, for each word of a kind, those that may be in its place."""
    table: dict[str, tuple[str, ...]] = {}
    if kind == "color":
        return _of_other_families(COLOURS)
    if kind == "material":
        for families in (GROUNDS, SURFACES, CLOTHS, MATERIALS):
            table |= _of_other_families(families)
        return table
    for entry in (PLACES if kind == "action" else OPPOSITES).split(";"):
        olds, news = entry.split(">")
        for old in _split_words(olds, kind):
            table[old] = (*table.get(old, ()), *_split_words(news, kind))
    return table


def find_alternatives(kind: str, text: str, span: Span) -> tuple[str, ...]:
    """Return the words that may stand at a span of a text; what is old gives way by the word behind it."""
    word = " ".join(text[slice(*span)].lower().split())
    behind = text[span[1] :].split()[:1]
    if word == "old":
        return ("young",) if behind and behind[0].strip(".,;").lower() in PERSONS else ("new",)
    return alternatives(kind).get(word, ())


def _split_words(text: str, kind: str) -> tuple[str, ...]:
    return split_phrases(text) if kind == "action" else tuple(text.split())


def _of_other_families(text: str) -> dict[str, tuple[str, ...]]:
    families = []
    for family in text.split(";"):
        words, _, phrases = family.partition(",")
        families.append((*words.split(), *split_phrases(phrases)))
    table: dict[str, tuple[str, ...]] = {}
    for members in families:
        first_words = [rivals[0] for rivals in families if rivals is not members]
        table |= dict.fromkeys(members, tuple(first_words))
    return table


def find_fitting(a: Annotation, kind: str, span: Span) -> tuple[str, ...]:
    """Return the words that may stand at a span of characters; () where it is not used as its list means it."""
    low, high = a.tokens(span)
    if low == high or not is_bounded(a.text, *span):
        return ()
    if kind != "action":
        is_meant = _is_attribute(a, low) or (kind == "color" and _is_colour_worn(a, low))
        return find_alternatives(kind, a.text, span) if is_meant else ()
    words = " ".join(a.text[slice(*span)].lower().split())
    if words == "at" and a.heads[low] == low - 1 and a.lemma[low - 1].lower() in LOOKS:
        return ("away from",) if _find_objects(a, range(low, high), high, "pobj") else ()
    if words in USES and _has_use(a, words, low, high):
        return tuple(USES[words])
    return find_alternatives(kind, a.text, span) if _is_place(a, low, high) else ()


def _is_attribute(a: Annotation, token: int) -> bool:
    """Return whether a token describes a thing."""
    if a.dependents(token, "npadvmod", "nummod", stop=token):  # "3 feet long"
        return False
    return a.pos[token] in ("ADJ", "NOUN", "VERB") and a.dep[token] in ATTRIBUTIVE and a.pos[a.heads[token]] != "ADP"


def _is_colour_worn(a: Annotation, token: int) -> bool:
    """Return whether a colour is what somebody wears: "a girl in blue"."""
    head = a.heads[token]
    is_in = a.dep[token] == "pobj" and a.word(head).lower() == "in" and head == token - 1
    is_last = token + 1 == len(a) or a.pos[token + 1] not in ("NOUN", "PROPN")
    return is_last and (is_in or (a.dep[token] == "dobj" and a.lemma[head] == "wear"))


def _has_use(a: Annotation, words: str, low: int, high: int) -> bool:
    """Return whether a word of `USES` is used so."""
    if high >= len(a) or a.pos[high] not in OBJECTS or a.tag[high] in ("EX", "WDT", "WP"):
        return False
    holder = a.lemma[a.heads[low]].lower()
    if words in ("up", "down", "behind"):
        is_way = words == "behind" or holder in MOTIONS
        objects = _find_objects(a, range(a.heads[low], low), high, "dobj")
        return a.dep[low] == "prt" and is_way and bool(objects or _find_objects(a, range(low, high), high, "pobj"))
    objects = _find_objects(a, range(low, high), high, "pobj")
    if words == "at":
        return objects <= MEETING_PLACES and bool(objects) and holder not in GOVERNED
    if words == "from":
        siblings = {a.word(t).lower() for t in range(len(a)) if a.heads[t] == a.heads[low]}
        return holder in AWAY and bool(objects) and siblings.isdisjoint(TO)
    if words == "with":
        return _may_lack(a, low, objects) and holder not in (*GOVERNED, "along", "together")
    return bool(objects)


def _may_lack(a: Annotation, preposition: int, objects: set[str]) -> bool:
    """Return whether "without" reads well: of one thing, and no part of a body."""
    is_list = any(a.dependents(t, "conj") for t in a.dependents(preposition, "pobj", start=preposition))
    return bool(objects) and objects.isdisjoint(BODY) and not is_list and a.tag[a.heads[preposition]] != "VBN"


def _find_objects(a: Annotation, heads: range, start: int, dep: str) -> set[str]:
    """Return the lemmas of the objects of some tokens, from a token on."""
    return {a.lemma[t].lower() for t in range(start, len(a)) if a.dep[t] == dep and a.heads[t] in heads}


def _is_place(a: Annotation, low: int, high: int) -> bool:
    """Return whether tokens say where something is, before a thing: no particle, no "look at", no "dressed in"."""
    if high >= len(a) or a.pos[high] not in OBJECTS or a.tag[high] in ("EX", "WDT", "WP"):
        return False
    holder = a.lemma[a.heads[low]].lower()
    objects = _find_objects(a, range(low, high), high, "pobj")
    next_words = {a.word(t).lower() for t in range(high, min(high + 4, len(a))) if a.pos[t] in ("ADJ", "NOUN", "VERB")}
    if a.pos[high] == "PROPN" and a.word(low).lower() == "on":  # an island
        return False
    if a.word(high).lower() in alternatives("color") and (high + 1 == len(a) or a.pos[high + 1] not in ("NOUN", "ADJ")):
        return False
    is_formation = a.word(low).lower() in ("in", "on") and high - low == 1 and not next_words.isdisjoint(FORMATIONS)
    if is_formation or NO_PLACES & (objects | next_words) or alternatives("color").keys() & objects:
        return False
    is_particle = a.dep[low] in ("prt", "agent", "mark", "aux") or (a.pos[low] == "ADV" and high - low == 1)
    return not is_particle and (high - low > 1 or holder not in GOVERNED)


# --- slips of the tagger that captions show by themselves -----------------------------------------------------------
# Slips of the tagger that captions show by themselves, repaired for the rules that ask for agreement.
#
# "A dog runs on the beach" read as one plural noun has its verb back, "a white and tan Dog" its noun and its colour.


ANIMATE = word_set(_LISTS["animate"])
BEHIND_VERBS = ("ADP", "ADV", "PUNCT", "SCONJ", "CCONJ", "PART")


def correct(a: Annotation) -> Annotation:
    """Return the annotation with such slips repaired; itself where there is none."""
    if "PROPN" in a.pos:
        a = _correct_names(a)
    root = a.dep.index("ROOT") if "ROOT" in a.dep else 0
    return _correct_verb(a, root) if root and a.pos[root] == "NOUN" and _is_verb(a, root) else a


def _is_colour(a: Annotation, token: int) -> bool:
    """Return whether a name is a colour: in lower case, or the first of a caption."""
    is_written_so = token == 0 or a.word(token).islower()
    describes = a.dep[token] in ("amod", "conj", "pobj", "compound", "nmod")
    return is_written_so and describes and a.word(token).lower() in alternatives("color")


def _is_common_noun(a: Annotation, token: int) -> bool:
    """Return whether a name is a word of captions: in lower case, or the first of a caption or alone in capitals."""
    word = a.word(token)
    is_alone = token == 0 or a.pos[token - 1] != "PROPN" or not a.word(token - 1)[0].isupper()
    return a.tag[token] == "NNP" and word.lower() in caption_words.WORDS["n"] and (word.islower() or is_alone)


def _correct_names(a: Annotation) -> Annotation:
    adjectives = []
    nouns = []
    for t, pos in enumerate(a.pos):
        if pos == "PROPN" and _is_colour(a, t) and a.dep[t] != "pobj":
            adjectives.append(t)
        elif pos == "PROPN" and (_is_colour(a, t) or _is_common_noun(a, t)):
            nouns.append(t)
    return a.read_as(adjectives, nouns)


def may_be_verb(a: Annotation, token: int) -> bool:
    """Return whether a noun may be the verb of the one before it: "a sail drifts near the rocks", "girls dance on"."""
    if not token or a.dep[token - 1] != "compound" or a.lemma[token].lower() not in caption_words.WORDS["v"]:
        return False
    return (a.tag[token - 1], a.tag[token]) in (("NN", "NNS"), ("NNS", "NN")) and _is_said_to(a, token)


def _is_said_to(a: Annotation, verb: int) -> bool:
    return verb + 1 == len(a) or a.pos[verb + 1] in BEHIND_VERBS


def _is_verb(a: Annotation, token: int) -> bool:
    """Return whether a noun at the root is the verb of the noun before it: "a dog runs", "sheep graze"."""
    subject = token - 1
    if a.lemma[token].lower() not in caption_words.WORDS["v"] or a.pos[subject] != "NOUN":
        return False
    if a.dep[subject] not in ("compound", "nmod") or a.heads[subject] != token:
        return False
    are_unlike = (a.tag[subject], a.tag[token]) in (("NN", "NNS"), ("NNS", "NN"))
    return are_unlike and _is_said_to(a, token) and a.lemma[subject].lower() in ANIMATE


def _correct_verb(a: Annotation, verb: int) -> Annotation:
    """Return the annotation with a verb and its subject, which takes the words before it."""
    pos = list(a.pos)
    tag = list(a.tag)
    dep = list(a.dep)
    heads = list(a.heads)
    pos[verb], tag[verb] = "VERB", "VBZ" if a.tag[verb - 1] == "NN" else "VBP"
    dep[verb - 1] = "nsubj"
    for t in range(verb - 1):
        heads[t] = verb - 1 if heads[t] == verb else heads[t]
    chunks = tuple((low, verb) if low < verb < high else (low, high) for low, high in a.chunks)
    return replace(a, pos=tuple(pos), tag=tuple(tag), dep=tuple(dep), heads=tuple(heads), chunks=chunks)
