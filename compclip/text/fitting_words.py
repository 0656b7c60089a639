"""Which words of SVLC's lists fit in the place of which: of one use, and untrue where the other is true.

Colours and materials give way to the first words of other families, sizes and states to their opposites, places to
places that exclude them. A word without a line here stays as it is.
"""

from __future__ import annotations

import functools

from compclip.text.annotation import Annotation, Span
from compclip.text.word_edits import is_bounded, word_set

COLOURS = """
red crimson scarlet maroon burgundy; blue navy turquoise teal cyan indigo; green olive; yellow gold amber; orange;
purple violet lavender; pink magenta; brown; black; white ivory cream; gray grey silver; beige tan khaki
"""
MATERIALS = """
wood wooden bamboo plywood; metal metallic steel iron aluminum copper brass bronze tin chrome, stainless steel,
wrought iron; plastic vinyl fiberglass; glass crystal; paper cardboard; ceramic porcelain terracotta; marble granite
slate limestone
"""
CLOTHS = """
leather suede; cotton linen denim canvas; wool woolen felt; silk silky satin velvet lace nylon polyester
"""
GROUNDS = "dirt mud; gravel stone cobblestone; sand; concrete cement asphalt; wood"
SURFACES = "sandy; muddy"
OPPOSITES = """
big large huge giant enormous massive gigantic > small tiny little; small little tiny miniature > big large huge;
tall towering > short; short > tall long; long lengthy > short; high > low; low > high; wide broad > narrow; narrow
> wide; thick > thin; thin > thick; heavy > light; lightweight > heavy; fat chubby plump stocky > skinny slim;
skinny slim slender lean > chubby; deep > shallow; shallow > deep; full > empty; empty > full; bigger larger >
smaller; smaller > bigger larger; biggest largest > smallest; smallest > biggest largest; taller > shorter; shorter
> taller longer; longer > shorter; tallest > shortest; shortest > tallest; longest > shortest; wider > narrower;
open > closed; closed > open; clean > dirty; dirty > clean; wet > dry; dry > wet; hot > cold; cold > hot warm; warm
> cold; cool > warm; frozen > melted; melted > frozen; new > old; young > old; modern > ancient; ancient > modern;
broken cracked shattered > whole; ripe > rotten unripe; rotten > fresh; fresh > rotten stale; stale > fresh; raw >
cooked; cooked > raw; baked > fried raw; fried > baked raw; grilled > raw boiled; sliced chopped > whole; shiny >
dull; dull > shiny; bright > dark; dark > bright; clear > cloudy; cloudy > clear; smooth > rough; rough > smooth;
soft > hard; hard > soft; parked > moving; moving > parked
"""
PLACES = """
on, on top of > under, below, behind; onto > off, under; in, inside > behind, under, outside; into > out of, past,
away from; under, below > above, on top of; above > under, below; over > under, around; behind > in front of; in
front of > behind; near, next to, beside, by, close to > far from, under, on top of; against > far from, under; far
from > near, next to; through > around, past; across > around, along; along > across, away from; around > through,
under; off > onto, toward; out of > into; away from > toward; toward > away from; down > up; up > down; sitting on >
standing on, lying on; standing on > sitting on, lying on; lying on > standing on, sitting on; walking on > sitting
on, lying on; riding on > walking on, standing on; leaning on > sitting on, lying on
"""
PERSONS = word_set("man men woman women lady ladies guy gentleman person people couple dog dogs cat cats horse")
ATTRIBUTIVE = ("amod", "compound", "acomp", "conj", "nmod", "oprd")
GOVERNED = word_set(  # verbs whose preposition says no place
    "look stare gaze point smile wave aim dress clothe cover fill surround engage interest participate depend rest feed"
)
NO_PLACES = word_set(  # objects that say what is worn, when, or where in the picture
    "shirt t-shirt tshirt dress jacket coat hat cap suit tie sweater sweatshirt uniform outfit shorts pant pants "
    "jean jeans skirt clothes clothing attire gear helmet costume vest robe gown top hoodie swimsuit bikini trunk "
    "trunks apron collar harness leash glass glasses background foreground distance middle center air front line "
    "row night day morning afternoon evening transportation action style order way bathing half use raincoat "
    "sunglasses goggles mask wig mouth hand hands left right side rain sun shade phone cellphone wheelchair "
    "tuxedo kimono scarf bun ponytail"
)
OBJECTS = ("DET", "NOUN", "ADJ", "NUM", "PRON", "PROPN")


