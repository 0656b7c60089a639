"""Texts of parts of what is said of a picture: one to three sentences of it (FLAIR, Sec. 3.1, "diverse sampling")."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from compclip.text.annotation import Annotation
from compclip.text.rule_columns import reads_columns

MOST = 3  # sentences of a text, as released
PIECE_END = re.compile(r"\n|</s>|[.]")  # src/flair/data.py:26


@reads_columns("sentences", "stored_dense")
def draw(annotation: Annotation, rng: np.random.Generator) -> str:
    """Draw one to three sentences of a caption and of the dense texts stored beside it, joined by spaces.

    Half of those of several sentences are consecutive, the others are from anywhere, each once where there are enough.
    """
    sentences = [annotation.text[begin:end] for begin, end in annotation.sentences] or [annotation.text]
    sentences += annotation.stored.get("dense", ())
    return " ".join(_choose(sentences, rng, spare=1))


@reads_columns("stored_dense")
def draw_released(annotation: Annotation, rng: np.random.Generator) -> str:
    """Draw one to three pieces of the same texts as FLAIR's program does, joined by full stops (src/flair/data.py:146).

    Pieces end at line ends, "</s>" and every full stop, those of numbers too. Consecutive ones never hold the last
    piece, unless no more are there than are asked for.
    """
    texts = "\n".join((annotation.text, *annotation.stored.get("dense", ())))
    pieces = [piece.strip() for piece in PIECE_END.split(texts) if piece.strip()]
    return ". ".join(_choose(pieces or [annotation.text], rng, spare=0))


def _choose(pieces: Sequence[str], rng: np.random.Generator, spare: int) -> list[str]:
    """Choose one to three pieces; of consecutive ones the first is one of `len(pieces) - count + spare`."""
    count = int(rng.integers(1, MOST + 1))
    available = len(pieces)
    if count > 1 and rng.random() < 0.5:
        start = int(rng.integers(max(1, available - count + spare)))
        return list(pieces[start : start + count])
    return [pieces[i] for i in rng.choice(available, size=count, replace=available < count)]
