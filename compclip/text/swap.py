"""Negatives by exchange: NegCLIP within a caption (FSC-CLIP A.1), CLIC across two captions and within one (B.2).

Every rule takes annotations and a generator and gives a text that differs from the original, or None.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from compclip.text import agreement, exchangeable_atoms, scene_graph, sentences, true_edits, word_edits
from compclip.text.annotation import Annotation, Span
from compclip.text.rule_columns import reads_columns
from compclip.text.word_edits import draw_index

# CLIC B.2, and the tag that the tagger gives to white space
EXCLUDED = word_edits.word_set("AUX CCONJ DET INTJ PART PUNCT SCONJ SYM X SPACE")
ExchangeRule = Callable[[Annotation, Span, Span], str | None]
ARTICLES = ("a", "an", "A", "An")
TRIES = 10
READ_CLIP_DRAWS = 5
MOST_PAIRS = 10_000  # of a kind that are listed, and how many of them are tried: a caption that is one list of 1,250
MOST_TRIES = 500  # members has 780,000 pairs, and none is a negative
HELD = "\0"  # stands for a noun while another takes its place


@reads_columns("tokens", "sentences", "chunks", "verbs")
def negclip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two noun chunks, verb phrases, nouns, plurals, adverbs or adjectives; None if no kind has two.

    Chunks of more than two tokens only. Each kind with two different spans has the same chance. A list in another order
    and two adjectives of one noun are no negatives: "white and black" is as true as "black and white". Articles follow
    the new words.
    """
    return _exchange_one(annotation, rng, _exchangeable_spans(annotation), _exchange_with_articles)


@reads_columns("tokens", "sentences", "chunks", "verbs")
def negclip_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange as `negclip`, lists included and articles as they are, as NegCLIP's and FSC-CLIP's programs do."""
    return _exchange_one(annotation, rng, _exchangeable_spans(annotation), _exchange_any)


def _exchange_any(annotation: Annotation, x: Span, y: Span) -> str | None:
    """Return the text with two spans exchanged, None where that is the caption."""
    text = word_edits.exchange_spans(annotation, x, y)
    return None if word_edits.equal_ignoring_case(text, annotation.text) else text


def _exchange_for_negative(annotation: Annotation, x: Span, y: Span) -> str | None:
    """Return the text with two spans exchanged; None where it is as true as the caption.

    That is a list in another order, or the adjectives of one noun: "a black small dog".
    """
    if x[1] == y[0] and annotation.pos[x[0]] == annotation.pos[y[0]] == "ADJ":
        return None
    text = annotation.text
    between = text[annotation.ends[x[1] - 1] : annotation.starts[y[0]]].lower()
    if "and" in between or "," in between or "or" in between or "&" in between:
        before = text[: annotation.starts[x[0]]]
        behind = text[annotation.ends[y[1] - 1] :]
        if true_edits.are_members(before, between, behind):
            return None
    return _exchange_any(annotation, x, y)


def _exchange_with_articles(annotation: Annotation, x: Span, y: Span) -> str | None:
    """Return a negative as above; "a" or "an" before an exchanged word is that of the new one."""
    text = _exchange_for_negative(annotation, x, y)
    if text is None:
        return None
    for token, new_token in ((x[0], y[0]), (y[0], x[0])):
        article = annotation.word(token - 1) if token else ""
        if article in ARTICLES and agreement.article_for(annotation.word(new_token)) != article.lower():
            return agreement.fix_articles(text, annotation.text)
    return text


def _exchange_one(
    annotation: Annotation, rng: np.random.Generator, kinds: list[list[Span]], exchange: ExchangeRule
) -> str | None:
    """Exchange two spans of one kind, each kind by the same chance; where a drawn pair gives nothing, another one.

    Up to `MOST_TRIES` of a kind are tried.
    """
    kinds = [spans for spans in kinds if len(spans) > 1]
    while kinds:
        spans = kinds.pop(draw_index(rng, len(kinds)))
        pair = _draw_two(annotation, spans, rng)
        text = exchange(annotation, *pair) if pair else None
        if text is not None:
            return text
        if pair is None or len(spans) == 2:
            continue
        pairs = list(itertools.islice(itertools.combinations(spans, 2), MOST_PAIRS))
        rng.shuffle(pairs)
        for other_pair in pairs[:MOST_TRIES]:
            text = None if other_pair == pair else exchange(annotation, *other_pair)
            if text is not None:
                return text
    return None


def clic(
    a: Annotation,
    b: Annotation,
    rng: np.random.Generator,
    keep_common: bool = False,
    ends: str = sentences.UNCHANGED_ENDS,
) -> str | None:
    """Exchange one word of sentence `a` with one of sentence `b`, and join both in random order (CLIC 3.1, B.2).

    The words share a category where there is one in both sentences, words of both sentences left out; else they are
    any two, with `keep_common` still without words of both (B.4) unless a sentence has no others. None where the result
    would be one of the positives whatever is exchanged ("A dog." and "A cat.").
    """
    only_a = _words_not_in(a, b)
    only_b = _words_not_in(b, a)
    all_words = (_find_words(a), _find_words(b))
    if keep_common:
        all_words = (only_a or all_words[0], only_b or all_words[1])
    kinds_a = _group_by_category(a, only_a)
    kinds_b = _group_by_category(b, only_b)
    pools = [(kinds_a[pos], kinds_b[pos]) for pos in kinds_a if pos in kinds_b]
    if not pools and all(all_words):
        pools = [all_words]
    join = sentences.JOINS[ends]
    positives = {join(a.text, b.text).casefold(), join(b.text, a.text).casefold()}
    for _ in range(TRIES if pools else 0):
        words_a, words_b = pools[rng.integers(len(pools))]
        x = words_a[rng.integers(len(words_a))]
        y = words_b[rng.integers(len(words_b))]
        changed_a = _replace_from(a, x, b, y)
        changed_b = _replace_from(b, y, a, x)
        text = join(changed_a, changed_b) if rng.random() < 0.5 else join(changed_b, changed_a)
        if text.casefold() not in positives:
            return text
    return None


@reads_columns("tokens", "sentences")
def single(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two different words of one category in one sentence, or any two if no category has two (CLIC B.2).

    A list in another order, or two adjectives of one noun, are no negatives.
    """
    for index in rng.permutation(len(annotation.sentences)):
        words = _find_words(annotation, *annotation.tokens(annotation.sentences[index]))
        groups = _group_by_category(annotation, words).values()
        text = _exchange_one(annotation, rng, list(map(_as_spans, groups)), _exchange_for_negative)
        if text is None and not any(_have_two(annotation, group) for group in groups):
            text = _exchange_one(annotation, rng, [_as_spans(words)], _exchange_for_negative)
        if text:
            return text
    return None


