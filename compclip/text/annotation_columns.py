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

Words are codes of dictionaries, and numbers are as narrow as the shard allows. `annotation_rows` reads them.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.text import sentences
from compclip.text.annotation import LABELS, MASKED, SEPARATOR, SPANS, STORED, TEXTS, Annotation


class AnnotationColumns:
    """Collects the annotations of many captions as numbers and makes Arrow columns of them."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self.tokens = _ListBuilder("advance", "length", "head", *LABELS)
        self.labels = {name: _Vocabulary() for name in LABELS}
        self.spans = {name: _ListBuilder("edge") for name in SPANS}
        self.lemma, self.words = _ListBuilder("token", "word"), _Vocabulary()
        self.candidates, self.replacements = _ListBuilder("token", "words"), _Vocabulary()
        self.masked, self.predicted = _ListBuilder("token", "words"), _Vocabulary()
        self.relatives, self.weighted_words = _ListBuilder("token", "words"), _Vocabulary()
        self.has_relatives = False
        self.nouns, self.noun_words = _ListBuilder("word"), _Vocabulary()
        self.order: array | None = None

    def __len__(self) -> int:
        return len(self.tokens if self.order is None else self.order)

    def add(self, a: Annotation) -> None:
        """Append a caption."""
        advances = [end - last for last, end in zip((0, *a.ends), a.ends, strict=False)]
        lengths = [end - start for start, end in zip(a.starts, a.ends, strict=True)]
        heads = [head - token for token, head in enumerate(a.heads)]
        self.tokens.add(advances, lengths, heads, *(self.labels[name].encode(getattr(a, name)) for name in LABELS))
        odd = [token for token, word in enumerate(a.lemma) if word != default_lemma(a.word(token))]
        self.lemma.add(odd, self.words.encode(a.lemma[token] for token in odd))
        relatives = [[text for pair in zip(*table, strict=True) for text in map(str, pair)] for table in a.relatives]
        self.has_relatives = self.has_relatives or bool(relatives)
        for lists, vocabulary, words_of_tokens in (
            (self.candidates, self.replacements, a.candidates),
            (self.masked, self.predicted, a.masked),
            (self.relatives, self.weighted_words, list(map(tuple, relatives))),
        ):
            replaced = [token for token, words in enumerate(words_of_tokens) if words]
            lists.add(replaced, vocabulary.encode(words_of_tokens[token] for token in replaced))
        self.nouns.add(self.noun_words.encode(sentences.first_nouns(a)))
        for name in TEXTS:
            self.texts[name].append(getattr(a, name))
        for name, lists in self.spans.items():
            lists.add([edge for span in getattr(a, name) for edge in span])

    def repeat(self, order: Sequence[int]) -> None:
        """Set the order of the captions, by their numbers; a number may come several times."""
        self.order = array("i", order)

    def arrays(self) -> dict[str, pa.Array]:
        """Return the columns by name, with one entry for each caption."""
        columns: dict[str, pa.Array] = {name: pa.array(texts, pa.string()) for name, texts in self.texts.items()}
        columns["tokens"] = self.tokens.array(**{name: codes.array() for name, codes in self.labels.items()})
        columns |= {name: lists.array() for name, lists in self.spans.items()}
        columns["lemma"] = self.lemma.array(word=self.words.array())
        columns["candidates"] = self.candidates.array(words=self.replacements.joined_array())
        if self.predicted:
            columns[MASKED] = self.masked.array(words=self.predicted.joined_array())
        if self.has_relatives:
            columns["relatives"] = self.relatives.array(words=self.weighted_words.joined_array())
        columns["nouns"] = self.nouns.array(word=self.noun_words.array())
        if self.order is None or self.order == array("i", range(len(self.tokens))):
            return columns
        order = pa.array(np.asarray(self.order))
        return {name: column.take(order) for name, column in columns.items()}

    def array(self) -> pa.StructArray:
        """Return all columns as one struct array, of which lists of a sample's captions can be made."""
        columns = self.arrays()
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def default_lemma(word: str) -> str | None:
    """Return the lemma that is not stored: the word in lower case. None if not ASCII, where Unicode versions differ."""
    return word.lower() if word.isascii() else None


class _Vocabulary(dict[Any, int]):
    """Codes of values, in the order of their first occurrence."""

    def encode(self, values: Iterable[Hashable]) -> list[int]:
        return [self.setdefault(value, len(self)) for value in values]

    def array(self) -> pa.Array:
        return pa.array(self, pa.string())

    def joined_array(self) -> pa.Array:
        """Return the values, which are tuples of words, joined by SEPARATOR."""
        return pa.array(map(SEPARATOR.join, self), pa.string())


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
        columns = [
            pa.DictionaryArray.from_arrays(narrow(codes), dictionaries[name])
            if name in dictionaries
            else pa.array(narrow(codes))
            for name, codes in self.fields.items()
        ]
        values = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=list(self.fields))
        return pa.ListArray.from_arrays(pa.array(np.asarray(self.ends)), values)


def add_stored_texts(captions: pa.StructArray, texts: Mapping[str, Iterable[Sequence[str]]]) -> pa.StructArray:
    """Add the texts that are stored beside each caption, by kind, to the columns of captions."""
    columns = {field.name: captions.field(index) for index, field in enumerate(captions.type)}
    for kind, lists in texts.items():
        rows, vocabulary = _ListBuilder("text"), _Vocabulary()
        for texts_of_row in lists:
            rows.add(vocabulary.encode(texts_of_row))
        columns[f"{STORED}{kind}"] = rows.array(text=vocabulary.array())
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns)) if texts else captions


def narrow(numbers: Sequence[int]) -> np.ndarray:
    """Return the numbers in the narrowest type that holds them all."""
    wide = np.asarray(numbers, np.int32)
    low, high = (int(wide.min()), int(wide.max())) if len(wide) else (0, 0)
    return wide.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(min(low, -high - 1)))
