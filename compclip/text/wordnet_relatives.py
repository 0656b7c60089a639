"""Weighted words for CLoVe's replace rule: WordNet's antonyms, sisters and cousins of a word in all its senses.

A cousin is a hyponym of a hyponym of the hypernym's hypernym, so that sisters are cousins too; an adjective goes by the
nouns that it derives from, and back. A word's weight is how often it occurs in that sense, at least 1, over all
senses. Words that share a synset with the word are left out. Departures from CLoVe: `RARE` words represent the rare
ones, of which "man" has thousands; insults and names are left out.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable

from compclip.text import wordnet
from compclip.text.annotation import NO_WORDS, Weighted
from compclip.text.inflect import inflect
from compclip.text.wordnet_files import HYPERNYM, HYPONYM, Synset

COMMON, RARE = 48, 16  # words of a token: the heaviest, and those that have the weight of all others
BE = {"VBD": "was", "VBZ": "is", "VBP": "are", "VBG": "being", "VBN": "been"}
SLIPS = {"NNP": "NN", "NNPS": "NNS"}  # the tagger's, of words in lower case
POS_LETTERS = {**wordnet.POS_LETTERS, "PROPN": "n"}


def find_relatives(word: str, pos: str, tag: str) -> Weighted:
    """Return the words that may replace a token, in lower case and inflected like it, the heaviest first.

    Raises UserError where no WordNet is installed, or a damaged one.
    """
    if pos not in POS_LETTERS or not word.isalpha():
        return NO_WORDS
    return _inflected_relatives(word.lower(), POS_LETTERS[pos], SLIPS.get(tag, tag) if word.islower() else tag)


@functools.lru_cache(maxsize=1 << 15)
def _inflected_relatives(word: str, pos_letter: str, tag: str) -> Weighted:
    with wordnet.report_damage(word):
        forms: dict[str, int] = {}
        for name, weight in relative_lemmas(word, pos_letter):
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
def relative_lemmas(word: str, pos_letter: str) -> tuple[tuple[str, int], ...]:
    """Return lemmas and weights, the heaviest first, then by the alphabet."""
    bases = wordnet.dictionary().bases(word, pos_letter)
    senses = list(dict.fromkeys(sense for base in bases for sense in wordnet.synsets_of(base, pos_letter)))
    weights = Counter[str]()
    for sense in senses:
        words = dict.fromkeys(sense.words)
        weights.update(_weigh_words(pair for w in words for pair in wordnet.dictionary().antonyms(sense, w)))
        if pos_letter in "nv":
            cousins = map(_cousins_below, _grandparents([sense]))
        else:
            nouns = [synset for synset, _ in wordnet.dictionary().derived(sense) if synset.pos == "n"]
            cousins = map(_adjectives_below, _grandparents(nouns if pos_letter == "a" else []))
        for weights_of_cousins in cousins:
            weights.update(weights_of_cousins)
    synonyms = {name for sense in senses for name in sense.words}
    relatives = [(name, weight) for name, weight in weights.items() if name not in synonyms]
    return tuple(sorted(relatives, key=lambda item: (-item[1], item[0])))


def _grandparents(senses: Iterable[Synset]) -> list[Synset]:
    """Collect the synsets two steps above some senses; a sense right below a top synset has none, as released."""
    parents = (parent for sense in senses for parent in wordnet.related(sense, HYPERNYM))
    return list(dict.fromkeys(grandparent for parent in parents for grandparent in wordnet.related(parent, HYPERNYM)))


@functools.lru_cache(maxsize=1 << 12)
def _cousins_below(grand: Synset) -> dict[str, int]:
    return _weigh_words((cousin, word) for cousin in _grandchildren(grand) for word in cousin.words)


@functools.lru_cache(maxsize=1 << 12)
def _adjectives_below(grand: Synset) -> dict[str, int]:
    pairs = (pair for cousin in _grandchildren(grand) for pair in wordnet.dictionary().derived(cousin))
    return _weigh_words((adjective, word) for adjective, word in pairs if adjective.pos in "as")


def _grandchildren(grand: Synset) -> list[Synset]:
    cousins = (cousin for uncle in wordnet.related(grand, HYPONYM) for cousin in wordnet.related(uncle, HYPONYM))
    return list(dict.fromkeys(cousins))


def _weigh_words(pairs: Iterable[tuple[Synset, str]]) -> dict[str, int]:
    """Return the words with their weights; those of lower-case letters only, without insults."""
    weights = Counter[str]()
    for synset, word in pairs:
        words = word.split("_")
        is_plain = word.isascii() and word.islower() and all(map(str.isalpha, words))
        if is_plain and not wordnet.UNFIT & set(words) and not wordnet.is_offensive(synset):
            weights[word] += max(wordnet.times_met(synset, synset.words.index(word)), 1)
    return dict(weights)
