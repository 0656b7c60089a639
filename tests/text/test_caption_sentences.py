"""The sentences that training takes of a caption."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import annotation, caption_sentences
from compclip.text.spacy_parser import annotate


@given(st.lists(st.integers(1, 40), min_size=0, max_size=5))
def test_the_first_sentence_is_the_first_of_all(lengths):
    """Whether or not any of them has 4 to 34 words."""
    parts = [" ".join(["word"] * n) + "." for n in lengths]
    starts = np.cumsum([0, *(len(p) + 1 for p in parts)]).tolist()
    spans = tuple((start, start + len(part)) for start, part in zip(starts, parts, strict=False))
    output = annotation.Annotation(" ".join(parts), sentences=spans)
    assert caption_sentences.first(output) == caption_sentences.split(output)[0]


def test_nouns_are_those_of_the_first_kept_sentence():
    """Each once, as written but for its case; "Dogs." has too few words to be kept."""
    (caption,) = annotate(["Dogs. The dog sees a DOG and two cats. A horse sleeps in a field."], replacements=False)
    assert caption_sentences.first_nouns(caption) == ["dog", "cats"]
    assert caption_sentences.first_nouns(annotation.Annotation("")) == []
