"""Select the sentences of an annotated caption that training uses: those of 4 to 34 words, or all (CLIC B.1)."""

from __future__ import annotations

from compclip.text import sentence_splitter
from compclip.text.annotation import Annotation

UNCHANGED_ENDS, CLIC_ENDS = "kept", "clic"  # how sentences end: as they are, or as in CLIC's released code


def first(annotation: Annotation) -> Annotation:
    """Return the first sentence of `split` without making the others."""
    count = len(annotation.sentences)
    texts = (annotation.text[begin:end] for begin, end in annotation.sentences)
    fitting = (i for i, text in enumerate(texts) if sentence_splitter.has_training_length(text))
    return annotation.sentence(next(fitting, 0)) if count else annotation


def split(annotation: Annotation) -> tuple[Annotation, ...]:
    """Return the caption's sentences of 4 to 34 words (CLIC B.1) as annotations, or all sentences if none fits."""
    sentences = tuple(annotation.sentence(i) for i in range(len(annotation.sentences))) or (annotation,)
    return tuple(p for p in sentences if sentence_splitter.has_training_length(p.text)) or sentences


def nouns(sentence: Annotation) -> list[str]:
    """Return the nouns of a sentence in lower case, each once, in the order of the text."""
    return list(dict.fromkeys(sentence.word(t).casefold() for t, pos in enumerate(sentence.pos) if pos == "NOUN"))


def first_nouns(annotation: Annotation) -> list[str]:
    """Return the nouns of a caption's first sentence."""
    return nouns(first(annotation))


def join(first: str, second: str) -> str:
    """Join two sentences by a full stop and a space; a question or exclamation keeps its mark."""
    first = first.rstrip()
    if first.endswith(("!", "?")):
        return f"{first} {second}"
    return f"{first.rstrip('. ')}. {second}"


def join_ended(first: str, second: str) -> str:
    """Join two sentences as CLIC's released code does: each ends with a full stop, after any other mark."""
    return " ".join([text if text.endswith(".") else f"{text}." for text in (first.rstrip(), second.rstrip())])


def strip_full_stop(text: str) -> str:
    """Return a sentence without its full stop."""
    return text.rstrip().rstrip(".").rstrip()


JOINS = {UNCHANGED_ENDS: join, CLIC_ENDS: join_ended}
