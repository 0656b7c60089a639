"""Words that may replace a word and make its caption wrong: WordNet's antonyms and co-hyponyms (FSC-CLIP A.1).

    python -m compclip.text.wordnet --install      # find, fetch or copy WordNet

A co-hyponym is a sister under a direct hypernym. Adjectives have none in WordNet: theirs are indirect antonyms and,
for colours, the sisters of the colour's noun; for numbers, other number words. A candidate has the part of speech and
the inflection of the word, and is never a synonym, a direct hypernym or a direct hyponym of it in any sense.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import warnings

from compclip.base.errors import entry
from compclip.text import wordnet_data
from compclip.text.inflect import VOWELS, inflect
from compclip.text.words import words

LIMIT = 16  # candidates of a token
SENSES = 3  # of the most frequent senses: candidates are sought among the sisters of those that are usual
PARTS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_DIGIT = {"n": "1", "v": "2", "a": "3", "s": "5", "r": "4"}
REPLACED = (*PARTS, "PROPN", "NUM")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_OFFENSIVE = ("offensive", "obscene", "disparag", "derogat", "slur", "vulgar", "prostitut")
_UNFIT = words("bitch bastard whore slut tart harlot fag queer savage cripple moron idiot retard nazi")
_SKIPPED_VERBS = words("be have do get")


def candidates(
    word: str, lemma: str, pos: str, tag: str, said: frozenset[str] = frozenset(), article: str = ""
) -> tuple[str, ...]:
    """At most 16 replacements of a token, in a fixed order: antonyms first, then sisters, frequent words first.

    `said`: lower-case words of the caption, which are left out. `article`: "a" or "an" where one stands before the
    word; only words that go with it are given. They are written as the word is: capitals, or a first capital.
    Raises UserError where no WordNet is installed.
    """
    if pos == "PROPN" and word.islower():  # the tagger's usual slip
        pos, tag = "NOUN", {"NNP": "NN", "NNPS": "NNS"}.get(tag, tag)
    forms = _forms(word.lower(), lemma.lower(), pos, tag)
    best = forms[:LIMIT]
    if article or not said.isdisjoint(best):
        fitting = (f for f in forms if f not in said and (not article or (f[0] in VOWELS) == (article == "an")))
        best = tuple(itertools.islice(fitting, LIMIT))
    return tuple([_as_written(form, word) for form in best]) if not word.islower() else best


def _as_written(form: str, word: str) -> str:
    if word.isupper() and len(word) > 1:
        return form.upper()
    return form.capitalize() if word[0].isupper() else form


@functools.lru_cache(maxsize=1 << 15)
def _forms(word: str, lemma: str, pos: str, tag: str) -> tuple[str, ...]:
    """Inflected replacements of a word, best first, at most 4 x 16 of them."""
    if pos == "NUM":
        return tuple(n for n in NUMBERS if n != word) if word in NUMBERS else ()
    if pos not in PARTS or not word.isalpha() or lemma in _SKIPPED_VERBS:
        return ()
    part, lemma = PARTS[pos], "person" if word == "people" else lemma
    lemma = lemma if _synsets(lemma, part) else _reader().morphy(word, part) or lemma
    forms = [inflect(c, tag, _irregular(part)) for c in _lemmas(lemma, part)]
    unique = dict.fromkeys(f for f in forms if f and f != word)
    return tuple(unique)[: 4 * LIMIT]


@functools.lru_cache(maxsize=1 << 16)
def _lemmas(lemma: str, part: str) -> tuple[str, ...]:
    """Replacements of a lemma, best first: antonyms in any sense, relatives in its usual senses."""
    synsets = _synsets(lemma, part)
    excluded = _near(synsets, part) | {lemma}
    found = [a.name() for a in _direct(synsets, lemma)] + _relatives(_usual(synsets, lemma), lemma, part)
    return tuple(dict.fromkeys(c for c in found if c not in excluded and _fit(c, part)))


def _usual(synsets: list, lemma: str) -> list:
    """The first sense, and the next ones as far as they were met a third as often."""
    met = [sum(_counts()[0].get(m.key(), 0) for m in s.lemmas() if m.name() == lemma) for s in synsets[:SENSES]]
    return [s for s, count in zip(synsets, met, strict=False) if s is synsets[0] or 3 * count >= met[0] > 0]


def _direct(synsets: list, lemma: str) -> list:
    """Antonyms of the word itself, as WordNet's lemmas."""
    return [a for s in synsets for m in s.lemmas() if m.name() == lemma for a in m.antonyms()]


def _relatives(synsets: list, lemma: str, part: str) -> list[str]:
    """Sisters, sense after sense; for an adjective those of its colour or else its indirect antonyms."""
    if part in "nv":
        return [name for s in synsets for name in _ranked(_sisters(s))]
    if part == "r":
        return []
    return [c for c in _colours(lemma) if _synsets(c, "a")] or _indirect(synsets, lemma)


