"""Captions to annotations: the only module that runs spaCy.

    annotations = annotate(captions)              # as objects
    shard = annotate_columns(captions, counts)    # as columns

Sentences are split by `sentences.split`, and the parser keeps to them. WordNet's replacements are looked up here
too, so that rules and training need neither.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import spacy
from spacy.attrs import DEP, HEAD, IDX, LEMMA, LENGTH, POS, TAG
from spacy.tokens import Doc

from compclip.text import (
    fitting_words,
    lexicon,
    relative_words,
    scene_graph,
    sentences,
    word_edits,
    wordnet,
    wordnet_files,
)
from compclip.text.annotation import NO_WORDS, NUMBERS, WORDS, Annotation, Span, Weighted
from compclip.text.annotation_columns import AnnotationColumns
from compclip.text.parser_models import model_name
from compclip.text.word_edits import word_set

UNUSED = ("ner", "senter")
PIECE = 6000  # characters parsed at once (some 1,000 words): the parser's memory grows with its document
BATCH = 64_000  # characters in a batch
BATCH_SIZE = 128  # captions in a batch
WORDS_KEPT = 200_000  # by a process that annotates shard after shard
_ATTRIBUTES: list[int | str] = [IDX, LENGTH, HEAD, POS, TAG, LEMMA, DEP]


def annotate_columns(
    texts: Iterable[str],
    counts: Counter,
    complete: Callable[[Annotation], Annotation] | None = None,
    relatives: str = "",
    vocabulary: frozenset[str] | None = None,
) -> AnnotationColumns:
    """Annotate a shard's captions and return them as columns, in order.

    Equal captions are analysed once; an annotation depends on the caption alone. `complete` adds what language models
    wrote for a caption. `relatives` asks for the words of CLoVe's rule, by
    how their weights count (`relative_words`). `vocabulary`: the words, in lower case, that
    may replace others; None: all of WordNet's. `counts` gets "captions"; "different", of which some are "long" (parsed
    in pieces, as `annotate` says) or "empty" (white space alone); and "without_noun". Raises UserError as `annotate`.
    """
    if _load_model.cache_info().currsize and len(_load_model().vocab) > WORDS_KEPT:
        _load_model.cache_clear()  # the model keeps every word that it meets
    numbered_texts = pa.array(texts, pa.string()).dictionary_encode()
    different_texts = numbered_texts.dictionary.to_pylist()
    numbers = numbered_texts.indices.to_pylist()
    columns = AnnotationColumns()
    nounless = set()
    for number, annotation in enumerate(_annotate_in_batches(different_texts, True, vocabulary)):
        if relatives:
            annotation = replace(annotation, relatives=find_relatives(annotation, vocabulary, relatives))
        columns.add(complete(annotation) if complete else annotation)
        if "NOUN" not in annotation.pos and "PROPN" not in annotation.pos:
            nounless.add(number)
        counts.update(long=len(annotation.text) > PIECE, empty=not annotation.sentences)
    columns.repeat(numbers)
    without_noun = sum(number in nounless for number in numbers)
    counts.update(captions=len(numbers), different=len(different_texts), without_noun=without_noun)
    return columns


def annotate(texts: Sequence[str], replacements: bool = True) -> list[Annotation]:
    """Annotate captions, in order.

    Captions of more than 6,000 characters are parsed in pieces that end with a sentence, or at white space where a
    sentence is longer. `replacements=False` leaves WordNet out. Raises UserError where the English model or WordNet is
    missing.
    """
    return list(_annotate_in_batches(texts, replacements))


@functools.cache
def _load_model() -> spacy.language.Language:
    return spacy.load(model_name(), exclude=list(UNUSED))


def _annotate_in_batches(
    texts: Iterable[str], replacements: bool, vocabulary: frozenset[str] | None = None
) -> Iterator[Annotation]:
    """Annotate captions, in order, with one batch in memory at a time."""
    model = _load_model()
    if replacements:
        wordnet_files.find_folder()
    captions = map(_split_caption, texts)
    while batch := list(itertools.islice(captions, BATCH_SIZE)):
        longest = min(PIECE, max(len(text) for text, _, _ in batch))
        parsed = model.pipe(_make_documents(batch), batch_size=min(BATCH_SIZE, BATCH // max(longest, 1)))
        for text, spans, pieces in batch:
            bare = _make_annotation(text, spans, [(low, next(parsed)) for low, _ in pieces])
            yield replace(bare, candidates=_find_candidates(bare, vocabulary) if replacements else ((),) * len(bare))


def _split_caption(text: str) -> tuple[str, list[Span], list[Span]]:
    """Return a text, its sentences, and the pieces that are parsed by themselves: consecutive, of at most `PIECE`."""
    spans = sentences.split(text)
    pieces = []
    low = 0
    while len(text) - low > PIECE:
        limit = low + PIECE
        begins = [begin for begin, _ in spans if low < begin <= limit]
        high = max(begins, default=0) or text.rfind(" ", low + 1, limit) + 1 or limit
        pieces.append((low, high))
        low = high
    return text, spans, [*pieces, (low, len(text))]


def _make_documents(batch: list[tuple[str, list[Span], list[Span]]]) -> Iterator[Doc]:
    """Tokenise the pieces of captions, one at a time."""
    for text, spans, pieces in batch:
        for low, high in pieces:
            yield _make_document(text[low:high], low, spans)


def _make_document(text: str, offset: int, spans: list[Span]) -> Doc:
    """Tokenise a piece and set the sentence boundaries that the parser must respect."""
    document = _load_model().make_doc(text)
    begins = {begin - offset for begin, _ in spans}
    for token in document:
        token.is_sent_start = token.i == 0 or token.idx in begins
    return document


def _make_annotation(text: str, spans: list[Span], pieces: list[tuple[int, Doc]]) -> Annotation:
    """Make one annotation of a caption's parsed pieces, given with their offsets; `spans` are its sentences."""
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS, "chunks")}
    for offset, document in pieces:
        first = len(columns["starts"])
        iterate_chunks = document.noun_chunks_iterator  # type: ignore[attr-defined]  # spaCy's stubs lack it
        columns["chunks"] += [(first + a, first + b) for a, b, _ in iterate_chunks(document)]
        for name, values in _token_attributes(document, offset, first).items():
            columns[name] += values
    fields: dict[str, Any] = {name: tuple(values) for name, values in columns.items()}
    bare = correct(Annotation(text, **fields))
    joined = _join_sentences(bare, spans)
    letters = word_edits.spell_verbs(bare)
    verbs: list[Span] = []
    for sentence in joined:
        verbs += [match.span() for match in word_edits.VERB_PHRASE.finditer(letters, *bare.tokens(sentence))]
    return replace(bare, sentences=joined, verbs=tuple(verbs))


