"""Annotations out of a shard's columns: a row becomes an `Annotation` when it is asked for.

Of a mapped file nothing is read but what the row holds. The file is not looked through at its opening either: its rows
are checked one by one as they are made, so that a damaged one is an error and never a read beyond its buffer.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from itertools import accumulate
from operator import add, le, sub

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.text.annotation import SEPARATOR, SPANS, TEXTS, Annotation, Span, Weighted
from compclip.text.columns import LABELS, MASKED, STORED

SHARED = 1 << 14  # lists of candidates that are kept decoded, over all shards
HEAVIEST = 1 << 31  # no word is met as often
WEIGHED = 1 << 12  # and lists of relatives, which are longer
_DAMAGED = (LookupError, ValueError, TypeError, AttributeError, pa.ArrowException)


class Rows:
    """The annotations of a shard by their number; `columns` are those of `columns.Columns`, `where` names their file.

    Raises UserError, here and for a row, where the columns are others or damaged.
    """

    def __init__(self, columns: pa.RecordBatch | pa.StructArray, where: str = "annotations") -> None:
        self.where = where
        try:
            batch = pa.RecordBatch.from_struct_array(columns) if isinstance(columns, pa.StructArray) else columns
            batch.validate()  # that buffers are as long as they say, not what is in them
            self.count = len(batch)
            self.texts = [Strings(batch[name]) for name in TEXTS]
            self.tokens = Lists(batch["tokens"], "advance", "length", "head", *LABELS)
            self.labels = [self.tokens.vocabulary(name) for name in LABELS]
            self.spans = [Lists(batch[name]) for name in SPANS]
            self.lemma = Lists(batch["lemma"], "token", "word")
            self.candidates = OfTokens(batch["candidates"])
            self.masked = OfTokens(batch[MASKED]) if MASKED in batch.schema.names else None
            self.relatives = Lists(batch["relatives"], "token", "words") if "relatives" in batch.schema.names else None
            self.related = Strings(self.relatives.dictionaries["words"]) if self.relatives else None
            self.said = Words(batch["nouns"])
            self.words = Strings(self.lemma.dictionaries["word"])
            kept = [name for name in batch.schema.names if name.startswith(STORED)]
            self.stored = {name.removeprefix(STORED): Words(batch[name]) for name in kept}
        except _DAMAGED as error:
            raise self._damaged(error) from error

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Annotation:
        if not 0 <= index < self.count:
            raise IndexError(f"{self.where}: no caption {index} of {self.count}")
        try:
            return self._row(index)
        except _DAMAGED as error:
            raise self._damaged(error) from error

    def nouns(self, index: int) -> list[str]:
        """The nouns of a caption's first sentence. Raises UserError as for a row."""
        try:
            return self.said[index]
        except _DAMAGED as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> UserError:
        return UserError(f"{self.where}: damaged ({type(error).__name__}); run `dvc repro annotate` again")

    def _row(self, index: int) -> Annotation:
        text, written_swap, written_replace = [strings[index].decode() for strings in self.texts]
        advances, lengths, heads, *codes = [field.tolist() for field in self.tokens[index]]
        ends = tuple(accumulate(advances))
        starts, heads = tuple(map(sub, ends, lengths)), tuple(map(add, heads, range(len(heads))))
        _within((min(starts, default=0), max(ends, default=0)), len(text))
        _within(heads, len(heads) - 1)
        pos, tag, dep = [tuple(map(words.__getitem__, own)) for words, own in zip(self.labels, codes, strict=True)]
        lemma, candidates = self._lemma(index, text, starts, ends), self.candidates.of(index, len(ends))
        masked = self.masked.of(index, len(ends)) if self.masked else ()
        stored = {kind: tuple(texts) for kind, lists in self.stored.items() if (texts := lists[index])}
        sizes = (len(text), len(ends), len(ends))
        spans = [_pairs(lists[index][0].tolist(), size) for lists, size in zip(self.spans, sizes, strict=True)]
        words = (pos, tag, lemma, dep)
        more = (candidates, written_swap, written_replace, masked, stored)
        relatives = self._relatives(index, len(ends)) if self.relatives else ()
        return Annotation(text, starts, ends, *words, heads, *spans, *more, relatives)

    def _lemma(self, index: int, text: str, starts: tuple[int, ...], ends: tuple[int, ...]) -> tuple[str, ...]:
        if text.isascii():
            low = text.lower()
            words = [low[start:end] for start, end in zip(starts, ends, strict=True)]
        else:
            words = [text[start:end].lower() for start, end in zip(starts, ends, strict=True)]
        tokens, codes = self.lemma[index]
        for token, word in zip(tokens.tolist(), self.words.all(codes), strict=True):
            words[token] = word.decode()
        return tuple(words)

    def _relatives(self, index: int, count: int) -> tuple[Weighted, ...]:
        tokens, codes = self.relatives[index]
        found: list[Weighted] = [((), ())] * count
        for token, joined in zip(tokens.tolist(), self.related.all(codes), strict=True):
            found[token] = _weights(joined)
        return tuple(found)


