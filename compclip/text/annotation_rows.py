"""Read annotations from a shard's columns: a row becomes an `Annotation` when it is indexed.

Only what the row holds is read of a mapped file, also when the file is opened.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from itertools import accumulate
from operator import add, sub
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.text.annotation import LABELS, MASKED, NO_WORDS, SEPARATOR, SPANS, STORED, TEXTS, Annotation, Weighted

SHARED = 1 << 14  # lists of candidates that are kept decoded, over all shards
WEIGHED = 1 << 12  # and lists of relatives, which are longer
Words = TypeVar("Words")
NONE: tuple[str, ...] = ()
_DAMAGED = (LookupError, ValueError, TypeError, AttributeError, pa.ArrowException)


class AnnotationRows:
    """The annotations of a shard by number; `columns` are those of `AnnotationColumns`, `where` names their file.

    Raises UserError, here and for a row, where the columns are missing or damaged.
    """

    def __init__(self, columns: pa.RecordBatch | pa.StructArray, where: str = "annotations") -> None:
        self.where = where
        try:
            batch = pa.RecordBatch.from_struct_array(columns) if isinstance(columns, pa.StructArray) else columns
            batch.validate()  # that buffers are as long as they say, not what is in them
            names = batch.schema.names
            self.count = len(batch)
            self.texts = [StringColumn(batch[name]) for name in TEXTS]
            self.tokens = ListColumn(batch["tokens"], "advance", "length", "head", *LABELS)
            self.labels = [self.tokens.vocabulary(name) for name in LABELS]
            self.spans = [ListColumn(batch[name]) for name in SPANS]
            self.lemma = ListColumn(batch["lemma"], "token", "word")
            self.words = StringColumn(self.lemma.dictionaries["word"])
            self.candidates = TokenWordsColumn(batch["candidates"], _split_words, NONE)
            self.masked = TokenWordsColumn(batch[MASKED], _split_words, NONE) if MASKED in names else None
            has_relatives = "relatives" in names
            self.relatives = TokenWordsColumn(batch["relatives"], _split_weighted, NO_WORDS) if has_relatives else None
            self.noun_words = WordListColumn(batch["nouns"])
            self.stored = {n.removeprefix(STORED): WordListColumn(batch[n]) for n in names if n.startswith(STORED)}
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
        """Return the nouns of a caption's first sentence."""
        return self.noun_words[index]

    def _damaged(self, error: Exception) -> UserError:
        return UserError(f"{self.where}: damaged ({type(error).__name__}); run `dvc repro annotate` again")

    def _row(self, index: int) -> Annotation:
        text, written_swap, written_replace = [strings[index].decode() for strings in self.texts]
        advances, lengths, heads, *codes = [field.tolist() for field in self.tokens[index]]
        ends = tuple(accumulate(advances))
        starts, heads = tuple(map(sub, ends, lengths)), tuple(map(add, heads, range(len(heads))))
        pos, tag, dep = [tuple(map(words.__getitem__, row)) for words, row in zip(self.labels, codes, strict=True)]
        edges = [lists[index][0].tolist() for lists in self.spans]
        sentences, chunks, verbs = (tuple(zip(e[::2], e[1::2], strict=True)) for e in edges)
        return Annotation(
            text, starts, ends, pos, tag, self._lemma(index, text, starts, ends), dep, heads, sentences, chunks, verbs,
            self.candidates.row(index, len(ends)), written_swap, written_replace,
            self.masked.row(index, len(ends)) if self.masked else (),
            {kind: tuple(texts) for kind, lists in self.stored.items() if (texts := lists[index])},
            self.relatives.row(index, len(ends)) if self.relatives else (),
        )  # fmt: skip

    def _lemma(self, index: int, text: str, starts: tuple[int, ...], ends: tuple[int, ...]) -> tuple[str, ...]:
        if text.isascii():
            low = text.lower()
            words = [low[start:end] for start, end in zip(starts, ends, strict=True)]
        else:
            words = [text[start:end].lower() for start, end in zip(starts, ends, strict=True)]
        tokens, codes = self.lemma[index]
        for token, word in zip(tokens.tolist(), self.words.take(codes), strict=True):
            words[token] = word.decode()
        return tuple(words)


