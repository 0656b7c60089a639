"""Read WordNet's dictionary files (format: wndb(5WN)), one synset at a time.

NLTK's reader gives the same; it takes seconds and 190 MB before the first word, and ten times as long for a synset,
which on captions with new words is more than their parse.
"""

from __future__ import annotations

import functools
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILES = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
ANTONYM, HYPERNYM, HYPONYM, SIMILAR, ALSO, DERIVED = "!@~&^+"
CACHE_SIZE = 1 << 16  # synsets in memory
_POINTERS = frozenset((ANTONYM, HYPERNYM, HYPONYM, SIMILAR, ALSO, DERIVED))
_MARK = re.compile(r"\([^()]*\)$")  # of an adjective that stands only before or after its noun
_QUOTED = re.compile(r'"[^"\n]*"')  # an example of use
# What inflected forms end with, and their lemmas: morphy(7WN).
_ENDINGS = {
    "n": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "a": "er: est: er:e est:e",
    "r": "",
}


class Pointer(NamedTuple):
    """A link to a synset; `source` and `target` are words, counted from 1, or 0 for the whole synsets."""

    symbol: str
    offset: int
    pos: str
    source: int
    target: int


class Synset(NamedTuple):
    """Words of one meaning. `pos`: n, v, a, r, or s for an adjective similar to another; `offset`: in its file.

    `field`: the number of its lexicographer file; `numbers`: its words' lexical ids there. `links`: its pointers
    unparsed, since most synsets are read for their words only.
    """

    pos: str
    offset: int
    field: int
    words: tuple[str, ...]
    numbers: tuple[int, ...]
    links: str
    definition: str

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """The pointers to other synsets. Raises LookupError or ValueError where they are damaged."""
        return _parse_pointers(self.links)


class Dictionary:
    """The files of a folder. A damaged one raises LookupError or ValueError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = functools.cache(self._map_file)
        self._synset = functools.lru_cache(CACHE_SIZE)(self._read_synset)
        self.exceptions = functools.cache(self._exceptions)

    def synsets(self, word: str, pos: str) -> list[Synset]:
        """Return the synsets of a lemma (in lower case), frequent senses first."""
        line = self._index_line(word, pos)
        fields = line.split()  # lemma part count pointers … senses tagged places …
        return [self._synset(pos, int(offset)) for offset in fields[-int(fields[2]) :]] if fields else []

    def related(self, synset: Synset, symbol: str) -> list[Synset]:
        """Return the synsets that a whole synset points to by `symbol`."""
        return [self._synset(p.pos, p.offset) for p in synset.pointers if p.symbol == symbol and not p.source]

    def antonyms(self, synset: Synset, word: str) -> Iterator[tuple[Synset, str]]:
        """Yield the antonyms of a word of the synset, each with its synset."""
        for p in synset.pointers:
            if p.symbol == ANTONYM and p.source and synset.words[p.source - 1] == word:
                target = self._synset(p.pos, p.offset)
                yield target, target.words[p.target - 1]

    def derived(self, synset: Synset) -> Iterator[tuple[Synset, str]]:
        """Yield the words derived from the synset's words, or the reverse, each with its synset."""
        for p in synset.pointers:
            if p.symbol == DERIVED:
                target = self._synset(p.pos, p.offset)
                yield target, target.words[p.target - 1]

    def key(self, synset: Synset, number: int) -> str:
        """Return the sense key of a synset's word, as other files have it."""
        head = ":"
        if synset.pos == "s":
            first = self.related(synset, SIMILAR)[0]
            head = f"{first.words[0]}:{first.numbers[0]:02d}"
        kind = "nvars".index(synset.pos) + 1
        return f"{synset.words[number]}%{kind}:{synset.field:02d}:{synset.numbers[number]:02d}:{head}".lower()

    def base(self, form: str, pos: str) -> str | None:
        """Return the lemma of an inflected form, or None."""
        return next(iter(self.bases(form, pos)), None)

    def bases(self, form: str, pos: str) -> list[str]:
        """Return all lemmas that a form may have: "glasses" has "glasses" and "glass"."""
        irregular = self.exceptions(pos).get(form)
        endings = [ending.split(":") for ending in _ENDINGS[pos].split()]
        lemmas = (
            [form[: -len(old)] + new for old, new in endings if form.endswith(old)] if irregular is None else irregular
        )
        return [lemma for lemma in dict.fromkeys((form, *lemmas)) if self._index_line(lemma, pos)]

    def _exceptions(self, pos: str) -> dict[str, list[str]]:
        """Return the irregular forms and their lemmas."""
        lines = (self.folder / f"{FILES[pos]}.exc").read_text(encoding="utf-8").splitlines()
        return {form: lemmas for form, *lemmas in map(str.split, lines)}

    def _map_file(self, name: str) -> mmap.mmap:
        with open(self.folder / name, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _index_line(self, word: str, pos: str) -> str:
        """Return the line of a word, "" where there is none, by bisection: lines are sorted by their bytes."""
        if not word or " " in word:  # the fields of a line, and its licence
            return ""
        index, key = self._file(f"index.{FILES[pos]}"), word.encode() + b" "
        low, high = 0, len(index)
        while low < high:
            start = index.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = index.find(b"\n", start) + 1 or len(index)
            if index[start : start + len(key)] == key:
                return index[start:end].decode()
            low, high = (end, high) if index[start:end] < key else (low, start)
        return ""

    def _read_synset(self, pos: str, offset: int) -> Synset:
        data = self._file(f"data.{FILES[pos]}")
        line, gloss = data[offset : data.find(b"\n", offset)].decode().split("|")
        _, field, kind, count, tail = line.split(maxsplit=4)
        *words_and_numbers, links = tail.split(maxsplit=2 * int(count, 16))
        words = tuple([_MARK.sub("", word) if word[-1] == ")" else word for word in words_and_numbers[::2]])
        numbers = tuple([int(number, 16) for number in words_and_numbers[1::2]])
        definition = _QUOTED.sub("", gloss).strip().strip("; ")
        return Synset(kind, offset, int(field), words, numbers, links, definition)


@functools.lru_cache(CACHE_SIZE)
def _parse_pointers(links: str) -> tuple[Pointer, ...]:
    """Parse a count and so many times four fields; the frames of verbs behind them are left out."""
    count, *fields = links.split()
    fours = zip(*(fields[i : 4 * int(count) : 4] for i in range(4)), strict=True)
    return tuple([
        Pointer(symbol, int(offset), pos, int(ends[:2], 16), int(ends[2:], 16))
        for symbol, offset, pos, ends in fours
        if symbol in _POINTERS
    ])  # fmt: skip
