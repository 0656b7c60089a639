"""The sentences that training takes of a caption."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compclip.text import annotation, kept
from compclip.text.annotate import annotate


@given(st.lists(st.integers(1, 40), min_size=0, max_size=5))
def test_the_first_sentence_is_the_first_of_all(lengths):
    """Whether or not any of them has 4 to 34 words."""
    parts = [" ".join(["word"] * n) + "." for n in lengths]
    starts = np.cumsum([0, *(len(p) + 1 for p in parts)]).tolist()
    spans = tuple((start, start + len(part)) for start, part in zip(starts, parts, strict=False))
    made = annotation.Annotation(" ".join(parts), sentences=spans)
    assert kept.first(made) == kept.split(made)[0]


def test_nouns_are_those_of_the_first_kept_sentence():
    """Each once, as written but for its case; "Dogs." has too few words to be kept."""
    (caption,) = annotate(["Dogs. The dog sees a DOG and two cats. A horse sleeps in a field."], replacements=False)
    assert kept.first_nouns(caption) == ["dog", "cats"]
    assert kept.first_nouns(annotation.Annotation("")) == []
