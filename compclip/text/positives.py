"""Hard positives by rule (Hard Positives, supplementary B and D): other words, the same meaning.

REPLACE takes the fixed table of Tables 1-3; SWAP exchanges what stands around "and". Departure: an article follows the
new word ("a white mug" gives "an ivory mug"; the benchmark prints "a upright person").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compclip.text import (
    agreement,
    conjunct_kinds,
    conjunct_order,
    fitting_words,
    joined_phrases,
    mended_parse,
    word_edits,
)
from compclip.text.annotation import Annotation, Span

PREPOSITION, ATTRIBUTE, ACTION, MODIFIER = "preposition", "attribute", "action", "modifier"


@dataclass(frozen=True)
class Replacement:
    """A replacement of the table: `words` (lower case, in order), the new words, and the use that the table means."""

    words: tuple[str, ...]
    new: str
    use: str


def _entries(use: str, pairs: str) -> tuple[Replacement, ...]:
    split = (pair.split(" > ") for pair in pairs.split("; "))
    return tuple(Replacement(tuple(old.split()), new, use) for old, new in split)


TABLE = (
    # Table 1: 14 relations; "riding" alone as in the example printed for "riding on"
    *_entries(
        PREPOSITION,
        "in > within; behind > to the rear of; on top of > on; near > next to; next to > near; "
        "under > beneath; by > near; above > on top of",
    ),
    *_entries(
        ACTION,
        "wearing > in; wears > in; holding > grasping; sitting > seated; hanging > dangling; "
        "walking > strolling; riding on > traveling on; riding > traveling on",
    ),
    # Table 2: intransitive actions (sitting, hanging and walking are above already) and colours
    *_entries(MODIFIER, "standing > upright; eating > ingesting; looking > gazing"),
    *_entries(
        ATTRIBUTE,
        "white > ivory; black > ebony; blue > sapphire; brown > chestnut; red > crimson; "
        "green > emerald; silver > metallic",
    ),
    # Table 3: sizes and states; the 24th attribute is not printed
    *_entries(
        ATTRIBUTE,
        "large > big; small > tiny; long > lengthy; big > large; huge > big; wet > damp; old > aged; "
        "clear > unclouded; young > youthful",
    ),
    *_entries(MODIFIER, "smiling > happy"),
)

_BY_FIRST_WORD = {word: [e for e in TABLE if e.words[0] == word] for word in {e.words[0] for e in TABLE}}
# "in" is a place here: not clothes worn, wherever they stand in the phrase ("in a green shirt standing") ...
_WORN = word_edits.word_set(
    "shirt t-shirt tshirt dress jacket coat hat cap suit tie sweater uniform outfit short shorts pant pants jean jeans "
    "skirt clothes clothing attire gear helmet costume vest robe gown top hoodie sweatshirt swimsuit bikini trunk "
    "apron harness scarf headscarf headband bandana pigtail ponytail denim glasses sunglasses goggles goggle mask wig "
    "boot boots shoe shoes sandal sandals sock socks glove gloves hood leotard wetsuit tuxedo kimono pajama pajamas "
    "overalls collar leather makeup beret beanie turban necklace bow sari armor"
)
# ... nor a colour worn, a fixed phrase, or what encloses nothing
_NO_PLACE = word_edits.word_set(
    "white black blue brown red green yellow orange pink purple gray grey front between order action line row "
    "background foreground middle center other air midair mid-air mid dark mirror position direction fist race sport "
    "sports tennis golf soccer game match tournament competition traffic hand hands bed window motion flight use half "
    "rain sun shade night day morning evening suds bounce pose wind midst swing breeze sky "
    "fall autumn winter summer spring forefront amazement awe surprise delight anticipation concentration celebration"
)
_PASSING = fitting_words.MOTIONS | {"pass"}
_RESTING = ("perch", "rest", "place", "pile", "stack", "set", "balance")  # what is above is then on top
# what has another colour than a thing: people, and kinds ("a brown bear", "red wine", "red hair")
_NO_COLOURED = joined_phrases.PERSONS | word_edits.word_set(
    "hair beard bear bean beans pepper wine tea rice onion light board jay meat picture photo photograph image shot"
)
_NO_SIZED = word_edits.word_set("amount number portion quantity part variety majority shot bit extent")
_OLD_KINDS = ("fashioned", "fashion", "school", "style", "time", "world")


def replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one relation or attribute of the table by its fixed equivalent; None if the caption has none."""
    occurrences = list(_find_occurrences(annotation))
    if not occurrences:
        return None
    span, entry = occurrences[rng.integers(len(occurrences))]
    start, end = annotation.chars(span)
    new = word_edits.capitalize_first(entry.new) if annotation.text[start].isupper() else entry.new
    return _fix_article(annotation, span[0], word_edits.replace_span(annotation.text, (start, end), new), new)


