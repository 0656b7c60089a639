"""WordNet's dictionary files as they lie (their format: wndb(5WN)): synsets of a word, read when they are asked for.

NLTK's reader finds the same; it takes seconds and 190 MB before the first word, and ten times as long for a synset: on
captions with new words more than their parse.
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
KEPT = 1 << 16  # synsets in memory
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
    """To a synset; between two words of them (counted from 1) or, where these are 0, between all."""

    symbol: str
    place: int
    part: str
    source: int
    target: int


class Synset(NamedTuple):
    """Words of one meaning. `part`: n, v, a, r, or s for an adjective similar to another; `place`: in its file.

    `field`: the number of its lexicographer file; `numbers`: of its words among those with their names there. `links`:
    its pointers as its line has them, since most synsets are read for their words alone.
    """

    part: str
    place: int
    field: int
    words: tuple[str, ...]
    numbers: tuple[int, ...]
    links: str
    definition: str

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """To other synsets. Raises LookupError or ValueError where they are damaged."""
        return _pointers(self.links)


class Dictionary:
    """The files of a folder. A damaged one raises LookupError or ValueError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = functools.cache(self._mapped)
        self._synset = functools.lru_cache(KEPT)(self._read)
        self.exceptions = functools.cache(self._exceptions)

    def synsets(self, word: str, part: str) -> list[Synset]:
        """Those of a lemma (in lower case), frequent senses first."""
        line = self._index_line(word, part)
        fields = line.split()  # lemma part count pointers … senses tagged places …
        return [self._synset(part, int(place)) for place in fields[-int(fields[2]) :]] if fields else []

    def related(self, synset: Synset, symbol: str) -> list[Synset]:
        """What a whole synset points to."""
        return [self._synset(p.part, p.place) for p in synset.pointers if p.symbol == symbol and not p.source]

    def antonyms(self, synset: Synset, word: str) -> Iterator[tuple[Synset, str]]:
        """Of a word of the synset, each with its own."""
        for p in synset.pointers:
            if p.symbol == ANTONYM and p.source and synset.words[p.source - 1] == word:
                other = self._synset(p.part, p.place)
                yield other, other.words[p.target - 1]

    def derived(self, synset: Synset) -> Iterator[tuple[Synset, str]]:
        """The words that are made of the synset's words, or of which these are made, each with its synset."""
        for p in synset.pointers:
            if p.symbol == DERIVED:
                other = self._synset(p.part, p.place)
                yield other, other.words[p.target - 1]

    def key(self, synset: Synset, number: int) -> str:
        """The sense key of a synset's word, as other files have it."""
        head = ":"
        if synset.part == "s":
            first = self.related(synset, SIMILAR)[0]
            head = f"{first.words[0]}:{first.numbers[0]:02d}"
        kind = "nvars".index(synset.part) + 1
        return f"{synset.words[number]}%{kind}:{synset.field:02d}:{synset.numbers[number]:02d}:{head}".lower()

    def base(self, form: str, part: str) -> str | None:
        """The lemma of an inflected form, or None where it has none here."""
        return next(iter(self.bases(form, part)), None)

    def bases(self, form: str, part: str) -> list[str]:
        """All lemmas that a form may be of: "glasses" is its own, and that of "glass"."""
        listed = self.exceptions(part).get(form)
        endings = [ending.split(":") for ending in _ENDINGS[part].split()]
        found = [form[: -len(old)] + new for old, new in endings if form.endswith(old)] if listed is None else listed
        return [lemma for lemma in dict.fromkeys((form, *found)) if self._index_line(lemma, part)]

    def _exceptions(self, part: str) -> dict[str, list[str]]:
        """Irregular forms and their lemmas."""
        lines = (self.folder / f"{FILES[part]}.exc").read_text(encoding="utf-8").splitlines()
        return {form: lemmas for form, *lemmas in map(str.split, lines)}

    def _mapped(self, name: str) -> mmap.mmap:
        with open(self.folder / name, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _index_line(self, word: str, part: str) -> str:
        """The line of a word, "" where there is none: the lines are in the order of their bytes."""
        if not word or " " in word:  # the fields of a line, and its licence
            return ""
        index, key = self._file(f"index.{FILES[part]}"), word.encode() + b" "
        low, high = 0, len(index)
        while low < high:
            start = index.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = index.find(b"\n", start) + 1 or len(index)
            if index[start : start + len(key)] == key:
                return index[start:end].decode()
            low, high = (end, high) if index[start:end] < key else (low, start)
        return ""

    def _read(self, part: str, place: int) -> Synset:
        data = self._file(f"data.{FILES[part]}")
        line, gloss = data[place : data.find(b"\n", place)].decode().split("|")
        _, field, kind, count, rest = line.split(maxsplit=4)
        *said, links = rest.split(maxsplit=2 * int(count, 16))
        words = tuple([_MARK.sub("", word) if word[-1] == ")" else word for word in said[::2]])
        numbers = tuple([int(number, 16) for number in said[1::2]])
        definition = _QUOTED.sub("", gloss).strip().strip("; ")
        return Synset(kind, place, int(field), words, numbers, links, definition)


@functools.lru_cache(KEPT)
def _pointers(links: str) -> tuple[Pointer, ...]:
    """Of a count and so many times four fields; what verbs have behind them is left out."""
    count, *fields = links.split()
    fours = zip(*(fields[i : 4 * int(count) : 4] for i in range(4)), strict=True)
    return tuple([
        Pointer(symbol, int(place), part, int(ends[:2], 16), int(ends[2:], 16))
        for symbol, place, part, ends in fours
        if symbol in _POINTERS
    ])  # fmt: skip