def _indirect(synsets: list, lemma: str) -> list[str]:
    """Antonyms of what an adjective is similar to, then what is similar to its antonyms."""
    opposite = [a.synset() for s in synsets for h in s.similar_tos() for m in h.lemmas() for a in m.antonyms()]
    similar = [s for a in _direct(synsets, lemma) for s in a.synset().similar_tos()]
    return _ranked(opposite) + _ranked(similar)


def _sisters(synset) -> list:
    return [sister for hypernym in synset.hypernyms() for sister in hypernym.hyponyms() if sister != synset]


def _colours(word: str) -> list[str]:
    """Sisters of the word's reading as the noun of a colour."""
    colours = [s for s in _synsets(word, "n") if s.lexname() == "noun.attribute" and _is_colour(s)]
    return _ranked([sister for s in colours for sister in _sisters(s)])


def _is_colour(synset) -> bool:
    return any(h.name() == "color.n.01" for h in synset.closure(lambda s: s.hypernyms(), depth=4))


def _near(synsets: list, part: str) -> set[str]:
    """Words that leave a caption true: synonyms in any sense, direct hypernyms and hyponyms, similar adjectives."""
    near = [n for s in synsets for n in (s, *s.hypernyms(), *s.hyponyms(), *s.similar_tos(), *s.also_sees())]
    if part == "a":
        near += [
            n
            for s in synsets
            if s.pos() == "s"
            for h in s.similar_tos()
            for n in h.similar_tos()
            if not _colours(s.lemma_names()[0])
        ]
    return {name for synset in near for name in synset.lemma_names()}


def _ranked(synsets: list) -> list[str]:
    """The words of synsets: frequent in that sense first, then frequent at all, then by the alphabet."""
    keys = {}
    for synset in (s for s in synsets if not _offends(s)):
        for lemma in synset.lemmas():
            total = _counts()[1].get((lemma.name(), synset.pos()), 0)
            key = (-_counts()[0].get(lemma.key(), 0), -total, lemma.name())
            keys[lemma.name()] = min(key, keys.get(lemma.name(), key))
    return sorted(keys, key=keys.get)


def _fit(name: str, part: str) -> bool:
    """One word in lower-case letters, not a comparative, and none that insults."""
    if part == "a" and name.endswith("er") and (_synsets(name[:-2], "a") or _synsets(name[:-1], "a")):
        return False
    return name.isalpha() and name.islower() and name.isascii() and len(name) > 2 and name not in _UNFIT


def _offends(synset) -> bool:
    return any(mark in synset.definition() for mark in _OFFENSIVE)


# --- the dictionary -------------------------------------------------------------------------------------------


@functools.cache
def _reader():
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class English(WordNetCorpusReader):
        """WordNet without the mapping between versions that only other languages need."""

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that other languages are missing
        return English(str(wordnet_data.folder()), None)


@functools.lru_cache(maxsize=1 << 16)
def _synsets(word: str, part: str) -> list:
    """The synsets of a lemma as written, frequent senses first."""
    offsets = _reader()._lemma_pos_offset_map.get(word, {}) if word else {}
    return [_reader().synset_from_pos_and_offset(part, o) for o in offsets.get(part, ())]


@functools.cache
def _irregular(part: str) -> dict[str, tuple[str, ...]]:
    """Irregular forms of lemmas."""
    forms: dict[str, tuple[str, ...]] = {}
    for form, lemmas in sorted(_reader()._exception_map[part].items()):
        for lemma in lemmas:
            forms[lemma] = (*forms.get(lemma, ()), form)
    return forms


@functools.cache
def _counts() -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """How often a sense (by key) and a lemma (with its part of speech) was met in WordNet's tagged texts."""
    parts = {digit: part for part, digit in _DIGIT.items()}
    senses, totals = {}, {}
    with _reader().open("cntlist.rev") as file:
        for line in file:
            key, _, count = line.split()[:3]
            name, _, rest = key.partition("%")
            senses[key] = int(count)
            totals[name, parts[rest[0]]] = totals.get((name, parts[rest[0]]), 0) + int(count)
    return senses, totals


def main(argv: list[str]) -> int:
    """Say where WordNet lies, after installing it if `--install` is given."""
    parser = argparse.ArgumentParser(prog="python -m compclip.text.wordnet", description="Find or install WordNet.")
    parser.add_argument("--install", action="store_true", help="fetch it through NLTK or copy Debian's files")
    if parser.parse_args(argv).install:
        path, source = wordnet_data.install()
        print(f"WordNet: {path} (from {source})")
    else:
        print(f"WordNet: {wordnet_data.folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