def _have_two(a: Annotation, tokens: list[int]) -> bool:
    return len({a.word(t).casefold() for t in tokens}) > 1


@reads_columns("tokens", "sentences")
def nouns(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two different nouns; None where a caption has no two (CE-CLIP's relations, with its first two nouns).

    A list in another order is no negative; articles follow the new words.
    """
    nouns = [t for t, pos in enumerate(annotation.pos) if pos == "NOUN" and word_edits.is_word(annotation, t)]
    return _exchange_one(annotation, rng, [_as_spans(nouns)], _exchange_with_articles)


@reads_columns("tokens")
def nouns_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the first two nouns of at least three, wherever their letters stand, as CE-CLIP's program does.

    In this order, so that a "woman" behind a "man" becomes a "wowoman" (lezhang7/Enhance-FineGrained ef87eb7,
    data/dataset.py:131).
    """
    nouns = [annotation.word(t) for t, pos in enumerate(annotation.pos) if pos == "NOUN"]
    if len(nouns) < 3:
        return None
    first, second = nouns[:2]
    text = annotation.text.replace(first, HELD).replace(second, first).replace(HELD, second)
    return None if word_edits.equal_ignoring_case(text, annotation.text) else text


@reads_columns("tokens", "sentences", "chunks", "lemma")
def atoms(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two things or two attributes (CREPE's swap); None without two that fit each other's place.

    Each kind has the same chance, and in it each pair. Nouns take the number of their place or verbs follow them;
    `exchangeable_atoms` says what is left out.
    """
    for exchange in exchangeable_atoms.draw_exchanges(annotation, rng):
        text = word_edits.write_words(annotation, exchange)
        is_true = true_edits.reorders_list(annotation.text, text)
        if not is_true and not word_edits.repeats_word(text, annotation.text):
            return agreement.fix_articles(text, annotation.text)
    return None


@reads_columns("tokens", "sentences", "chunks")
def atoms_released(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the heads of two noun chunks, or two adjectives, as they are: pronouns, measures and plurals too.

    The kind of CREPE's published negatives. Each kind with two different words has the same chance; None without two.
    """
    elements = scene_graph.read_entities_and_attributes(annotation)
    pairs = []
    for kind in (scene_graph.ENTITY, scene_graph.ATTRIBUTE):
        spans = [element.span for element in elements if element.kind == kind]
        pair = _draw_two(annotation, spans, rng) if len(spans) > 1 else None
        if pair:
            pairs.append(pair)
    return word_edits.exchange_spans(annotation, *pairs[rng.integers(len(pairs))]) if pairs else None


@reads_columns("tokens", "chunks")
def read_clip(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange two nouns, adjectives, adverbs, noun phrases or verb phrases as READ-CLIP's program does.

    Of five draws, each of a kind that has two, one that differs; phrases may overlap, and tokens are joined by spaces
    (JiH00nKw0n/READ-CLIP b2f096c, src/common/mixin.py:132). None where all five are the caption.
    """
    words = annotation.words()
    kinds = [spans for spans in _read_clip_spans(annotation) if len(spans) > 1]
    texts: dict[str, None] = {}
    for _ in range(READ_CLIP_DRAWS if kinds else 0):
        spans = kinds[rng.integers(len(kinds))]
        (a, b), (c, d) = sorted(spans[i] for i in rng.permutation(len(spans))[:2])
        swapped = [*words[:a], *words[c:d], *words[b:c], *words[a:b], *words[d:]]
        if [word.casefold() for word in swapped] != [word.casefold() for word in words]:
            texts.setdefault(" ".join(swapped))
    return list(texts)[rng.integers(len(texts))] if texts else None


def _read_clip_spans(a: Annotation) -> list[list[Span]]:
    """Return the spans of READ-CLIP's five kinds; of verb phrases every part that is one itself."""
    words: dict[str, list[Span]] = {"NOUN": [], "ADJ": [], "ADV": []}
    for token, pos in enumerate(a.pos):
        if pos in words:
            words[pos].append((token, token + 1))
    chunks = [span for span in a.chunks if span[1] - span[0] > 2]
    letters = word_edits.spell_verbs(a)
    spans = itertools.combinations(range(len(a) + 1), 2)
    verbs = [(low, high) for low, high in spans if word_edits.VERB_PHRASE.fullmatch(letters, low, high)]
    return [*words.values(), chunks, verbs]


RULES = {"negclip": negclip, "negclip_released": negclip_released, "clic": single, "read_clip": read_clip}


def _exchangeable_spans(a: Annotation) -> list[list[Span]]:
    """Return the exchangeable token spans of each kind: noun chunks, verb phrases, and four kinds of words.

    In loops: list comprehensions cost a sixth more.
    """
    text = a.text
    starts = a.starts
    ends = a.ends
    chunks = []
    for low, high in a.chunks:
        if high - low > 2 and word_edits.is_bounded(text, starts[low], ends[high - 1]):
            chunks.append((low, high))
    verbs = []
    for low, high in a.verbs:
        if word_edits.is_bounded(text, starts[low], ends[high - 1]):
            verbs.append((low, high))
    words: dict[str, list[Span]] = {"NN": [], "NNS": [], "ADV": [], "ADJ": []}
    for token, tag in enumerate(a.tag):
        kind = tag if tag in words else a.pos[token]
        if kind in words and word_edits.is_word(a, token):
            words[kind].append((token, token + 1))
    return [chunks, verbs, *words.values()]


def _draw_two(a: Annotation, spans: list[Span], rng: np.random.Generator) -> tuple[Span, Span] | None:
    """Draw two spans with different words, in order; None where all words are equal."""
    text = a.text
    starts = a.starts
    ends = a.ends
    words = []
    for low, high in spans:
        words.append(text[starts[low] : ends[high - 1]].casefold())
    if words.count(words[0]) == len(words):
        return None
    first = draw_index(rng, len(words))
    first_words = words[first]
    different = []
    for index, words_of_span in enumerate(words):
        if words_of_span != first_words:
            different.append(index)
    second = different[draw_index(rng, len(different))]
    return (spans[first], spans[second]) if first < second else (spans[second], spans[first])


def _find_words(a: Annotation, low: int = 0, high: int | None = None) -> list[int]:
    return [t for t in range(len(a))[low:high] if word_edits.is_word(a, t)]


def _as_spans(tokens: list[int]) -> list[Span]:
    return [(t, t + 1) for t in tokens]


def _group_by_category(a: Annotation, tokens: list[int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for token in tokens:
        if a.pos[token] not in EXCLUDED:
            groups.setdefault(a.pos[token], []).append(token)
    return groups


def _words_not_in(a: Annotation, b: Annotation) -> list[int]:
    """Return the words of sentence `a` that `b` lacks."""
    words_of_b = {b.word(t).casefold() for t in range(len(b))}
    return [t for t in _find_words(a) if a.word(t).casefold() not in words_of_b]


def _replace_from(a: Annotation, x: int, b: Annotation, y: int) -> str:
    """Return sentence `a` with its word x replaced by word y of `b`."""
    span = a.chars((x, x + 1))
    leads = word_edits.leads_sentence(a, span[0])
    return word_edits.replace_span(a.text, span, word_edits.adapt_case(b, (y, y + 1), leads))
