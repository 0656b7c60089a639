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

Words are codes of dictionaries, and numbers are as narrow as the shard allows. `rows.Rows` makes annotations of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from compclip.text import kept
from compclip.text.annotation import SEPARATOR, SPANS, TEXTS, Annotation

LABELS = ("pos", "tag", "dep")
MASKED, STORED = "masked", "stored_"
WIDTHS = (np.uint8, np.uint16, np.uint32)


class Columns:
    """The annotations of many captions, added one by one and kept as numbers."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self.tokens = _Lists("advance", "length", "head", *LABELS)
        self.labels = {name: _Codes() for name in LABELS}
        self.spans = {name: _Lists("edge") for name in SPANS}
        self.relatives, self.related = _Lists("token", "words"), _Codes()
        self.weighed = False
        self.lemma, self.candidates, self.nouns = _Lists("token", "word"), _Lists("token", "words"), _Lists("word")
        self.masked = _Lists("token", "words")
        self.words, self.replacements, self.said, self.predicted = _Codes(), _Codes(), _Codes(), _Codes()
        self.order: array | None = None

    def __len__(self) -> int:
        return len(self.tokens if self.order is None else self.order)

    def add(self, annotation: Annotation) -> None:
        """Append a caption. Raises ValueError where the parts of its annotation do not fit together."""
        self._tokens(annotation)
        self._words(annotation)
        for name in TEXTS:
            self.texts[name].append(getattr(annotation, name))
        for name, lists in self.spans.items():
            lists.add([edge for span in getattr(annotation, name) for edge in span])

    def repeat(self, order: Sequence[int]) -> None:
        """Let the columns have these of the added captions, by their numbers: each as often as it is named."""
        self.order = array("i", order)

    def arrays(self) -> dict[str, pa.Array]:
        """The columns by name, one entry a caption."""
        made: dict[str, pa.Array] = {name: pa.array(texts, pa.string()) for name, texts in self.texts.items()}
        made["tokens"] = self.tokens.array(**{name: codes.array() for name, codes in self.labels.items()})
        made |= {name: lists.array() for name, lists in self.spans.items()}
        made["lemma"] = self.lemma.array(word=self.words.array())
        made["candidates"] = self.candidates.array(words=self.replacements.joined())
        if self.predicted:
            made[MASKED] = self.masked.array(words=self.predicted.joined())
        if self.weighed:
            made["relatives"] = self.relatives.array(words=pa.array(map(_weighed, self.related), pa.string()))
        made["nouns"] = self.nouns.array(word=self.said.array())
        if self.order is None or self.order == array("i", range(len(self.tokens))):
            return made
        order = pa.array(np.asarray(self.order))
        return {name: column.take(order) for name, column in made.items()}

    def array(self) -> pa.StructArray:
        """All columns as one, one entry a caption: the list of a sample's captions can be made of it."""
        named = self.arrays()
        return pa.StructArray.from_arrays(list(named.values()), names=list(named))

    def _tokens(self, a: Annotation) -> None:
        advances = [end - last for last, end in zip((0, *a.ends), a.ends, strict=False)]
        lengths = [end - start for start, end in zip(a.starts, a.ends, strict=True)]
        heads = [head - place for place, head in enumerate(a.heads)]
        self.tokens.add(advances, lengths, heads, *(self.labels[name].all(getattr(a, name)) for name in LABELS))

    def _words(self, a: Annotation) -> None:
        odd = [token for token, word in enumerate(a.lemma) if word != usual(a.word(token))]
        self.lemma.add(odd, self.words.all(a.lemma[token] for token in odd))
        for lists, codes, own in (
            (self.candidates, self.replacements, a.candidates),
            (self.masked, self.predicted, a.masked),
        ):
            replaced = [token for token, words in enumerate(own) if words]
            lists.add(replaced, codes.all(own[token] for token in replaced))
        weighed = [token for token, (words, _) in enumerate(a.relatives) if words]
        self.relatives.add(weighed, self.related.all(a.relatives[token] for token in weighed))
        self.weighed = self.weighed or bool(a.relatives)
        self.nouns.add(self.said.all(kept.first_nouns(a)))


def usual(word: str) -> str | None:
    """The lemma that need not be kept: the word in lower case, where all versions of Unicode agree on that."""
    return word.lower() if word.isascii() else None


class _Codes(dict[Hashable, int]):
    """Numbers of values, in the order in which they were met."""

    def all(self, values: Iterable[Hashable]) -> list[int]:
        return [self.setdefault(value, len(self)) for value in values]

    def array(self) -> pa.Array:
        return pa.array(self, pa.string())

    def joined(self) -> pa.Array:
        """Of values that are words, the words joined."""
        return pa.array(map(_joined, self), pa.string())


class _Lists:
    """Lists of rows with the same fields, as flat numbers."""

    def __init__(self, *names: str) -> None:
        self.fields = {name: array("i") for name in names}
        self.ends = array("i", [0])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, *fields: Sequence[int]) -> None:
        """Append one list, given by field."""
        if len(set(map(len, fields))) > 1:
            raise ValueError("fields of one list that differ in length")
        for numbers, values in zip(self.fields.values(), fields, strict=True):
            numbers.extend(values)
        self.ends.append(self.ends[-1] + len(fields[0]))

    def array(self, **dictionaries: pa.Array) -> pa.ListArray:
        """One entry a list; the fields of `dictionaries` are codes of its words. A single field stands without name."""
        made = [_coded(narrow(numbers), dictionaries.get(name)) for name, numbers in self.fields.items()]
        values = made[0] if len(made) == 1 else pa.StructArray.from_arrays(made, names=list(self.fields))
        return pa.ListArray.from_arrays(pa.array(np.asarray(self.ends)), values)


def stored(captions: pa.StructArray, texts: Mapping[str, Iterable[Sequence[str]]]) -> pa.StructArray:
    """The columns of captions with the texts that stand beside each of them, by kind; a different text stands once."""
    named = {field.name: captions.field(place) for place, field in enumerate(captions.type)}
    for kind, lists in texts.items():
        rows, said = _Lists("text"), _Codes()
        for own in lists:
            rows.add(said.all(own))
        named[f"{STORED}{kind}"] = rows.array(text=said.array())
    return pa.StructArray.from_arrays(list(named.values()), names=list(named)) if texts else captions


def narrow(numbers: Sequence[int]) -> np.ndarray:
    """The numbers in the narrowest type that holds them all."""
    wide = np.asarray(numbers, np.int32)
    low, high = (int(wide.min()), int(wide.max())) if len(wide) else (0, 0)
    return wide.astype(np.min_scalar_type(high) if low >= 0 else np.min_scalar_type(min(low, -high - 1)))


def _coded(numbers: np.ndarray, dictionary: pa.Array | None) -> pa.Array:
    return pa.array(numbers) if dictionary is None else pa.DictionaryArray.from_arrays(numbers, dictionary)


def _joined(words: Any) -> str:
    if not all(words) or any(SEPARATOR in word for word in words):
        raise ValueError(f"{words!a}: candidates that cannot be joined")
    return SEPARATOR.join(words)


def _weighed(table: Any) -> str:
    return _joined([text for word, weight in zip(*table, strict=True) for text in (word, str(weight))])
