"""Negatives by exchange: NegCLIP within a caption (FSC-CLIP A.1), CLIC across two captions and within one (B.2).

Every rule takes annotations and a generator and gives a text that differs from the original, or None.
"""

from __future__ import annotations

import itertools

import numpy as np

from compclip.text import edits, positives, scene
from compclip.text.annotation import Annotation, Span
from compclip.text.words import words

# CLIC B.2, and the tag that the tagger gives to white space
EXCLUDED = words("AUX CCONJ DET INTJ PART PUNCT SCONJ SYM X SPACE")
TRIES = 10
KEPT, CLIC = "kept", "clic"  # how sentences end: as they are, or as in CLIC's released code


def negclip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two noun chunks, verb phrases, nouns, plurals, adverbs or adjectives; None if no kind has two.

    Chunks of more than two tokens only. Each kind with two different spans has the same chance. Two things that "and"
    joins are not exchanged: "white and black" is as true as "black and white".
    """
    return _exchanged(annotation, rng, positives.reorderings(annotation))


def negclip_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange as `negclip`, what "and" joins included, as NegCLIP's and FSC-CLIP's programs do."""
    return _exchanged(annotation, rng, frozenset())


def _exchanged(annotation: Annotation, rng: np.random.Generator, excluded: frozenset[str]) -> str | None:
    """Exchange two spans of one kind; `excluded` are results in lower case that are no negatives."""
    kinds = [k for k in _kinds(annotation) if len(k) > 1]
    while kinds:
        spans = kinds.pop(rng.integers(len(kinds)))
        pair = _two(annotation, spans, rng)
        text = edits.exchange(annotation, *pair) if pair else annotation.text
        if text.casefold() in excluded:
            texts = [edits.exchange(annotation, x, y) for x, y in itertools.combinations(spans, 2)]
            texts = [t for t in texts if t.casefold() not in excluded and not edits.same(t, annotation.text)]
            text = texts[rng.integers(len(texts))] if texts else annotation.text
        if not edits.same(text, annotation.text):
            return text
    return None


def clic(
    a: Annotation, b: Annotation, rng: np.random.Generator, keep_common: bool = False, ends: str = KEPT
) -> str | None:
    """Exchange one word of sentence `a` with one of sentence `b`, and join both in random order (CLIC 3.1, B.2).

    The words share a category where there is one in both sentences, words of both sentences left out; else they are
    any two, with `keep_common` still without words of both (B.4) unless a sentence has no others. None where the result
    would be one of the positives whatever is exchanged ("A dog." and "A cat.").
    """
    own_a, own_b = _own(a, b), _own(b, a)
    rest = (own_a or _words(a), own_b or _words(b)) if keep_common else (_words(a), _words(b))
    pools = _common_categories(a, own_a, b, own_b) or [rest]
    pools = [pool for pool in pools if pool[0] and pool[1]]
    for _ in range(TRIES if pools else 0):
        x, y = (side[rng.integers(len(side))] for side in pools[rng.integers(len(pools))])
        changed_a, changed_b = _across(a, x, b, y), _across(b, y, a, x)
        joined = JOINS[ends]
        text = joined(changed_a, changed_b) if rng.random() < 0.5 else joined(changed_b, changed_a)
        if not any(edits.same(text, p) for p in (joined(a.text, b.text), joined(b.text, a.text))):
            return text
    return None


