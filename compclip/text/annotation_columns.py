"""Annotations as flat columns: what a shard holds of its captions.

    text              string
    tokens            a list of structs: advance, from the end of the token before to the end of this one, and length,
                      both in characters; head, relative to the token; pos, tag, dep
    sentences         a list of begin, end, begin, end …: characters; chunks, verbs: tokens
    lemma             a list of structs token, word: only where the lemma is not the lower-case word
    candidates        a list of structs token, words: only where there are any; words are joined by tabs
    masked            the same of a masked language model's words; only in a shard that has some
    relatives         where they were asked for: a list of structs token, words, as `candidates`; each word is followed
                      by its weight
    nouns             a list of words: those of the first sentence, by which composites find partners
    written_swap, written_replace
    stored_<kind>     a list of texts; only of the kinds that the data set has lists of

Words are codes of dictionaries, and numbers are as narrow as the shard allows. The second half reads them.
"""

from __future__ import annotations

import functools
import sys
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from operator import add, sub
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.text import sentences
from compclip.text.annotation import LABELS, MASKED, NO_WORDS, SEPARATOR, SPANS, STORED, TEXTS, Annotation, Weighted


class AnnotationColumns:
    """Collects the annotations of many captions as numbers and makes Arrow columns of them."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self.tokens = _ListBuilder("advance", "length", "head", *LABELS)
        self.labels = {name: _Vocabulary() for name in LABELS}
        self.spans = {name: _ListBuilder("edge") for name in SPANS}
        self.lemma = _ListBuilder("token", "word")
        self.words = _Vocabulary()
        self.candidates = _TokenWordsBuilder()
        self.masked = _TokenWordsBuilder()
        self.relatives = _TokenWordsBuilder()
        self.has_relatives = False
        self.nouns = _ListBuilder("word")
        self.noun_words = _Vocabulary()
        self.order: array | None = None

    def __len__(self) -> int:
        return len(self.tokens if self.order is None else self.order)

    def add(self, a: Annotation) -> None:
        """Append a caption."""
        advances = np.diff(a.ends, prepend=0).tolist()
        lengths = np.subtract(a.ends, a.starts)
        heads = np.subtract(a.heads, range(len(a)))
        codes = [labels.encode(getattr(a, name)) for name, labels in self.labels.items()]
        self.tokens.add(advances, lengths.tolist(), heads.tolist(), *codes)
        odd_lemmas = {token: word for token, word in enumerate(a.lemma) if word != default_lemma(a.word(token))}
        self.lemma.add(list(odd_lemmas), self.words.encode(odd_lemmas.values()))
        self.candidates.add(a.candidates)
        self.masked.add(a.masked)
        self.relatives.add(map(_list_words_and_weights, a.relatives))
        self.has_relatives = self.has_relatives or bool(a.relatives)
        self.nouns.add(self.noun_words.encode(sentences.first_nouns(a)))
        for name in TEXTS:
            self.texts[name].append(getattr(a, name))
        for name, lists in self.spans.items():
            lists.add(list(chain.from_iterable(getattr(a, name))))

    def repeat(self, order: Sequence[int]) -> None:
        """Set the order of the captions, by their numbers; a number may come several times."""
        self.order = array("i", order)

    def array(self) -> pa.StructArray:
        """Return all columns as one struct array, of which lists of a sample's captions can be made."""
        columns: dict[str, pa.Array] = {name: pa.array(texts, pa.string()) for name, texts in self.texts.items()}
        columns["tokens"] = self.tokens.array(**{name: codes.array() for name, codes in self.labels.items()})
        columns |= {name: lists.array() for name, lists in self.spans.items()}
        columns["lemma"] = self.lemma.array(word=self.words.array())
        columns["candidates"] = self.candidates.array()
        if self.masked.vocabulary:
            columns[MASKED] = self.masked.array()
        if self.has_relatives:
            columns["relatives"] = self.relatives.array()
        columns["nouns"] = self.nouns.array(word=self.noun_words.array())
        if self.order is not None and self.order != array("i", range(len(self.tokens))):
            order = pa.array(np.asarray(self.order))
            columns = {name: column.take(order) for name, column in columns.items()}
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def default_lemma(word: str) -> str | None:
    """Return the lemma that is not stored: the word in lower case. None if not ASCII, where Unicode versions differ."""
    return word.lower() if word.isascii() else None


def _list_words_and_weights(table: Weighted) -> tuple[str, ...]:
    """Return words and weights, which alternate."""
    fields: list[str] = []
    for word, weight in zip(*table, strict=True):
        fields += (word, str(weight))
    return tuple(fields)


class _Vocabulary(dict[Any, int]):
    """Codes of values, in the order of their first occurrence."""

    def encode(self, values: Iterable[Hashable]) -> list[int]:
        return [self.setdefault(value, len(self)) for value in values]

    def array(self) -> pa.Array:
        return pa.array(self, pa.string())