def _within(places: Sequence[int], last: int) -> None:
    if places and not (min(places) >= 0 and max(places) <= last):
        raise ValueError("a place outside of the text")


def _pairs(edges: list[int], last: int) -> tuple[Span, ...]:
    _within(edges, last)
    return tuple(zip(edges[::2], edges[1::2], strict=True))


@functools.lru_cache(maxsize=SHARED)
def _split(joined: bytes) -> tuple[str, ...]:
    return tuple([sys.intern(word) for word in joined.decode().split(SEPARATOR)])


@functools.lru_cache(maxsize=WEIGHED)
def _weights(joined: bytes) -> Weighted:
    """Words and their weights, which stand in turn."""
    listed = joined.decode().split(SEPARATOR)
    words, weights = listed[::2], tuple(map(int, listed[1::2]))
    if len(words) != len(weights) or not all(words) or not all(0 < weight < HEAVIEST for weight in weights):
        raise ValueError("words without weights")
    return tuple(map(sys.intern, words)), weights


class Strings:
    """Texts of a column or of a dictionary, as UTF-8; ValueError or IndexError for one that lies outside of its buffer.

    Arrow's own `as_py` does not look, and ends the process.
    """

    def __init__(self, array: pa.StringArray) -> None:
        if array.type != pa.string():
            raise TypeError(f"a column of {array.type}")
        _, offsets, data = array.buffers()
        self.offsets = _view(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        self.lows, self.highs = self.offsets[:-1], self.offsets[1:]
        self.data = memoryview(data or b"")

    def __getitem__(self, index: int) -> bytes:
        low, high = self.offsets[index : index + 2].tolist()
        return self._cut([low], [high])[0] if high else b""

    def all(self, codes: np.ndarray) -> list[bytes]:
        """Those of some numbers."""
        return self._cut(self.lows[codes].tolist(), self.highs[codes].tolist()) if len(codes) else []

    def _cut(self, lows: list[int], highs: list[int]) -> list[bytes]:
        if min(lows) < 0 or max(highs) > len(self.data) or not all(map(le, lows, highs)):
            raise ValueError("a text outside of its column")
        data = self.data
        return [data[low:high].tobytes() for low, high in zip(lows, highs, strict=True)]


def numbers(column: pa.Array) -> np.ndarray:
    """A column of numbers, not copied; Arrow's own way would import pandas. ArrowException where it is none."""
    return np.from_dlpack(column)


class Lists:
    """The fields of a column of lists, or its only one, and of them one row's; ValueError where that lies outside."""

    def __init__(self, column: pa.ListArray, *names: str) -> None:
        values = column.values
        if values.offset:
            raise ValueError("a part of a column")
        fields = [values.field(name) for name in names] or [values]
        names = names or ("",)
        self.offsets, self.size = numbers(column.offsets), len(values)
        self.fields = [numbers(f.indices if isinstance(f, pa.DictionaryArray) else f) for f in fields]
        self.dictionaries = {n: f.dictionary for n, f in zip(names, fields, strict=True) if hasattr(f, "dictionary")}

    def __getitem__(self, index: int) -> list[np.ndarray]:
        low, high = self.offsets[index : index + 2].tolist()
        if not 0 <= low <= high <= self.size:
            raise ValueError("a list outside of its column")
        return [field[low:high] for field in self.fields]

    def vocabulary(self, name: str) -> list[str]:
        """All words of a small dictionary."""
        words = Strings(self.dictionaries[name])
        return [sys.intern(words[code].decode()) for code in range(len(self.dictionaries[name]))]


def _view(buffer: pa.Buffer | None, kind: type) -> np.ndarray:
    return np.frombuffer(buffer, kind) if buffer is not None and buffer.size else np.zeros(0, kind)


class Words:
    """A column of lists of texts."""

    def __init__(self, column: pa.ListArray) -> None:
        self.lists = Lists(column)
        self.texts = Strings(self.lists.dictionaries[""])

    def __getitem__(self, index: int) -> list[str]:
        (codes,) = self.lists[index]
        return [text.decode() for text in self.texts.all(codes)]


class OfTokens:
    """A column of words that may stand in the places of some tokens."""

    def __init__(self, column: pa.ListArray) -> None:
        self.lists = Lists(column, "token", "words")
        self.words = Strings(self.lists.dictionaries["words"])

    def of(self, index: int, count: int) -> tuple[tuple[str, ...], ...]:
        """One row's, for each of so many tokens."""
        tokens, codes = self.lists[index]
        found: list[tuple[str, ...]] = [()] * count
        for token, joined in zip(tokens.tolist(), self.words.all(codes), strict=True):
            found[token] = _split(joined)
        return tuple(found)
