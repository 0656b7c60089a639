"""Words that may replace a word and make its caption wrong: WordNet's antonyms and co-hyponyms (FSC-CLIP A.1).

    python -m compclip.text.wordnet --install      # find, fetch or copy WordNet

A co-hyponym is a sister under a direct hypernym. Adjectives have none in WordNet: theirs are indirect antonyms and,
for colours, the sisters of the colour's noun; for numbers, other number words. A candidate has the part of speech and
the inflection of the word, and is never a synonym, a direct hypernym or a direct hyponym of it in any sense.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import sys
from collections.abc import Iterator

from compclip.base.errors import UserError, entry
from compclip.text import wordnet_data
from compclip.text.inflect import VOWELS, inflect
from compclip.text.wordnet_files import ALSO, HYPERNYM, HYPONYM, SIMILAR, Dictionary, Synset
from compclip.text.words import words

LIMIT = 16  # candidates of a token
SENSES = 3  # of the most frequent senses: candidates are sought among the sisters of those that are usual
PARTS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
NEAR = (HYPERNYM, HYPONYM, SIMILAR, ALSO)
ATTRIBUTE = wordnet_data.LEXNAMES.split().index("noun.attribute")
_DIGIT = {"n": "1", "v": "2", "a": "3", "s": "5", "r": "4"}
REPLACED = (*PARTS, "PROPN", "NUM")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_OFFENSIVE = ("offensive", "obscene", "disparag", "derogat", "slur", "vulgar", "prostitut")
UNFIT = words("bitch bastard whore slut tart harlot fag queer savage cripple moron idiot retard nazi")
_SKIPPED_VERBS = words("be have do get")


def candidates(
    word: str, lemma: str, pos: str, tag: str, said: frozenset[str] = frozenset(), article: str = ""
) -> tuple[str, ...]:
    """At most 16 replacements of a token, in a fixed order: antonyms first, then sisters, frequent words first.

    `said`: lower-case words of the caption, which are left out. `article`: "a" or "an" where one stands before the
    word; only words that go with it are given. They are written as the word is: capitals, or a first capital.
    Raises UserError where no WordNet is installed, or a damaged one.
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


@contextlib.contextmanager
def undamaged(word: str) -> Iterator[None]:
    """Look a word up. Raises UserError where WordNet's files say nonsense about it."""
    try:
        yield
    except (LookupError, ValueError) as error:
        raise UserError(
            f"{wordnet_data.folder()}: damaged ({type(error).__name__} at {word!a}); remove it, then run "
            "`python -m compclip.text.wordnet --install`"
        ) from error


@functools.lru_cache(maxsize=1 << 15)
def _forms(word: str, lemma: str, pos: str, tag: str) -> tuple[str, ...]:
    """Inflected replacements of a word, best first, at most 4 x 16 of them."""
    with undamaged(word):
        return _found(word, lemma, pos, tag)


def _found(word: str, lemma: str, pos: str, tag: str) -> tuple[str, ...]:
    if pos == "NUM":
        return tuple(n for n in NUMBERS if n != word) if word in NUMBERS else ()
    if pos not in PARTS or not word.isalpha() or lemma in _SKIPPED_VERBS:
        return ()
    part, lemma = PARTS[pos], "person" if word == "people" else lemma
    lemma = lemma if synsets_of(lemma, part) else dictionary().base(word, part) or lemma
    forms = [inflect(c, tag, irregular(part)) for c in _lemmas(lemma, part)]
    unique = dict.fromkeys(f for f in forms if f and f != word)
    return tuple(unique)[: 4 * LIMIT]


@functools.lru_cache(maxsize=1 << 16)
def _lemmas(lemma: str, part: str) -> tuple[str, ...]:
    """Replacements of a lemma, best first: antonyms in any sense, relatives in its usual senses."""
    synsets = synsets_of(lemma, part)
    excluded = _near(synsets, part) | {lemma}
    found = [name for _, name in _direct(synsets, lemma)] + _relatives(_usual(synsets, lemma), lemma, part)
    return tuple(dict.fromkeys(c for c in found if c not in excluded and _fit(c, part)))


def _usual(synsets: list[Synset], lemma: str) -> list[Synset]:
    """The first sense, and the next ones as far as they were met a third as often."""
    met = [sum(times_met(s, i) for i, word in enumerate(s.words) if word == lemma) for s in synsets[:SENSES]]
    return [s for s, count in zip(synsets, met, strict=False) if s is synsets[0] or 3 * count >= met[0] > 0]


def _direct(synsets: list[Synset], lemma: str) -> list[tuple[Synset, str]]:
    """Antonyms of the word itself, each with its synset."""
    return [found for s in synsets for found in dictionary().antonyms(s, lemma)]


