"""Hard positives by rule (Hard Positives, supplementary B and D): other words, the same meaning.

REPLACE takes the fixed table of Tables 1-3; SWAP exchanges what stands around "and". Departure: an article follows the
new word ("a white mug" gives "an ivory mug"; the benchmark prints "a upright person").
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compclip.text import edits
from compclip.text.annotation import Annotation, Span
from compclip.text.words import words

PREPOSITION, ATTRIBUTE, ACTION, MODIFIER = "preposition", "attribute", "action", "modifier"


@dataclass(frozen=True)
class Entry:
    """A printed replacement: `words` (lower case, in order), what they become, and the use that the table means."""

    words: tuple[str, ...]
    new: str
    use: str


def _entries(use: str, pairs: str) -> tuple[Entry, ...]:
    split = (pair.split(" > ") for pair in pairs.split("; "))
    return tuple(Entry(tuple(old.split()), new, use) for old, new in split)


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
# "in" is a place here: not clothes or colours worn, nor a fixed phrase
_NO_PLACE = words(
    "shirt t-shirt tshirt dress jacket coat hat cap suit tie sweater uniform outfit short shorts pant pants jean jeans "
    "skirt clothes clothing attire gear helmet costume vest robe gown top hoodie sweatshirt swimsuit bikini trunk "
    "apron white black blue brown red green yellow orange pink purple gray grey front top between order action line "
    "row background middle center other"
)


def replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Replace one relation or attribute of the table by its fixed equivalent; None if the caption has none."""
    found = list(_occurrences(annotation))
    if not found:
        return None
    span, entry = found[rng.integers(len(found))]
    start, end = annotation.chars(span)
    new = entry.new[0].upper() + entry.new[1:] if annotation.text[start].isupper() else entry.new
    return _with_article(annotation, span[0], edits.put(annotation.text, (start, end), new), new)


