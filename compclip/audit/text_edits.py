"""What a text changes of its caption, by words alone: the kind of the edit, new words, and the places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

from compclip.text.blind_language import split_words

ORDER = "order of words"
ADD = "words added"
REMOVE = "words removed"
REPLACE = "replaced"
SAME = "no word"
FEW = 3  # words of a replacement whose kind is named


def describe_edit(caption: str, text: str, pos_of: Mapping[str, str]) -> str:
    """Return the kind of an edit: order, words added or removed, or the parts of speech exchanged or replaced."""
    before = split_words(caption)
    after = split_words(text)
    if before == after:
        return SAME
    if Counter(before) == Counter(after):
        exchanged = [word for word, other in zip(before, after, strict=True) if word != other]
        return f"exchanged {name_kinds(exchanged, pos_of)}" if len(exchanged) == 2 else ORDER
    removed = list((Counter(before) - Counter(after)).elements())
    added = Counter(after) - Counter(before)
    if not removed:
        return ADD
    if not added:
        return REMOVE
    return f"{REPLACE} {name_kinds(removed, pos_of)}" if len(removed) <= FEW else f"{REPLACE}, more than {FEW} words"


def name_kinds(words: Sequence[str], pos_of: Mapping[str, str]) -> str:
    """Return the different parts of speech of words, joined."""
    return "+".join(sorted({pos_of.get(word, "other") for word in words}))


def list_new_words(text: str, caption_words: Collection[str]) -> list[str]:
    """Return the words of a text that are not among those of any caption."""
    return [word for word in split_words(text) if word not in caption_words]


def mark_changes(caption: str, text: str) -> list[tuple[str, bool]]:
    """Return the text in pieces, each with whether the caption has it otherwise."""
    before = caption.split()
    after = text.split()
    pieces = []
    for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if low < high:
            pieces.append((" ".join(after[low:high]), kind != "equal"))
    return pieces
