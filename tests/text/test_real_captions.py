"""How many real captions each rule covers."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from compclip.text import replace, shuffle, swap
from compclip.text.annotate import annotate


@pytest.fixture(scope="module")
def captions(shared_data):
    """1,000 annotated captions of photographs."""
    coco = json.loads((shared_data / "coco" / "annotations" / "captions_val2017.json").read_text())["annotations"]
    with open(shared_data / "flickr8k" / "captions.txt", newline="") as file:
        texts = [a["caption"] for a in coco] + [row["caption"] for row in csv.DictReader(file)]
    chosen = np.random.default_rng(0).permutation(len(texts))[:1000]
    return annotate([texts[i] for i in chosen])


@pytest.mark.parametrize(("rule", "floor"), [(swap.negclip, 0.94), (replace.wordnet, 0.97), (shuffle.bigram, 1.0)])
def test_coverage(captions, rule, floor):
    made = [rule(a, np.random.default_rng(i)) for i, a in enumerate(captions)]
    assert np.mean([text is not None for text in made]) >= floor
    assert all(text is None or text.casefold() != a.text.casefold() for text, a in zip(made, captions, strict=True))


def test_clic_covers_nearly_all_pairs(captions):
    made = [swap.clic(a, b, np.random.default_rng(0)) for a, b in zip(captions, captions[1:], strict=False)]
    assert np.mean([text is not None for text in made]) > 0.99
