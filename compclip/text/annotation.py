"""A caption with everything the rewriting rules need to know about it, and the columnar file that keeps many of them.

T tokens. Offsets count characters of `text`; token spans and sentence spans are half-open.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError
from compclip.base.files import atomic, regular

Span = tuple[int, int]
VERSION = "2"
ROWS = 1 << 15  # captions held in Arrow form at once, while writing and while reading
NUMBERS = ("starts", "ends", "heads")
WORDS = ("pos", "tag", "lemma", "dep")
SPANS = ("sentences", "chunks", "verbs")
TEXTS = ("text", "written_swap", "written_replace")
SEPARATOR = "\t"  # between the candidates of a token; no WordNet word holds one


@dataclass(frozen=True, slots=True)
class Annotation:
    """One caption, its T tokens and the spans found in it.

    `starts`, `ends`: characters of each token. `pos`, `tag`: coarse (UPOS) and fine part of speech. `heads`: index of
    each token's head, its own for a root. `sentences`: character spans. `chunks`, `verbs`: token spans of noun chunks
    and of verb phrases (VERB? ADV* AUX* VERB+). `candidates`: for each token the words that may replace it.
    `written_swap`, `written_replace`: hard positives of the whole caption by a language model, "" where there is none.
    """

    text: str
    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    pos: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    lemma: tuple[str, ...] = ()
    dep: tuple[str, ...] = ()
    heads: tuple[int, ...] = ()
    sentences: tuple[Span, ...] = ()
    chunks: tuple[Span, ...] = ()
    verbs: tuple[Span, ...] = ()
    candidates: tuple[tuple[str, ...], ...] = ()
    written_swap: str = ""
    written_replace: str = ""

    def __len__(self) -> int:
        return len(self.starts)

    def word(self, token: int) -> str:
        """The token as it stands in the text."""
        return self.text[self.starts[token] : self.ends[token]]

    def chars(self, span: Span) -> Span:
        """The characters of a (non-empty) token span."""
        return self.starts[span[0]], self.ends[span[1] - 1]

    def tokens(self, span: Span) -> Span:
        """The token span of those tokens that begin within a character span."""
        return bisect_left(self.starts, span[0]), bisect_left(self.starts, span[1])

    def sentence(self, index: int) -> Annotation:
        """Sentence `index` as an annotation of its own: its text alone, all offsets counted from its beginning."""
        begin, end = self.sentences[index]
        if begin == 0 and end == len(self.text):
            return self
        low, high = self.tokens((begin, end))
        part = slice(low, high)
        return Annotation(
            self.text[begin:end],
            _shift(self.starts[part], begin),
            _shift(self.ends[part], begin),
            self.pos[part],
            self.tag[part],
            self.lemma[part],
            self.dep[part],
            _shift(self.heads[part], low),
            ((0, end - begin),),
            _within(self.chunks, low, high),
            _within(self.verbs, low, high),
            self.candidates[part],
        )


def _shift(values: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple([v - by for v in values]) if by else values


def _within(spans: tuple[Span, ...], low: int, high: int) -> tuple[Span, ...]:
    return tuple([(a - low, b - low) for a, b in spans if low <= a and b <= high])


# --- the file -------------------------------------------------------------------------------------------------


def save(path: str | Path, annotations: Sequence[Annotation], about: dict[str, str] | None = None) -> None:
    """Write annotations as one parquet file, atomically; `about` says what made them (versions) and is kept with them.

    Raises UserError where the file cannot be written.
    """
    schema = _schema(about or {})
    with atomic(path) as tmp, pq.ParquetWriter(tmp, schema, compression="zstd") as writer:
        for low in range(0, len(annotations), ROWS):
            rows = annotations[low : low + ROWS]
            columns = [pa.array([_cell(a, f.name) for a in rows], f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def load(path: str | Path) -> list[Annotation]:
    """The annotations of a file, equal to those saved. Raises UserError where it is missing or another file."""
    shared: dict[str, tuple[str, ...]] = {}
    with _open(path) as file, _no_collection():
        return [a for rows in file.iter_batches(ROWS) for a in _rows(rows, shared)]


def about(path: str | Path) -> dict[str, str]:
    """What made the annotations of a file, as given to `save`."""
    with _open(path) as file:
        return json.loads(file.schema_arrow.metadata[b"compclip.about"])


def _schema(made_with: dict[str, str]) -> pa.Schema:
    numbers, words = pa.list_(pa.int32()), pa.list_(pa.string())
    fields = [(name, pa.string()) for name in TEXTS]
    fields += [(name, numbers) for name in NUMBERS + SPANS] + [(name, words) for name in (*WORDS, "candidates")]
    return pa.schema(fields, {"compclip.annotation": VERSION, "compclip.about": json.dumps(made_with, sort_keys=True)})


def _cell(annotation: Annotation, name: str):
    value = getattr(annotation, name)
    if name in SPANS:
        return [edge for span in value for edge in span]
    return [SEPARATOR.join(words) for words in value] if name == "candidates" else value


@contextlib.contextmanager
def _open(path: str | Path) -> Iterator[pq.ParquetFile]:
    try:
        file = pq.ParquetFile(regular(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or 'cannot read'}; run the annotate stage again") from error
    except pa.ArrowException as error:
        raise UserError(f"{path}: not a parquet file; run the annotate stage again") from error
    with file:
        found = (file.schema_arrow.metadata or {}).get(b"compclip.annotation", b"none").decode(errors="replace")
        if found != VERSION:
            raise UserError(f"{path}: annotation format {found!a}, needed {VERSION!r}; run the annotate stage again")
        try:
            yield file
        except (OSError, pa.ArrowException, LookupError, TypeError, ValueError) as error:  # a page within it
            raise UserError(f"{path}: damaged ({type(error).__name__}); run the annotate stage again") from error


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of small tuples make the cyclic collector the main cost of loading; none of them is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _rows(batch: pa.RecordBatch, shared: dict[str, tuple[str, ...]]) -> list[Annotation]:
    columns: dict[str, list] = {name: batch.column(name).to_pylist() for name in TEXTS}
    columns |= {name: _numbers(batch.column(name)) for name in NUMBERS}
    columns |= {name: _words(batch.column(name), sys.intern) for name in WORDS}
    columns |= {name: _pairs(batch.column(name)) for name in SPANS}
    columns["candidates"] = _words(batch.column("candidates"), lambda joined: _split(joined, shared))
    return [Annotation(*row) for row in zip(*(columns[name] for name in Annotation.__dataclass_fields__), strict=True)]


def _split(joined: str, shared: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """One tuple for equal candidates, however many captions share them."""
    if joined not in shared:
        shared[joined] = tuple(sys.intern(word) for word in joined.split(SEPARATOR)) if joined else ()
    return shared[joined]


def _numbers(column: pa.ListArray) -> list[tuple[int, ...]]:
    return _cut(column.flatten().to_numpy().tolist(), column)


def _words(column: pa.ListArray, decode) -> list[tuple]:
    coded = column.flatten().dictionary_encode()
    vocabulary = [decode(word) for word in coded.dictionary.to_pylist()]
    return _cut([vocabulary[i] for i in coded.indices.to_numpy().tolist()], column)


def _pairs(column: pa.ListArray) -> list[tuple[Span, ...]]:
    flat = column.flatten().to_numpy().tolist()
    return _cut(list(zip(flat[::2], flat[1::2], strict=True)), column, width=2)


def _cut(flat: list, column: pa.ListArray, width: int = 1) -> list[tuple]:
    edges = np.concatenate([[0], np.cumsum(column.value_lengths().to_numpy() // width)]).tolist()
    return [tuple(flat[low:high]) for low, high in zip(edges, edges[1:], strict=False)]
