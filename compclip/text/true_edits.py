"""Tell by words alone whether an edited caption says what some caption of its picture says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from compclip.text.blind_language import split_words

JOINING = ("and", "or")
SEPARATORS = (*JOINING, ",")
ARTICLES = ("a", "an", "the")
_WORDS = re.compile(r"[\w'-]+|,")


def is_still_true(caption: str, text: str, other_captions: Sequence[str]) -> bool:
    """Return whether a text says what some caption of the picture says, by rules.

    Equal words in equal order, case and punctuation aside; or two parts joined by `and` or `or`, exchanged. Synonyms,
    and what the picture shows, are not judged.
    """
    words = split_words(text)
    if any(words == split_words(other) for other in (caption, *other_captions)):
        return True
    return any(exchanges_joined(split_words(other), words) for other in (caption, *other_captions))


def exchanges_joined(words: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether `others` are the words with the parts on both sides of one `and` or `or` exchanged."""
    if Counter(words) != Counter(others):
        return False
    for middle in (i for i, word in enumerate(words) if word in JOINING):
        for low in range(middle):
            for high in range(middle + 2, len(words) + 1):
                left, right = words[low:middle], words[middle + 1 : high]
                if [*words[:low], *right, words[middle], *left, *words[high:]] == list(others):
                    return True
    return False


def uses_other_captions(caption: str, text: str, other_captions: Sequence[str]) -> bool:
    """Return whether every word that the text brings stands in another caption of the picture: it may be true."""
    new = set(split_words(text)) - set(split_words(caption))
    others = {word for other in other_captions for word in split_words(other)}
    return bool(new) and new <= others


def reorders_list(caption: str, text: str) -> bool:
    """Return whether a text names the members of a list of the caption in another order; articles do not count."""
    words, others = ([w for w in _WORDS.findall(t.lower()) if w not in ARTICLES] for t in (caption, text))
    if len(words) != len(others) or not any(separator in words for separator in SEPARATORS):
        return False
    differing = [i for i, (word, other) in enumerate(zip(words, others, strict=True)) if word != other]
    if not differing:
        return False
    low, high = differing[0], differing[-1] + 1
    members, other_members = _split_list(words[low:high]), _split_list(others[low:high])
    return len(members) > 1 and sorted(members) == sorted(other_members)


def _split_list(words: Sequence[str]) -> list[str]:
    """Return the members of a list: the words between commas, `and` and `or`."""
    members = [""]
    for word in words:
        if word in SEPARATORS:
            members.append("")
        else:
            members[-1] += word + " "
    return [member for member in members if member]
