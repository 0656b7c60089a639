"""A query and its candidates: records of different lengths, ties, NaN, missing images."""

from __future__ import annotations

import numpy as np
import pytest

from compclip.benchmarks import _choice
from compclip.evaluate.benchmark import Record

IMAGES = {"i0": [1.0, 0.0], "i1": [0.0, 1.0], "i2": [0.6, 0.8]}
TEXTS = {"t0": [1.0, 0.0], "t1": [0.0, 1.0], "t2": [0.8, 0.6]}


def test_an_image_chooses_among_texts(embeddings):
    records = [Record("a", "0", ("i0",), ("t0", "t1", "t2")), Record("a", "1", ("i1",), ("t2", "t1")),
               Record("b", "2", ("i0",), ("t0", "t0")), Record("b", "3", ("gone",), ("t0", "t1"))]  # fmt: skip
    found = _choice.of_texts(records, embeddings(IMAGES, TEXTS, {"gone": "missing"}))
    assert found["a"].values.tolist() == [1, 0] and found["a"].ids == ("0", "1")
    assert found["b"].values.tolist() == [0] and found["b"].ids == ("2",)


def test_a_text_chooses_among_images(embeddings):
    records = [Record("a", "0", ("i1", "i0", "i2"), ("t1",)), Record("a", "1", ("i2", "i0"), ("t0",)),
               Record("a", "2", ("i0", "gone"), ("t0",))]  # fmt: skip
    found = _choice.of_images(records, embeddings(IMAGES, TEXTS, {"gone": "missing"}))
    assert found["a"].values.tolist() == [1, 0] and found["a"].ids == ("0", "1")


@pytest.mark.parametrize(("scores", "wins"), [
    ([0.5, 0.4, 0.3], True), ([0.5, 0.5], False), ([0.5, np.nan], False), ([np.nan, 0.1], False), ([0.5], True)])  # fmt: skip
def test_ties_and_nan_are_wrong(scores, wins):
    assert _choice.first_wins(np.array(scores)) is wins


def test_wrong_texts_that_repeat_the_caption_are_left_out():
    records = [Record("a", "0", ("i",), ("A man's hat.", "a man 's hat.", "a hat's man.")),
               Record("a", "1", ("i",), ("t0", "T0", "t0 ")), Record("a", "2", ("i",), ("t0", "t1", "t1", ""))]  # fmt: skip
    kept, counts = _choice.with_foils(records)
    assert [record.texts for record in kept] == [("A man's hat.", "a hat's man."), ("t0", "t1", "t1", "")]
    assert counts == {"foil_is_caption": 3, "without_foil": 1}