def _token_attributes(document: Doc, offset: int, first: int) -> dict[str, list]:
    """Read the tokens of a piece that begins with character `offset` and token `first`, all at once."""
    starts, lengths, heads, *names = document.to_array(_ATTRIBUTES).T
    starts = offset + starts.astype(np.int64)
    heads = first + np.arange(len(document)) + heads.astype(np.int64)  # relative; negative ones come as 2**64 - n
    numbers = (starts, starts + lengths.astype(np.int64), heads)
    attributes = dict(zip(NUMBERS, [values.tolist() for values in numbers], strict=True))
    strings = document.vocab.strings
    for name, codes in zip(WORDS, names, strict=True):
        # one text of each label, as in annotations that are read from a shard: the rules compare them faster
        attributes[name] = [sys.intern(strings[code]) for code in codes.tolist()]
    return attributes


def _join_sentences(bare: Annotation, spans: list[Span]) -> tuple[Span, ...]:
    """Join sentences that share a token ("www.some.Thing")."""
    begins = set(bare.starts)
    joined: list[Span] = []
    for begin, end in spans:
        if joined and begin not in begins:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def _find_candidates(bare: Annotation, vocabulary: frozenset[str] | None) -> tuple[tuple[str, ...], ...]:
    """Return the candidates of each token; words that the caption has elsewhere are left out."""
    words = bare.lower_words()
    words_of_caption = frozenset([*words, *(lemma.lower() for lemma in bare.lemma)])
    with_object = {bare.heads[t] for t, dep in enumerate(bare.dep) if dep == "dobj"}
    candidates: list[tuple[str, ...]] = [()] * len(bare)
    for token, pos in enumerate(bare.pos):
        word = bare.word(token)
        before = words[token - 1] if token else ""
        is_aged = words[token] == "old" and before != "an"
        if is_place(bare, token):
            candidates[token] = (word_edits.write_like(word, OPPOSITES[words[token]]),)
        elif is_aged and bare.lemma[bare.heads[token]].lower() in fitting_words.PERSONS:
            candidates[token] = (word_edits.write_like(word, "young"),)
        elif pos in wordnet.REPLACED and word_edits.is_word(bare, token):
            article = before if before in ("a", "an") else ""
            has_object = token in with_object
            candidates[token] = wordnet.find_candidates(
                word, bare.lemma[token], pos, bare.tag[token], words_of_caption, article, has_object, vocabulary
            )
    return tuple(candidates)


def find_relatives(
    a: Annotation, vocabulary: frozenset[str] | None = None, weights: str = relative_words.SENSES
) -> tuple[Weighted, ...]:
    """Return the weighted words for CLoVe's rule of each token that represents an element of the caption's scene."""
    relatives = [NO_WORDS] * len(a)
    for element in scene_graph.read_scene(a):
        t = element.root
        relatives[t] = relative_words.find_relatives(a.word(t), a.pos[t], a.tag[t], vocabulary, weights)
    return tuple(relatives)


# --- left and right as words of place -------------------------------------------------------------------------------
# Left and right as words of place: taggers take half of them for forms of "leave" or for adverbs ("right").
#
# They are words of place behind "the", a possessive, "to" or "on", and before "of", "side", "hand" and the like; then
# the other side is what makes a caption wrong.


OPPOSITES = {"left": "right", "right": "left"}
BEFORE = word_set(lexicon.TABLES["spacy_parser"]["before"])
BEHIND = word_set(lexicon.TABLES["spacy_parser"]["behind"])


def correct(a: Annotation) -> Annotation:
    """Return the annotation with "left" and "right" as nouns and adjectives where they say a place."""
    adjectives: list[int] = []
    nouns: list[int] = []
    for t in range(len(a)):
        if is_place(a, t):
            behind = a.lower_words(t + 1, t + 2)
            is_adjective = behind != ["of"] and not BEHIND.isdisjoint(behind)
            (adjectives if is_adjective else nouns).append(t)
    return a.read_as(adjectives, nouns) if adjectives or nouns else a


def is_place(a: Annotation, token: int) -> bool:
    """Return whether a token is "left" or "right" as a place: not in "he left the room"."""
    if a.word(token).lower() not in OPPOSITES or not word_edits.is_word(a, token):
        return False
    before = a.word(token - 1).lower() if token else ""
    behind = a.word(token + 1).lower() if token + 1 < len(a) else ""
    if before in BEFORE:
        return behind not in ("a", "an", "the", "behind")
    return behind in BEHIND
