"""What a text changes of its caption, by words alone: the kind of the edit, new words, and whether it still says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

from compclip.text.blind_language import split_words

ORDER, ADD, REMOVE, REPLACE, SAME = "order of words", "words added", "words removed", "replaced", "no word"
JOINING = ("and", "or")
FEW = 3  # words of a replacement whose kind is named


def describe_edit(caption: str, text: str, pos_of: Mapping[str, str]) -> str:
    """Return the kind of an edit: order, words added or removed, or the parts of speech exchanged or replaced."""
    before, after = split_words(caption), split_words(text)
    if before == after:
        return SAME
    if Counter(before) == Counter(after):
        exchanged = [word for word, other in zip(before, after, strict=True) if word != other]
        return f"exchanged {name_kinds(exchanged, pos_of)}" if len(exchanged) == 2 else ORDER
    removed, added = list((Counter(before) - Counter(after)).elements()), Counter(after) - Counter(before)
    if not removed:
        return ADD
    if not added:
        return REMOVE
    return f"{REPLACE} {name_kinds(removed, pos_of)}" if len(removed) <= FEW else f"{REPLACE}, more than {FEW} words"


def name_kinds(words: Sequence[str], pos_of: Mapping[str, str]) -> str:
    """Return the different parts of speech of words, joined."""
    return "+".join(sorted({pos_of.get(word, "other") for word in words}))


def list_new_words(text: str, known: Collection[str]) -> list[str]:
    """Return the words of a text that are not among those of any caption."""
    return [word for word in split_words(text) if word not in known]


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


def mark_changes(caption: str, text: str) -> list[tuple[str, bool]]:
    """Return the text in pieces, each with whether the caption has it otherwise."""
    before, after = caption.split(), text.split()
    pieces = []
    for kind, _, _, low, high in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if low < high:
            pieces.append((" ".join(after[low:high]), kind != "equal"))
    return pieces