def swap(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the phrases around an "and" that joins nouns, adjectives or verbs; None without such an "and"."""
    found = [pair for pair in (_conjuncts(annotation, t) for t in _conjunctions(annotation)) if pair]
    if not found:
        return None
    text = edits.exchange(annotation, *found[rng.integers(len(found))])
    return None if edits.same(text, annotation.text) else text


def reorderings(annotation: Annotation) -> frozenset[str]:
    """Collect, in lower case, the texts that exchange two members of a pair or list with "and": they mean the same."""
    pairs: list[tuple[Span, Span]] = []
    for conjunction in _conjunctions(annotation):
        pairs += filter(None, [_conjuncts(annotation, conjunction)])
        phrases = [_member_phrase(annotation, head) for head in _member_heads(annotation, conjunction)]
        for x, y in itertools.combinations(phrases, 2):
            pairs += [(x, y), (_without_article(annotation, x), y)]  # "a sink, toilet and shower": one article for all
    return frozenset(edits.exchange(annotation, x, y).casefold() for x, y in pairs if x[1] <= y[0])


def written_replace(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """The language model's REPLACE of the whole caption (D.1), as the rewrite stage stored it; None without one."""
    return annotation.written_replace or None


def written_swap(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """The language model's SWAP of the whole caption (D.1); None without one."""
    return annotation.written_swap or None


RULES = {  # by who writes them
    "rules": {"swap": swap, "replace": replace},
    "llm": {"swap": written_swap, "replace": written_replace},
}


# --- replace --------------------------------------------------------------------------------------------------


def _occurrences(a: Annotation) -> Iterator[tuple[Span, Entry]]:
    words = [a.word(t).lower() for t in range(len(a))]
    for token, word in enumerate(words):
        for entry in _BY_FIRST_WORD.get(word, ()):
            size = len(entry.words)
            if tuple(words[token : token + size]) == entry.words and _fits(a, (token, token + size), entry):
                yield (token, token + size), entry


def _fits(a: Annotation, span: Span, entry: Entry) -> bool:
    """Whether the words are what the table means: "by" the road and not painted "by" him, "long" but not "3 m long"."""
    uses = {PREPOSITION: _is_preposition, ATTRIBUTE: _is_attribute, ACTION: _is_action, MODIFIER: _is_modifier}
    return edits.bounded(a.text, *a.chars(span)) and uses[entry.use](a, span[0], entry.words)


def _is_preposition(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    last = token + len(words) - 1
    objects = [a.lemma[t].lower() for t in _children(a, last, "pobj", "pcomp")]
    if not objects or (words == ("in",) and (objects[0] in _NO_PLACE or _next_word(a, last) in _NO_PLACE)):
        return False
    return len(words) > 1 or (a.pos[token] == "ADP" and a.dep[token] != "agent")


def _is_attribute(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    measured = token > 0 and a.dep[token - 1] in ("npadvmod", "nummod", "punct") and a.heads[token - 1] == token
    colour_noun = words[0] == "silver" and a.dep[token] in ("amod", "compound")
    return (a.pos[token] == "ADJ" or colour_noun) and not measured


def _is_action(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    """A verb with its object where the new words need one ("in", "traveling on"), and no particle ("sitting up")."""
    needs_object = words in (("wearing",), ("wears",), ("holding",), ("riding",))
    if a.pos[token] != "VERB" or _children(a, token, "prt") or (words == ("wears",) and a.dep[token] != "ROOT"):
        return False
    return bool(_children(a, token, "dobj")) or not needs_object


def _is_modifier(a: Annotation, token: int, words: tuple[str, ...]) -> bool:
    return (
        a.dep[token] == "amod"
        or (words == ("looking",) and _next_word(a, token) == "at")
        or (words == ("eating",) and a.pos[token] == "VERB")
    )


def _children(a: Annotation, token: int, *kinds: str) -> list[int]:
    """The tokens after `token` in its sentence that depend on it in one of some ways."""
    end = next((e for _, e in a.sentences if e > a.starts[token]), len(a.text))
    high = a.tokens((a.starts[token], end))[1]
    return [t for t in range(token + 1, high) if a.heads[t] == token and a.dep[t] in kinds]


def _next_word(a: Annotation, token: int) -> str:
    return a.word(token + 1).lower() if token + 1 < len(a) else ""


def _with_article(a: Annotation, token: int, text: str, new: str) -> str:
    """`text` (changed from this token on) with "a" or "an" before it as `new` asks."""
    if token == 0 or a.word(token - 1).lower() not in ("a", "an"):
        return text
    article = "an" if new[0].lower() in "aeiou" else "a"
    old = a.word(token - 1)
    return edits.put(text, a.chars((token - 1, token)), article if old.islower() else article.capitalize())


# --- swap -----------------------------------------------------------------------------------------------------


def _conjunctions(a: Annotation) -> list[int]:
    return [t for t in range(len(a)) if a.word(t).lower() == "and"]


def _conjuncts(a: Annotation, conjunction: int) -> tuple[Span, Span] | None:
    """The two phrases around an "and", or None where they are of different kinds or not next to it."""
    left = a.heads[conjunction]
    right = next((t for t in _children(a, left, "conj") if t > conjunction), None)
    if a.dep[conjunction] != "cc" or right is None or not left < conjunction:
        return None
    kind = {"NOUN": "N", "PROPN": "N", "ADJ": "J", "VERB": "V"}
    if a.pos[left] not in kind or kind[a.pos[left]] != kind.get(a.pos[right]):
        return None
    spans = _phrases(a, left, conjunction, right, kind[a.pos[left]])
    return spans if spans and all(edits.bounded(a.text, *a.chars(s)) for s in spans) else None


def _phrases(a: Annotation, left: int, conjunction: int, right: int, kind: str) -> tuple[Span, Span] | None:
    """Token spans of both conjuncts; what follows the right one belongs to it where the left one has the like."""
    end = conjunction - 1 if a.pos[conjunction - 1] == "PUNCT" else conjunction
    own = end > left + 1
    objects = _children(a, right, "dobj", "prt", "xcomp", "ccomp")
    stop = _last(a, right) + 1 if own or (kind == "V" and objects) else right + 1
    if kind == "V":
        plain = right == conjunction + 1 and a.tag[left] == a.tag[right]
        return ((left, end), (right, stop)) if plain else None
    begin, second = _first(a, left), _first(a, right)
    if second != conjunction + 1:
        return None
    if a.pos[begin] == "DET" and a.pos[second] != "DET" and begin < left:
        begin += 1  # "a white shirt and black tie": the article stays and serves both
    loose = kind == "N" and a.pos[second] == "DET" and a.pos[begin] != "DET" and a.word(begin - 1).lower() == "of"
    return None if begin and loose else ((begin, end), (second, stop))


def _member_heads(a: Annotation, conjunction: int) -> list[int]:
    """List the heads of what an "and" joins, in order: of a list all its members."""
    first = a.heads[conjunction]
    if a.dep[conjunction] != "cc":
        return []
    while a.dep[first] == "conj" and a.heads[first] < first:
        first = a.heads[first]
    heads = [first]
    for token in range(first + 1, len(a)):
        if a.dep[token] == "conj" and a.heads[token] in heads:
            heads.append(token)
    return heads


def _member_phrase(a: Annotation, head: int) -> Span:
    """Return the tokens of one member: its head with modifiers, up to the next comma, conjunction or member."""
    end = head + 1
    while end < len(a) and a.dep[end] not in ("cc", "conj", "punct") and _under(a, end, head):
        end += 1
    return _first(a, head), end


def _without_article(a: Annotation, span: Span) -> Span:
    return (span[0] + 1, span[1]) if a.pos[span[0]] == "DET" and span[1] - span[0] > 1 else span


def _first(a: Annotation, token: int) -> int:
    """The first token of the unbroken run of modifiers before `token`."""
    first = token
    while first and _under(a, first - 1, token) and a.dep[first - 1] not in ("cc", "punct", "preconj", "nsubj", "aux"):
        first -= 1
    return first


def _last(a: Annotation, token: int) -> int:
    """The last token under `token`, punctuation at the end left out."""
    last = token
    while last + 1 < len(a) and _under(a, last + 1, token):
        last += 1
    while last > token and a.pos[last] in ("PUNCT", "SPACE"):
        last -= 1
    return last


def _under(a: Annotation, token: int, head: int) -> bool:
    """Whether `token` depends on `head`, directly or not."""
    while a.heads[token] != token and token != head:
        token = a.heads[token]
    return token == head
