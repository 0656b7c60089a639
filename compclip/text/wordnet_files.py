"""WordNet 3.0's files: where they come from, and how they are read, one synset at a time (format: wndb(5WN)).

They come from NLTK's data, else NLTK's download, else Debian's packages; a copy made here lies in `nltk_data` of the
Python environment, where NLTK looks.

Not NLTK's reader, which gives the same: 3.4 s and 136 MB before the first word, and 36 times as long to rank sisters,
which for captions with new words is more than their parse. Not `wn`: its data come from a server alone.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compclip.base.errors import UserError
from compclip.text import lexicon

PACKAGES = ("wordnet-base", "wordnet-sense-index")
DEBIAN = Path("/usr/share/wordnet")
REQUIRED_FILES = (
    tuple(f"{kind}.{pos}" for kind in ("index", "data") for pos in ("adj", "adv", "noun", "verb"))
    + tuple(f"{pos}.exc" for pos in ("adj", "adv", "noun", "verb"))
    + ("cntlist.rev",)
)
# number, name and part of speech (1 noun, 2 verb, 3 adjective, 4 adverb) of WordNet's lexicographer files
LEXNAMES = lexicon.TABLES["wordnet_files"]["lexnames"].split()
_NUMBER = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
ADVICE = (
    "no WordNet: give NLTK its data with `python -m nltk.downloader wordnet`, or as root run `apt-get install "
    f"{' '.join(PACKAGES)}`, then `compclip stage wordnet --install`"
)
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


def find_folder() -> Path:
    """Return the folder with WordNet's files. Raises UserError naming the three ways to get it."""
    folder = find_installed()
    if folder is None:
        raise UserError(ADVICE)
    return folder


def find_installed() -> Path | None:
    """Return WordNet's folder where NLTK looks for data, or None."""
    import nltk

    for root in nltk.data.path:
        path = Path(root) / "corpora" / "wordnet"
        if _is_whole(path):
            return path
        if path.with_suffix(".zip").is_file():
            return _unzip(path.with_suffix(".zip"))
    return None


def is_installed() -> bool:
    """Return whether WordNet is there. NLTK, whose import takes seconds, is asked where this environment has none."""
    return _is_whole(target_folder()) or find_installed() is not None


def _is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (*REQUIRED_FILES, "lexnames"))


def install() -> tuple[Path, str]:
    """Make WordNet available; return its folder and its origin. Raises UserError where no way works."""
    for source, attempt in (
        ("NLTK data", find_installed),
        ("NLTK download", _download),
        ("Debian files", _copy_from_debian),
        ("Debian packages", _install_with_apt),
    ):
        path = attempt()
        if path is not None:
            return path, source
    raise UserError(ADVICE)


def target_folder() -> Path:
    """Return the folder for a copy in this Python environment."""
    return Path(sys.prefix) / "nltk_data" / "corpora" / "wordnet"


def _download(timeout_s: float = 20) -> Path | None:
    """Download through NLTK; None where its server cannot be reached."""
    import nltk

    timeout_before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout_s)
    try:
        with open(os.devnull, "w") as nowhere:
            succeeded = nltk.download("wordnet", str(target_folder().parent.parent), quiet=True, print_error_to=nowhere)
    except (OSError, ValueError):  # ValueError: the index is not what NLTK expects
        succeeded = False
    finally:
        socket.setdefaulttimeout(timeout_before)
    return find_installed() if succeeded else None


def _copy_from_debian(source: Path = DEBIAN) -> Path | None:
    """Copy Debian's dictionary files and generate `lexnames`; None where they are not installed."""
    if not all((source / name).is_file() for name in REQUIRED_FILES):
        return None
    return _copy_dictionary(source, target_folder())


def _install_with_apt() -> Path | None:
    """Install Debian's packages where this process may, and copy their files."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    print(
        f"WordNet: not here, and NLTK's server cannot be reached; installing {' '.join(PACKAGES)} with apt-get",
        flush=True,
    )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run(
            ["apt-get", *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    return _copy_from_debian()


def _copy_dictionary(source: Path, destination: Path) -> Path:
    """Copy a dictionary; `destination` is complete or absent."""
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=destination.parent) as temporary:
            copy = Path(temporary) / "wordnet"
            shutil.copytree(source, copy)
            if not (copy / "lexnames").is_file():
                (copy / "lexnames").write_text(lexnames())
            shutil.rmtree(destination, ignore_errors=True)
            copy.rename(destination)
    except OSError as error:
        raise UserError(f"{destination}: cannot write: {error.strerror or error}; make the folder writable") from error
    return destination


def lexnames() -> str:
    """Return the content of WordNet 3.0's `lexnames`, which Debian leaves out."""
    return "".join(f"{i:02d}\t{name}\t{_NUMBER[name.split('.')[0]]}\n" for i, name in enumerate(LEXNAMES))


def _unzip(archive: Path) -> Path:
    """Unpack NLTK's zipped download, which is several times faster to read."""
    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(archive) as file:
            file.extractall(temporary)
        return _copy_dictionary(Path(temporary) / "wordnet", target_folder())


# --- reading ---------------------------------------------------------------------------------------------------


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
        self.exceptions = functools.cache(self._read_exceptions)

    def synsets(self, word: str, pos: str) -> list[Synset]:
        """Return the synsets of a lemma (in lower case), frequent senses first."""
        fields = self._index_line(word, pos).split()  # lemma part count pointers … senses tagged places …
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

    def bases(self, form: str, pos: str) -> list[str]:
        """Return all lemmas that an inflected form may have: "glasses" has "glasses" and "glass"."""
        lemmas = self.exceptions(pos).get(form)
        if lemmas is None:
            endings = [ending.split(":") for ending in _ENDINGS[pos].split()]
            lemmas = [form.removesuffix(old) + new for old, new in endings if form.endswith(old)]
        return [lemma for lemma in dict.fromkeys((form, *lemmas)) if self._index_line(lemma, pos)]

    def _read_exceptions(self, pos: str) -> dict[str, list[str]]:
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
        index = self._file(f"index.{FILES[pos]}")
        key = word.encode() + b" "
        low = 0
        high = len(index)
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
    pointers = []
    for i in range(0, 4 * int(count), 4):
        symbol, offset, pos, ends = fields[i : i + 4]
        if symbol in _POINTERS:
            pointers.append(Pointer(symbol, int(offset), pos, int(ends[:2], 16), int(ends[2:], 16)))
    return tuple(pointers)
