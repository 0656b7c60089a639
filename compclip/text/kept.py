"""The sentences of an annotated caption that training takes: those of 4 to 34 words, or all if none is (CLIC B.1)."""

from __future__ import annotations

from compclip.text import sentences
from compclip.text.annotation import Annotation


def first(annotation: Annotation) -> Annotation:
    """The first of `split`, without making the others."""
    count = len(annotation.sentences)
    fitting = (i for i, (begin, end) in enumerate(annotation.sentences) if sentences.keep(annotation.text[begin:end]))
    return annotation.sentence(next(fitting, 0)) if count else annotation


def split(annotation: Annotation) -> tuple[Annotation, ...]:
    """The sentences of a caption as annotations of their own: those of 4 to 34 words (CLIC B.1), or all if none is."""
    parts = tuple(annotation.sentence(i) for i in range(len(annotation.sentences))) or (annotation,)
    return tuple(p for p in parts if sentences.keep(p.text)) or parts


def nouns(sentence: Annotation) -> list[str]:
    """The nouns of a sentence in lower case, each once, in the order of the text."""
    return list(dict.fromkeys(sentence.word(t).casefold() for t, pos in enumerate(sentence.pos) if pos == "NOUN"))


def first_nouns(annotation: Annotation) -> list[str]:
    """The nouns of a caption's first sentence."""
    return nouns(first(annotation))
