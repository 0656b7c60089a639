"""Words for CLoVe's replace rule, with weights: WordNet's antonyms, sisters and cousins of a word in all its senses.

A cousin is a hyponym of a hyponym of the hypernym's hypernym, so that sisters are cousins too; an adjective goes by the
nouns that it derives from, and back. A word's weight is how often it was met in that sense, at least 1, over all
senses. Words that share a synset with the word are left out. Departures from CLoVe: of the many that are rare,
thousands for "man", `RARE` stand for all; none insults, and none is a name.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator

from compclip.text import wordnet
from compclip.text.annotation import Weighted
from compclip.text.inflect import inflect
from compclip.text.wordnet_files import HYPERNYM, HYPONYM, Synset

COMMON, RARE = 48, 16  # words of a token: the heaviest, and those that have the weight of all others
BE = {"VBD": "was", "VBZ": "is", "VBP": "are", "VBG": "being", "VBN": "been"}
SLIPS = {"NNP": "NN", "NNPS": "NNS"}  # the tagger's, of words in lower case
PARTS = {**wordnet.PARTS, "PROPN": "n"}
NONE: Weighted = ((), ())


def weighted(word: str, pos: str, tag: str) -> Weighted:
    """What may replace a token, in lower case and in its form, the heaviest first.

    Raises UserError where no WordNet is installed, or a damaged one.
    """
    if pos not in PARTS or not word.isalpha():
        return NONE
    return _weighted(word.lower(), PARTS[pos], SLIPS.get(tag, tag) if word.islower() else tag)


@functools.lru_cache(maxsize=1 << 15)
def _weighted(word: str, part: str, tag: str) -> Weighted:
    with wordnet.undamaged(word):
        forms: dict[str, int] = {}
        for name, weight in _relatives(word, part):
            forms.setdefault(_inflected(name, part, tag), weight)
        forms.pop(word, None)
    kept = dict(_thinned(list(forms.items())))
    return tuple(kept), tuple(kept.values())


def _thinned(found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The first words, and of the others some at even distances, each with its share of the weight of all of these."""
    others = found[COMMON:]
    if len(others) <= RARE:
        return found
    share = max(1, round(sum(weight for _, weight in others) / RARE))
    return found[:COMMON] + [(others[i * len(others) // RARE][0], share) for i in range(RARE)]


def _inflected(name: str, part: str, tag: str) -> str:
    """A lemma, of one word or several, in the form that a tag asks for; as it is where there is none."""
    words = name.split("_")
    place = 0 if part == "v" else -1
    if part == "v" and words[0] == "be":
        return " ".join([BE.get(tag, "be"), *words[1:]])
    words[place] = inflect(words[place], tag, wordnet.irregular(part)) or words[place]
    return " ".join(words)


@functools.lru_cache(maxsize=1 << 15)
def _relatives(word: str, part: str) -> tuple[tuple[str, int], ...]:
    """Lemmas and weights; the heaviest first, then by the alphabet."""
    senses = [s for base in wordnet.dictionary().bases(word, part) for s in wordnet.synsets_of(base, part)]
    senses = list(dict.fromkeys(senses))
    found = Counter[str]()
    for sense in senses:
        found.update(_opposite(sense))
        for table in _tables(sense, part):
            found.update(table)
    own = {name for sense in senses for name in sense.words}
    return tuple(sorted(((n, w) for n, w in found.items() if n not in own), key=lambda item: (-item[1], item[0])))


def _opposite(sense: Synset) -> dict[str, int]:
    found = (pair for word in dict.fromkeys(sense.words) for pair in wordnet.dictionary().antonyms(sense, word))
    return _counted(found)


def _tables(sense: Synset, part: str) -> Iterator[dict[str, int]]:
    """The cousins of a sense, by each of its hypernyms' hypernyms."""
    if part in "nv":
        yield from map(_cousins, _grand([sense]))
    elif part == "a":
        nouns = [other for other, _ in wordnet.dictionary().derived(sense) if other.part == "n"]
        yield from map(_adjectives, _grand(nouns))


def _grand(senses: Iterable[Synset]) -> list[Synset]:
    """Collect the synsets two steps above some senses; a sense right below a top synset has none, as released."""
    parents = (parent for sense in senses for parent in wordnet.related(sense, HYPERNYM))
    return list(dict.fromkeys(grandparent for parent in parents for grandparent in wordnet.related(parent, HYPERNYM)))


@functools.lru_cache(maxsize=1 << 12)
def _cousins(grand: Synset) -> dict[str, int]:
    return _counted((cousin, word) for cousin in _below(grand) for word in cousin.words)


@functools.lru_cache(maxsize=1 << 12)
def _adjectives(grand: Synset) -> dict[str, int]:
    made = (pair for cousin in _below(grand) for pair in wordnet.dictionary().derived(cousin))
    return _counted((adjective, word) for adjective, word in made if adjective.part in "as")


def _below(grand: Synset) -> list[Synset]:
    found = (cousin for uncle in wordnet.related(grand, HYPONYM) for cousin in wordnet.related(uncle, HYPONYM))
    return list(dict.fromkeys(found))


def _counted(found: Iterable[tuple[Synset, str]]) -> dict[str, int]:
    """The words with their weights."""
    weights = Counter[str]()
    for synset, word in found:
        if _fit(word) and not wordnet.is_offensive(synset):
            weights[word] += max(wordnet.times_met(synset, synset.words.index(word)), 1)
    return dict(weights)


def _fit(name: str) -> bool:
    """Words in lower-case letters, none that insults."""
    parts = name.split("_")
    return name.isascii() and name.islower() and all(map(str.isalpha, parts)) and not wordnet.UNFIT & set(parts)