@functools.cache
def alternatives(kind: str) -> dict[str, tuple[str, ...]]:
    """Return, for each word of a kind, those that may stand in its place."""
    if kind == "color":
        return _of_other_families(COLOURS)
    if kind == "material":
        return {
            word: others
            for families in (GROUNDS, SURFACES, CLOTHS, MATERIALS)
            for word, others in _of_other_families(families).items()
        }
    table: dict[str, tuple[str, ...]] = {}
    for entry in (PLACES if kind == "action" else OPPOSITES).split(";"):
        olds, news = (_split_words(side, kind) for side in entry.split(">"))
        table |= {old: (*table.get(old, ()), *news) for old in olds}
    return table


def find_alternatives(kind: str, text: str, span: Span) -> tuple[str, ...]:
    """Return the words that may stand at a span of a text; what is old gives way by the word behind it."""
    word, behind = " ".join(text[slice(*span)].lower().split()), text[span[1] :].split()[:1]
    if word == "old":
        return ("young",) if behind and behind[0].strip(".,;").lower() in PERSONS else ("new",)
    return alternatives(kind).get(word, ())


def _split_words(text: str, kind: str) -> tuple[str, ...]:
    words = text.split(",") if kind == "action" else text.split()
    return tuple(" ".join(word.split()) for word in words)


def _of_other_families(text: str) -> dict[str, tuple[str, ...]]:
    families = []
    for family in text.split(";"):
        words, *phrases = family.split(",")
        families.append((*words.split(), *(" ".join(phrase.split()) for phrase in phrases)))
    return {
        word: tuple(others[0] for others in families if others is not family) for family in families for word in family
    }


def fits(a: Annotation, kind: str, span: Span) -> bool:
    """Return whether the words at a span of characters are used as their list means them."""
    low, high = a.tokens(span)
    if low == high or not is_bounded(a.text, *span):
        return False
    if kind == "action":
        return _is_place(a, low, high)
    if any(a.heads[t] == low and a.dep[t] in ("npadvmod", "nummod") for t in range(low)):  # "3 feet long"
        return False
    return a.pos[low] in ("ADJ", "NOUN", "VERB") and a.dep[low] in ATTRIBUTIVE and a.pos[a.heads[low]] != "ADP"


def _is_place(a: Annotation, low: int, high: int) -> bool:
    """Return whether tokens say where something is, before a thing: no particle, no "look at", no "dressed in"."""
    if high >= len(a) or a.pos[high] not in OBJECTS or a.tag[high] in ("EX", "WDT", "WP"):
        return False
    holder = a.lemma[a.heads[low]].lower()
    objects = [a.lemma[t].lower() for t in range(high, len(a)) if a.dep[t] == "pobj" and low <= a.heads[t] < high]
    next_words = {a.word(t).lower() for t in range(high, min(high + 4, len(a))) if a.pos[t] in ("ADJ", "NOUN", "VERB")}
    if not NO_PLACES.isdisjoint((*objects, *next_words)) or alternatives("color").keys() & set(objects):
        return False
    is_particle = a.dep[low] in ("prt", "agent", "mark", "aux") or (a.pos[low] == "ADV" and high - low == 1)
    return not is_particle and (a.pos[low] == "VERB" or holder not in GOVERNED)
