"""Concepts of a caption (C2LIP Sec. 3): its noun phrases, without their leading determiner.

Pronouns are no concepts. A caption may have none.
"""

from __future__ import annotations

from compclip.text.annotation import Annotation


def spans(annotation: Annotation) -> list[tuple[int, int, str]]:
    """Return (first character, end, phrase) of each noun phrase; of phrases that are equal but for case, the first."""
    phrases: dict[str, tuple[int, int, str]] = {}
    for low, high in annotation.chunks:
        while low < high and annotation.pos[low] in ("DET", "SPACE", "PUNCT"):
            low += 1
        if low == high or (high - low == 1 and annotation.pos[low] == "PRON"):
            continue
        start, end = annotation.chars((low, high))
        phrase = annotation.text[start:end].strip()
        phrases.setdefault(" ".join(phrase.casefold().split()), (start, start + len(phrase), phrase))
    return list(phrases.values())


def noun_phrases(annotation: Annotation) -> list[str]:
    """Return the noun phrases of a caption in the order of their first occurrence."""
    return [phrase for _, _, phrase in spans(annotation)]