def swap(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the phrases around an "and" where this keeps the meaning and reads well; None without such an "and".

    `conjunct_order` and `conjunct_kinds` say which do: no article, adjective, place or order in time may get another
    reading.
    """
    if not (conjunctions := _find_conjunctions(annotation)):
        return None
    a = mended_parse.correct(annotation)
    pairs = [pair for pair in (_find_conjuncts(a, t) for t in conjunctions) if pair]
    exchanges = [(*fitting, "") for pair in pairs if (fitting := conjunct_order.fit(a, *pair))]
    exchanges += conjunct_kinds.find_exchanges(a, conjunctions)
    exchanges = [exchange for exchange in exchanges if not conjunct_order.is_list_longer(a, exchange[1])]
    texts = dict.fromkeys(word_edits.exchange_spans(a, *exchange) for exchange in exchanges)
    different = [text for text in texts if not word_edits.equal_ignoring_case(text, a.text)]
    return agreement.fix_articles(different[rng.integers(len(different))], a.text) if different else None


def swap_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the phrases around any "and" that joins nouns, adjectives or verbs (D.1); None without such an "and"."""
    pairs = [pair for pair in (_find_conjuncts(annotation, t) for t in _find_conjunctions(annotation)) if pair]
    text = word_edits.exchange_spans(annotation, *pairs[rng.integers(len(pairs))]) if pairs else annotation.text
    return None if word_edits.equal_ignoring_case(text, annotation.text) else text


def written_replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return the language model's REPLACE of the whole caption (D.1), stored by the rewrite stage; None without one."""
    return annotation.written_replace or None


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
    words = [a.word(t).lower() for t in range(len(a))]
    for token, word in enumerate(words):
        for entry in _BY_FIRST_WORD.get(word, ()):
            span = (token, token + len(entry.words))
            occurs = tuple(words[slice(*span)]) == entry.words and word_edits.is_bounded(a.text, *a.chars(span))
            if occurs and is_use[entry.use](a, token, entry.words):
                yield span, entry


def _is_preposition(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    last = token + len(words) - 1
    objects = _children(a, last, "pobj")
    if not objects or (words == ("in",) and not _encloses(a, token, objects[0])):
        return False
    if words == ("by",):  # "fed by hand", "drives by a bus"
        verb = a.lemma[a.heads[token]].lower()
        return a.dep[token] == "prep" and a.lemma[objects[0]].lower() != "hand" and verb not in _PASSING
    is_higher = words == ("above",) and a.lemma[a.heads[token]].lower() not in _RESTING
    return len(words) > 1 or (a.pos[token] == "ADP" and not is_higher)


def _encloses(a: Annotation, preposition: int, thing: int) -> bool:
    """Return whether something is within what it is said to be in: no "dressed in", no "in a hat", no "in midair"."""
    phrase = {word for t in range(preposition + 1, thing + 1) for word in (a.word(t).lower(), a.lemma[t].lower())}
    ends = {a.lemma[thing].lower(), _next_word(a, preposition)}
    is_governed = a.lemma[a.heads[preposition]].lower() in fitting_words.GOVERNED
    return not is_governed and _WORN.isdisjoint(phrase) and _NO_PLACE.isdisjoint(ends)


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
    if a.pos[token] != "VERB" or _children(a, token, "prt") or (words == ("wears",) and a.dep[token] != "ROOT"):
        return False
    if words == ("sitting",) and not _sits(a, token):
        return False
    return bool(_children(a, token, "dobj")) or not needs_object


def _sits(a: Annotation, verb: int) -> bool:
    """Return whether somebody sits: a computer is not "seated on a desk"."""
    subjects = [t for t in range(verb) if a.heads[t] == verb and a.dep[t] == "nsubj"]
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


def _children(a: Annotation, token: int, *kinds: str) -> list[int]:
    """Return the tokens after `token` in its sentence that depend on it in one of some ways."""
    end = next((e for _, e in a.sentences if e > a.starts[token]), len(a.text))
    high = a.tokens((a.starts[token], end))[1]
    return [t for t in range(token + 1, high) if a.heads[t] == token and a.dep[t] in kinds]


def _next_word(a: Annotation, token: int) -> str:
    return a.word(token + 1).lower() if token + 1 < len(a) else ""


def _fix_article(a: Annotation, token: int, text: str, new: str) -> str:
    """Return `text` (changed from `token` on) with the article before it, "a" or "an", that fits `new`."""
    if token == 0 or a.word(token - 1).lower() not in ("a", "an"):
        return text
    article = "an" if new[0].lower() in "aeiou" else "a"
    old = a.word(token - 1)
    return word_edits.replace_span(
        text, a.chars((token - 1, token)), article if old.islower() else article.capitalize()
    )


# --- swap -----------------------------------------------------------------------------------------------------


def _find_conjunctions(a: Annotation) -> list[int]:
    return [t for t, dep in enumerate(a.dep) if dep == "cc" and a.word(t).lower() == "and"]


def _find_conjuncts(a: Annotation, conjunction: int) -> tuple[Span, Span] | None:
    """Return the two phrases around an "and", None where they are of different kinds or not next to it."""
    first = a.heads[conjunction]
    second = next((t for t in _children(a, first, "conj") if t > conjunction), None)
    if a.dep[conjunction] != "cc" or second is None or not first < conjunction:
        return None
    kind = {"NOUN": "N", "PROPN": "N", "ADJ": "J", "VERB": "V"}
    if a.pos[first] not in kind or kind[a.pos[first]] != kind.get(a.pos[second]):
        return None
    spans = _conjunct_spans(a, first, conjunction, second, kind[a.pos[first]])
    return spans if spans and all(word_edits.is_bounded(a.text, *a.chars(s)) for s in spans) else None


def _conjunct_spans(a: Annotation, first: int, conjunction: int, second: int, kind: str) -> tuple[Span, Span] | None:
    """Return the spans of both conjuncts; words after the second belong to it where the first has such words too."""
    end = conjunction - 1 if a.pos[conjunction - 1] == "PUNCT" else conjunction
    has_complement = end > first + 1
    objects = _children(a, second, "dobj", "prt", "xcomp", "ccomp")
    stop = _last_dependent(a, second) + 1 if has_complement or (kind == "V" and objects) else second + 1
    if kind == "V":
        plain = second == conjunction + 1 and a.tag[first] == a.tag[second]
        return ((first, end), (second, stop)) if plain else None
    begin, second_begin = _first_modifier(a, first), _first_modifier(a, second)
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
        first
        and _depends_on(a, first - 1, token)
        and a.dep[first - 1] not in ("cc", "punct", "preconj", "nsubj", "aux")
    ):
        first -= 1
    return first


def _last_dependent(a: Annotation, token: int) -> int:
    """Return the last token below `token` in the parse, without punctuation at the end."""
    last = token
    while last + 1 < len(a) and _depends_on(a, last + 1, token):
        last += 1
    while last > token and a.pos[last] in ("PUNCT", "SPACE"):
        last -= 1
    return last


def _depends_on(a: Annotation, token: int, head: int) -> bool:
    """Return whether `token` depends on `head`, directly or not."""
    while a.heads[token] != token and token != head:
        token = a.heads[token]
    return token == head