@functools.lru_cache(maxsize=SHARED)
def _split_words(joined: bytes) -> tuple[str, ...]:
    return tuple([sys.intern(word) for word in joined.decode().split(SEPARATOR)])


@functools.lru_cache(maxsize=WEIGHED)
def _split_weighted(joined: bytes) -> Weighted:
    """Split words and weights, which alternate."""
    fields = joined.decode().split(SEPARATOR)
    return tuple(map(sys.intern, fields[::2])), tuple(map(int, fields[1::2]))


class StringColumn:
    """Texts of a column or of a dictionary, as UTF-8."""

    def __init__(self, array: pa.StringArray) -> None:
        _, offsets, data = array.buffers()
        all_offsets = np.frombuffer(offsets, np.int32) if offsets else np.zeros(1, np.int32)
        self.offsets = all_offsets[array.offset : array.offset + len(array) + 1]
        self.lows, self.highs = self.offsets[:-1], self.offsets[1:]
        self.data = memoryview(data or b"")

    def __getitem__(self, index: int) -> bytes:
        low, high = self.offsets[index : index + 2].tolist()
        return self.data[low:high].tobytes()

    def take(self, codes: np.ndarray) -> list[bytes]:
        """Return the texts with some numbers."""
        lows, highs = self.lows[codes].tolist(), self.highs[codes].tolist()
        return [self.data[low:high].tobytes() for low, high in zip(lows, highs, strict=True)]


def to_numpy(column: pa.Array) -> np.ndarray:
    """Return a column of numbers without a copy (Arrow's own way imports pandas). Raises ArrowException for others."""
    return np.from_dlpack(column)


class ListColumn:
    """A column of lists of structs or of numbers; an index gives one array for each field."""

    def __init__(self, column: pa.ListArray, *names: str) -> None:
        values = column.values
        fields = [values.field(name) for name in names] or [values]
        names = names or ("",)
        self.offsets = to_numpy(column.offsets)
        self.fields = [to_numpy(f.indices if isinstance(f, pa.DictionaryArray) else f) for f in fields]
        self.dictionaries = {n: f.dictionary for n, f in zip(names, fields, strict=True) if hasattr(f, "dictionary")}

    def __getitem__(self, index: int) -> list[np.ndarray]:
        low, high = self.offsets[index : index + 2].tolist()
        return [field[low:high] for field in self.fields]

    def vocabulary(self, name: str) -> list[str]:
        """Return all words of a small dictionary."""
        words = StringColumn(self.dictionaries[name])
        return [sys.intern(words[code].decode()) for code in range(len(self.dictionaries[name]))]


class WordListColumn:
    """A column of lists of texts."""

    def __init__(self, column: pa.ListArray) -> None:
        self.lists = ListColumn(column)
        self.texts = StringColumn(self.lists.dictionaries[""])

    def __getitem__(self, index: int) -> list[str]:
        (codes,) = self.lists[index]
        return [text.decode() for text in self.texts.take(codes)]


class TokenWordsColumn(Generic[Words]):
    """A column of the words that may replace tokens: `split` makes them of their text, `empty` stands for no words."""

    def __init__(self, column: pa.ListArray, split: Callable[[bytes], Words], empty: Words) -> None:
        self.lists = ListColumn(column, "token", "words")
        self.words = StringColumn(self.lists.dictionaries["words"])
        self.split, self.empty = split, empty

    def row(self, index: int, count: int) -> tuple[Words, ...]:
        """Return the words of one row for each of `count` tokens."""
        tokens, codes = self.lists[index]
        words_of_tokens = [self.empty] * count
        for token, joined in zip(tokens.tolist(), self.words.take(codes), strict=True):
            words_of_tokens[token] = self.split(joined)
        return tuple(words_of_tokens)