def single(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two different words of one category in one sentence, or any two if no category has two (CLIC B.2)."""
    spans = [annotation.tokens(s) for s in annotation.sentences]
    for index in rng.permutation(len(spans)):
        words = [t for t in range(*spans[index]) if edits.is_word(annotation, t)]
        kinds = [k for k in _by_category(annotation, words).values() if len(k) > 1]
        kinds = [[(t, t + 1) for t in k] for k in kinds]
        rest = [[(t, t + 1) for t in words]]
        while kinds or rest:
            source = kinds or rest
            pair = _two(annotation, source.pop(rng.integers(len(source))), rng)
            text = edits.exchange(annotation, *pair) if pair else annotation.text
            if not edits.same(text, annotation.text):
                return text
    return None


def nouns(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two different nouns; None where a caption has no two (CE-CLIP's relations, with its first two nouns)."""
    found = [(t, t + 1) for t in _words(annotation) if annotation.pos[t] == "NOUN"]
    pair = _two(annotation, found, rng)
    text = edits.exchange(annotation, *pair) if pair else annotation.text
    return None if edits.same(text, annotation.text) else text


def atoms(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two things or two attributes (CREPE's swap): the heads of noun chunks, or adjectives; None without two.

    Each kind with two different words has the same chance.
    """
    elements = scene.things_and_attributes(annotation)
    kinds = [[e.span for e in elements if e.kind == kind] for kind in (scene.ENTITY, scene.ATTRIBUTE)]
    pairs = [pair for spans in kinds if len(spans) > 1 and (pair := _two(annotation, spans, rng))]
    return edits.exchange(annotation, *pairs[rng.integers(len(pairs))]) if pairs else None


def join(first: str, second: str) -> str:
    """Two sentences one after the other, a full stop and a space between; a question or exclamation keeps its mark."""
    first = first.rstrip()
    if first.endswith(("!", "?")):
        return f"{first} {second}"
    return f"{first.rstrip('. ')}. {second}"


def join_ended(first: str, second: str) -> str:
    """The same as CLIC's released code has it: each sentence ends with a full stop, behind any other mark."""
    return " ".join([text if text.endswith(".") else f"{text}." for text in (first.rstrip(), second.rstrip())])


def endless(text: str) -> str:
    """A sentence without its full stop."""
    return text.rstrip().rstrip(".").rstrip()


JOINS = {KEPT: join, CLIC: join_ended}
RULES = {"negclip": negclip, "negclip_released": negclip_released, "clic": single}


def _kinds(a: Annotation) -> list[list[Span]]:
    """Exchangeable token spans by kind: noun chunks, verb phrases, NN, NNS, ADV, ADJ."""
    kinds = [[s for s in a.chunks if s[1] - s[0] > 2 and _free(a, s)], [s for s in a.verbs if _free(a, s)]]
    words: dict[str, list[Span]] = {"NN": [], "NNS": [], "ADV": [], "ADJ": []}
    for token, (tag, pos) in enumerate(zip(a.tag, a.pos, strict=True)):
        kind = words.get(tag, words.get(pos))
        if kind is not None and edits.is_word(a, token):
            kind.append((token, token + 1))
    return [*kinds, *words.values()]


def _free(a: Annotation, span: Span) -> bool:
    return edits.bounded(a.text, *a.chars(span))


def _two(a: Annotation, spans: list[Span], rng: np.random.Generator) -> tuple[Span, Span] | None:
    """Two spans of different words, in order, or None."""
    texts = [a.text[slice(*a.chars(s))].casefold() for s in spans]
    if len(set(texts)) < 2:
        return None
    one = int(rng.integers(len(spans)))
    others = [i for i, text in enumerate(texts) if text != texts[one]]
    other = others[rng.integers(len(others))]
    return spans[min(one, other)], spans[max(one, other)]


def _words(a: Annotation) -> list[int]:
    return [t for t in range(len(a)) if edits.is_word(a, t)]


def _by_category(a: Annotation, tokens: list[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for token in tokens:
        if a.pos[token] not in EXCLUDED:
            found.setdefault(a.pos[token], []).append(token)
    return found


def _own(a: Annotation, b: Annotation) -> list[int]:
    """The words of sentence `a` that `b` lacks."""
    said = {b.word(t).casefold() for t in range(len(b))}
    return [t for t in _words(a) if a.word(t).casefold() not in said]


def _common_categories(
    a: Annotation, own_a: list[int], b: Annotation, own_b: list[int]
) -> list[tuple[list[int], list[int]]]:
    """The words of either sentence by category, for each category that both have."""
    kinds_a, kinds_b = _by_category(a, own_a), _by_category(b, own_b)
    return [(kinds_a[pos], kinds_b[pos]) for pos in kinds_a if pos in kinds_b]


def _across(a: Annotation, x: int, b: Annotation, y: int) -> str:
    """Sentence `a` with its word x replaced by word y of `b`."""
    place = a.chars((x, x + 1))
    return edits.put(a.text, place, edits.moved(b, (y, y + 1), edits.leads(a, place[0])))
