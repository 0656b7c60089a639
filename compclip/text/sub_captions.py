"""Texts of parts of what is said of a picture: one to three sentences of it (FLAIR, Sec. 3.1, "diverse sampling")."""

from __future__ import annotations

import numpy as np

from compclip.text.annotation import Annotation

MOST = 3  # sentences of a text, as released


def draw(annotation: Annotation, rng: np.random.Generator) -> str:
    """Draw one to three sentences of a caption and of the dense texts stored beside it, joined by spaces.

    Half of those of several sentences are consecutive, the others are from anywhere, each once where there are enough.
    """
    sentences = [annotation.text[begin:end] for begin, end in annotation.sentences] or [annotation.text]
    sentences += annotation.stored.get("dense", ())
    count, available = int(rng.integers(1, MOST + 1)), len(sentences)
    consecutive = count > 1 and rng.random() < 0.5
    if consecutive:
        start = int(rng.integers(max(1, available - count + 1)))
        chosen = sentences[start : start + count]
    else:
        chosen = [sentences[i] for i in rng.choice(available, size=count, replace=available < count)]
    return " ".join(chosen)