def _relatives(synsets: list[Synset], lemma: str, part: str) -> list[str]:
    """Sisters, sense after sense; for an adjective those of its colour or else its indirect antonyms."""
    if part in "nv":
        return [name for s in synsets for name in _ranked(_sisters(s))]
    if part == "r":
        return []
    return [c for c in _colours(lemma) if synsets_of(c, "a")] or _indirect(synsets, lemma)


def _indirect(synsets: list[Synset], lemma: str) -> list[str]:
    """Antonyms of what an adjective is similar to, then what is similar to its antonyms."""
    heads = [h for s in synsets for h in related(s, SIMILAR)]
    opposite = [a for h in heads for word in h.words for a, _ in dictionary().antonyms(h, word)]
    similar = [s for a, _ in _direct(synsets, lemma) for s in related(a, SIMILAR)]
    return _ranked(opposite) + _ranked(similar)


def _sisters(synset: Synset) -> list[Synset]:
    return [s for above in related(synset, HYPERNYM) for s in related(above, HYPONYM) if s != synset]


def _colours(word: str) -> list[str]:
    """Sisters of the word's reading as the noun of a colour."""
    colours = [s for s in synsets_of(word, "n") if s.field == ATTRIBUTE and _is_colour(s)]
    return _ranked([sister for s in colours for sister in _sisters(s)])


def _is_colour(synset: Synset) -> bool:
    """Whether it lies at most four steps below "color"."""
    colour, above = synsets_of("color", "n")[0], [synset]
    for _ in range(4):
        above = [h for s in above for h in related(s, HYPERNYM)]
        if colour in above:
            return True
    return False


def _near(synsets: list[Synset], part: str) -> set[str]:
    """Words that leave a caption true: synonyms in any sense, direct hypernyms and hyponyms, similar adjectives."""
    near = [*synsets, *(n for s in synsets for symbol in NEAR for n in related(s, symbol))]
    if part == "a":
        plain = [s for s in synsets if s.part == "s" and not _colours(s.words[0])]
        near += [n for s in plain for h in related(s, SIMILAR) for n in related(h, SIMILAR)]
    return {name for synset in near for name in synset.words}


def _ranked(synsets: list[Synset]) -> list[str]:
    """The words of synsets: frequent in that sense first, then frequent at all, then by the alphabet."""
    keys: dict[str, tuple[int, int, str]] = {}
    for synset in (s for s in synsets if not is_offensive(s)):
        for number, name in enumerate(synset.words):
            key = (-times_met(synset, number), -counts()[1].get((name, synset.part), 0), name)
            keys[name] = min(key, keys.get(name, key))
    return sorted(keys, key=lambda name: keys[name])


def times_met(synset: Synset, number: int) -> int:
    """How often a word was met in this sense."""
    return counts()[0].get(dictionary().key(synset, number), 0)


def _fit(name: str, part: str) -> bool:
    """One word in lower-case letters, not a comparative, and none that insults."""
    if part == "a" and name.endswith("er") and (synsets_of(name[:-2], "a") or synsets_of(name[:-1], "a")):
        return False
    return name.isalpha() and name.islower() and name.isascii() and len(name) > 2 and name not in UNFIT


def is_offensive(synset: Synset) -> bool:
    """Whether its definition says that it insults."""
    return any(mark in synset.definition for mark in _OFFENSIVE)


# --- the dictionary -------------------------------------------------------------------------------------------


@functools.cache
def dictionary() -> Dictionary:
    """The installed WordNet. Raises UserError where there is none."""
    return Dictionary(wordnet_data.folder())


@functools.lru_cache(maxsize=1 << 16)
def synsets_of(word: str, part: str) -> list[Synset]:
    """The synsets of a lemma as written, frequent senses first."""
    return dictionary().synsets(word, part)


def related(synset: Synset, symbol: str) -> list[Synset]:
    """What a whole synset points to."""
    return dictionary().related(synset, symbol)


@functools.cache
def irregular(part: str) -> dict[str, tuple[str, ...]]:
    """Irregular forms of lemmas."""
    forms: dict[str, tuple[str, ...]] = {}
    for form, lemmas in sorted(dictionary().exceptions(part).items()):
        for lemma in lemmas:
            forms[lemma] = (*forms.get(lemma, ()), form)
    return forms


@functools.cache
def counts() -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """How often a sense (by key) and a lemma (with its part of speech) was met in WordNet's tagged texts."""
    parts = {digit: part for part, digit in _DIGIT.items()}
    senses: dict[str, int] = {}
    totals: dict[tuple[str, str], int] = {}
    for line in (wordnet_data.folder() / "cntlist.rev").read_text(encoding="utf-8").splitlines():
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