class _ListBuilder:
    """Builds a column of lists of structs, as flat numbers."""

    def __init__(self, *names: str) -> None:
        self.fields = {name: array("i") for name in names}
        self.ends = array("i", [0])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, *fields: Sequence[int]) -> None:
        """Append one list, given field by field."""
        for numbers, values in zip(self.fields.values(), fields, strict=True):
            numbers.extend(values)
        self.ends.append(self.ends[-1] + len(fields[0]))

    def array(self, **dictionaries: pa.Array) -> pa.ListArray:
        """Return the column; fields named in `dictionaries` hold codes of its words. A single field is no struct."""
        columns = []
        for name, numbers in self.fields.items():
            column = pa.array(narrow(numbers))
            if name in dictionaries:
                column = pa.DictionaryArray.from_arrays(column, dictionaries[name])
            columns.append(column)
        values = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=list(self.fields))
        return pa.ListArray.from_arrays(pa.array(np.asarray(self.ends)), values)


class _TokenWordsBuilder:
    """Builds a column of the words that may replace tokens; tokens without words are left out."""

    def __init__(self) -> None:
        self.lists = _ListBuilder("token", "words")
        self.vocabulary = _Vocabulary()

    def add(self, words_of_tokens: Iterable[tuple[str, ...]]) -> None:
        """Append one list, given token by token."""
        words = {token: words for token, words in enumerate(words_of_tokens) if words}
        self.lists.add(list(words), self.vocabulary.encode(words.values()))

    def array(self) -> pa.ListArray:
        """Return the column; the words of a token are joined by SEPARATOR."""
        return self.lists.array(words=pa.array(map(SEPARATOR.join, self.vocabulary), pa.string()))


def add_stored_texts(captions: pa.StructArray, texts: Mapping[str, Iterable[Sequence[str]]]) -> pa.StructArray:
    """Add the texts that are stored beside each caption, by kind, to the columns of captions."""
    columns = {field.name: captions.field(index) for index, field in enumerate(captions.type)}
    for kind, lists in texts.items():
        rows = _ListBuilder("text")
        vocabulary = _Vocabulary()
        for texts_of_row in lists:
            rows.add(vocabulary.encode(texts_of_row))
        columns[f"{STORED}{kind}"] = rows.array(text=vocabulary.array())
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns)) if texts else captions


def narrow(numbers: Sequence[int]) -> np.ndarray:
    """Return the numbers in the narrowest type that holds them all."""
    wide = np.asarray(numbers, np.int32)
    low, high = (int(wide.min()), int(wide.max())) if len(wide) else (0, 0)
    return wide.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(min(low, -high - 1)))


# --- reading: a row becomes an Annotation when it is indexed --------------------------------------------------------
# Read annotations from a shard's columns: a row becomes an `Annotation` when it is indexed.
#
# Only what the row holds is read of a mapped file, also when the file is opened.


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
        starts = tuple(map(sub, ends, lengths))
        heads = tuple(map(add, heads, range(len(heads))))
        pos, tag, dep = [tuple(map(words.__getitem__, row)) for words, row in zip(self.labels, codes, strict=True)]
        edges = [lists[index][0].tolist() for lists in self.spans]
        sentences, chunks, verbs = (tuple(zip(e[::2], e[1::2], strict=True)) for e in edges)
        return Annotation(
            text=text,
            starts=starts,
            ends=ends,
            pos=pos,
            tag=tag,
            lemma=self._lemma(index, text, starts, ends),
            dep=dep,
            heads=heads,
            sentences=sentences,
            chunks=chunks,
            verbs=verbs,
            candidates=self.candidates.row(index, len(ends)),
            written_swap=written_swap,
            written_replace=written_replace,
            masked=self.masked.row(index, len(ends)) if self.masked else (),
            stored={kind: tuple(texts) for kind, lists in self.stored.items() if (texts := lists[index])},
            relatives=self.relatives.row(index, len(ends)) if self.relatives else (),
        )

    def _lemma(self, index: int, text: str, starts: tuple[int, ...], ends: tuple[int, ...]) -> tuple[str, ...]:
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
        self.lows = self.offsets[:-1]
        self.highs = self.offsets[1:]
        self.data = memoryview(data or b"")

    def __getitem__(self, index: int) -> bytes:
        low, high = self.offsets[index : index + 2].tolist()
        return self.data[low:high].tobytes()

    def take(self, codes: np.ndarray) -> list[bytes]:
        """Return the texts with some numbers."""
        lows = self.lows[codes].tolist()
        highs = self.highs[codes].tolist()
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
        self.split = split
        self.empty = empty

    def row(self, index: int, count: int) -> tuple[Words, ...]:
        """Return the words of one row for each of `count` tokens."""
        tokens, codes = self.lists[index]
        words_of_tokens = [self.empty] * count
        for token, joined in zip(tokens.tolist(), self.words.take(codes), strict=True):
            words_of_tokens[token] = self.split(joined)
        return tuple(words_of_tokens)
