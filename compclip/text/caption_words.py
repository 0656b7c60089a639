"""The words of captions of photographs by part of speech, and which of them may stand for each other.

`GROUPS`: a word of a group gives way to the others; they are of one kind, are said of the same things, and exclude each
other. Written by hand for the words that captions hold most. Plurals without a singular stand as they are.

The words are in `lexicon.toml`, frequent ones first.
Lemmas that occur twice or more in 5,770 captions of COCO (770) and Flickr8k (5,000), as the parser reads them and
WordNet knows them. Nouns, verbs, adjectives and adverbs by their letters in WordNet; "t" has the verbs
with an object.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from compclip.text import lexicon
from compclip.text.agreement import inflect
from compclip.text.word_edits import word_set

_LISTS = lexicon.TABLES["caption_words"]
WORDS = {
    "n": word_set(_LISTS["nouns"]),
    "v": word_set(_LISTS["verbs"]),
    "a": word_set(_LISTS["adjectives"]),
    "r": word_set(_LISTS["adverbs"]),
}
GROUPS = _LISTS["groups"]
SKIPPED = word_set(_LISTS["skipped"])  # what says how much or where in a picture, and what fits no place but its own


@functools.cache
def groups() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return, by part of speech, the words that may stand for each word of the groups."""
    words_by_pos: dict[str, dict[str, tuple[str, ...]]] = {}
    for pos_letter, text in GROUPS.items():
        words_by_pos[pos_letter] = {}
        for first, *others in map(str.split, text.split(";")):
            words_by_pos[pos_letter][first] = tuple(dict.fromkeys((*words_by_pos[pos_letter].get(first, ()), *others)))
    return words_by_pos


def inflect_group(
    word: str, lemma: str, key: str, tag: str, irregular: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the words of a word's group, inflected for a tag; those of a plural like "glasses" as they stand."""
    if tag == "NNS" and word in groups()[key]:
        return groups()[key][word]
    forms = [inflect(name, tag, irregular) for name in groups()[key].get(lemma, ())]
    return tuple(form for form in forms if form)
