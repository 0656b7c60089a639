"""Weighted words that may replace a word by CLoVe's rule: WordNet's antonyms, sisters and cousins in all its senses.

A cousin is a hyponym of a hyponym of the hypernym's hypernym, so that sisters are cousins too; an adjective goes by the
nouns that it derives from, and back. Words that share a synset with the word are left out. How often a word occurs in
a sense, at least once, is its weight by that sense. `SENSES`: the weights are summed over the senses of the replaced
word, and a cousin counts once below each grandparent of a sense. `PATHS`, as CLoVe's program counts: it counts once for
each way up two hypernyms and down two hyponyms that leads to it.

Departures from CLoVe: `RARE` words represent the rare ones, of which "man" has thousands; insults and names are left
out. A word counts by its sense; their program remembers counts by words alone (NLTK's lemmas are equal where their
names are), so that all senses of a word have the count of that which a process met first.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from compclip.text import wordnet
from compclip.text.agreement import inflect
from compclip.text.annotation import NO_WORDS, Weighted
from compclip.text.wordnet_files import HYPERNYM, HYPONYM, Synset

# how cousins count
SENSES = "senses"
PATHS = "paths"
UP_AND_DOWN = (HYPERNYM, HYPERNYM, HYPONYM, HYPONYM)
# relatives of a token: the heaviest, and those that have the weight of all others
COMMON = 48
RARE = 16
BE = {"VBD": "was", "VBZ": "is", "VBP": "are", "VBG": "being", "VBN": "been"}


def find_relatives(
    word: str, pos: str, tag: str, vocabulary: frozenset[str] | None = None, weights: str = SENSES
) -> Weighted:
    """Return the words that may replace a token, in lower case and inflected like it, the heaviest first.

    `weights` says how cousins count. Of a `vocabulary` (in lower case) only its words are given, of several words only
    those that are all in it. Raises UserError where no WordNet is installed, or a damaged one.
    """
    pos_letter = wordnet.POS_LETTERS.get("NOUN" if pos == "PROPN" else pos)
    if pos_letter is None or not word.isalpha():
        return NO_WORDS
    tag = wordnet.SLIPS.get(tag, tag) if word.islower() else tag
    relatives = _inflected_relatives(word.lower(), pos_letter, tag, weights)
    if vocabulary is None:
        return relatives
    usual = {form: weight for form, weight in zip(*relatives, strict=True) if vocabulary.issuperset(form.split())}
    return tuple(usual), tuple(usual.values())


@functools.lru_cache(maxsize=1 << 15)
def _inflected_relatives(word: str, pos_letter: str, tag: str, weights: str) -> Weighted:
    with wordnet.report_damage(word):
        forms: dict[str, int] = {}
        for name, weight in relative_lemmas(word, pos_letter, weights):
            forms.setdefault(_inflect_name(name, pos_letter, tag), weight)
        forms.pop(word, None)
    words_and_weights = dict(thin_rare(list(forms.items())))
    return tuple(words_and_weights), tuple(words_and_weights.values())


def thin_rare(relatives: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep the heaviest words, and of the rare ones some at even distances, which share the weight of all of them."""
    rare = relatives[COMMON:]
    if len(rare) <= RARE:
        return relatives
    share = max(1, round(sum(weight for _, weight in rare) / RARE))
    return relatives[:COMMON] + [(rare[i * len(rare) // RARE][0], share) for i in range(RARE)]


def _inflect_name(name: str, pos_letter: str, tag: str) -> str:
    """Inflect a lemma of one word or several for a tag; return it unchanged where there is no such form."""
    words = name.split("_")
    index = 0 if pos_letter == "v" else -1
    if pos_letter == "v" and words[0] == "be":
        return " ".join([BE.get(tag, "be"), *words[1:]])
    words[index] = inflect(words[index], tag, wordnet.irregular_forms(pos_letter)) or words[index]
    return " ".join(words)


@functools.lru_cache(maxsize=1 << 15)
def relative_lemmas(word: str, pos_letter: str, weights: str = SENSES) -> tuple[tuple[str, int], ...]:
    """Return lemmas and weights, the heaviest first, then by the alphabet."""
    bases = wordnet.dictionary().bases(word, pos_letter)
    senses = list(chain.from_iterable(wordnet.synsets_of(base, pos_letter) for base in bases))
    if weights == SENSES:
        senses = list(dict.fromkeys(senses))
    add_cousins = _weigh_cousins if weights == SENSES else _weigh_paths
    sums = Counter[str]()
    for sense in senses:
        for word in dict.fromkeys(sense.words):
            sums.update(_weigh_words(wordnet.dictionary().antonyms(sense, word)))
        for weights_of_words in add_cousins(sense, pos_letter):
            sums.update(weights_of_words)
    for sense in senses:
        for synonym in sense.words:
            sums.pop(synonym, None)
    return tuple(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _weigh_cousins(sense: Synset, pos_letter: str) -> Iterable[Mapping[str, int]]:
    """Give the weights of a sense's cousins, each counted once below a grandparent."""
    weigh = _cousins_below if pos_letter in "nv" else _adjectives_below
    return map(weigh, wordnet.grandparents(_starts(sense, pos_letter)))


def _weigh_paths(sense: Synset, pos_letter: str) -> Iterable[Mapping[str, int]]:
    """Give the weights of a sense's cousins, as often as there are ways to each."""
    weigh = _words_of if pos_letter in "nv" else _adjectives_of
    for start in dict.fromkeys(_starts(sense, pos_letter)):
        for cousin, ways in count_ways(start).items():
            yield {word: ways * weight for word, weight in weigh(cousin).items()}


def _starts(sense: Synset, pos_letter: str) -> list[Synset]:
    """Return the synsets from which cousins are looked for: the nouns of an adjective, and no adverb's."""
    if pos_letter in "nv":
        return [sense]
    nouns = [synset for synset, _ in wordnet.dictionary().derived(sense) if synset.pos == "n"]
    return nouns if pos_letter == "a" else []


def count_ways(start: Synset) -> Counter[Synset]:
    """Count the ways to each cousin of a synset, which is none itself."""
    ways = Counter({start: 1})
    for symbol in UP_AND_DOWN:
        reached = Counter[Synset]()
        for synset, number in ways.items():
            for neighbour in wordnet.related(synset, symbol):
                reached[neighbour] += number
        ways = reached
    del ways[start]
    return ways


@functools.lru_cache(maxsize=1 << 16)
def _words_of(*cousins: Synset) -> dict[str, int]:
    return _weigh_words((cousin, word) for cousin in cousins for word in cousin.words)


@functools.lru_cache(maxsize=1 << 16)
def _adjectives_of(*cousins: Synset) -> dict[str, int]:
    pairs = chain.from_iterable(map(wordnet.dictionary().derived, cousins))
    return _weigh_words((adjective, word) for adjective, word in pairs if adjective.pos in "as")


@functools.lru_cache(maxsize=1 << 12)
def _cousins_below(grand: Synset) -> dict[str, int]:
    return _words_of(*wordnet.grandchildren(grand))


@functools.lru_cache(maxsize=1 << 12)
def _adjectives_below(grand: Synset) -> dict[str, int]:
    return _adjectives_of(*wordnet.grandchildren(grand))


def _weigh_words(pairs: Iterable[tuple[Synset, str]]) -> dict[str, int]:
    """Return the words with their weights; those of lower-case letters only, without insults."""
    weights = Counter[str]()
    for synset, word in pairs:
        words = word.split("_")
        is_plain = word.isascii() and word.islower() and all(map(str.isalpha, words))
        if is_plain and not wordnet.UNFIT & set(words) and not wordnet.is_offensive(synset):
            weights[word] += max(wordnet.times_met(synset, synset.words.index(word)), 1)
    return dict(weights)
