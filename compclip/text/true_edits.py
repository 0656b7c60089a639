"""Tell by words alone whether an edited caption says what some caption of its picture says."""

from __future__ import annotations

import string
from bisect import bisect_left
from collections.abc import Sequence

from compclip.text.blind_language import split_words
from compclip.text.word_edits import word_set

SEPARATORS = word_set("and or & ,")
ARTICLES = word_set("a an the")
_MARKS = (set(string.punctuation) | set("“”‘’«»…–—")) - set("'-_,&")  # neither of a word nor a separator
_SPACES = str.maketrans(dict.fromkeys(_MARKS, " "))


def is_still_true(caption: str, text: str, other_captions: Sequence[str]) -> bool:
    """Return whether a text says what some caption of the picture says, by rules.

    Equal words in equal order, case and punctuation aside; or the members of a list in another order. Synonyms, and
    what the picture shows, are not judged.
    """
    words = split_words(text)
    for true_caption in (caption, *other_captions):
        if words == split_words(true_caption) or reorders_list(true_caption, text):
            return True
    return False


def uses_other_captions(caption: str, text: str, other_captions: Sequence[str]) -> bool:
    """Return whether every word that the text brings stands in another caption of the picture: it may be true."""
    new = set(split_words(text)) - set(split_words(caption))
    words_elsewhere = set(split_words(" ".join(other_captions)))
    return bool(new) and new <= words_elsewhere


def reorders_list(caption: str, text: str) -> bool:
    """Return whether a text names the members of a list of the caption in another order; articles do not count.

    Members stand between commas, `and`, `or` and `&`. Where the first begins and the last ends is not known: words
    around what differs belong to the list where another member begins or ends so ("a black dog and a white dog").
    """
    words = _split_words(caption)
    new_words = _split_words(text)
    if words == new_words or sorted(words) != sorted(new_words):
        return False
    low = 0
    while words[low] == new_words[low]:
        low += 1
    high = len(words)
    while words[high - 1] == new_words[high - 1]:
        high -= 1
    separators = [-1, *(i for i, word in enumerate(words) if word in SEPARATORS), len(words)]
    between = [i for i in separators if low < i < high - 1]
    if not between:
        return False
    first = separators[bisect_left(separators, low) - 1] + 1
    last = separators[bisect_left(separators, high)]
    starts = [i for i in range(first, low + 1) if any(words[k + 1 : k + 1 + low - i] == words[i:low] for k in between)]
    ends = [j for j in range(high, last + 1) if any(words[k - j + high : k] == words[high:j] for k in between)]
    return any(_split_list(words[i:j]) == _split_list(new_words[i:j]) for i in starts for j in ends)


def are_members(before: str, between: str, behind: str) -> bool:
    """Return whether two phrases are members of one list, by the text around them: as `reorders_list`, but faster.

    What stands between the first and its separator stands behind the last too ("a man in a hat and a boy in a hat"),
    and what stands between the last and its separator before the first ("a black dog and a black cat").
    """
    words = _split_words(between)
    separators = [i for i, word in enumerate(words) if word in SEPARATORS]
    if not separators:
        return False
    ending = words[: separators[0]]
    opening = words[separators[-1] + 1 :]
    words_before = _split_words(before) if opening else []
    words_behind = _split_words(behind) if ending else []
    return words_behind[: len(ending)] == ending and words_before[len(words_before) - len(opening) :] == opening


def _split_words(text: str) -> list[str]:
    apart = text.lower().replace(",", " , ").replace("&", " & ").translate(_SPACES)
    return [word for word in apart.split() if word not in ARTICLES]


def _split_list(words: Sequence[str]) -> list[str]:
    """Return the members of a list in alphabetical order: the words between separators."""
    members = [""]
    for word in words:
        if word in SEPARATORS:
            members.append("")
        else:
            members[-1] += word + " "
    return sorted(filter(None, members))
