"""Intervals of a result document's own numbers: over pictures, of metrics and of means of metrics."""

import numpy as np
import pytest

from compclip.evaluate import compare
from compclip.report.statistics import student_quantile


def make_document(units, repeats=4):
    outcomes = [1, 1, 0, 0, 1, 0] * repeats
    ids = list(map(str, range(len(outcomes))))
    items = {m: {"ids": ids, "outcomes": outcomes} for m in ("a", "b")}
    metrics = {"a": 0.5, "b": 0.5, "both": 0.5}
    return {"benchmark": "x", "metrics": metrics, "means": {"both": ["a", "b"]}, "items": items, "counts": {},
            "scores": {}, "units": dict.fromkeys(items, units) if units else {}}  # fmt: skip


def test_an_interval_is_over_pictures():
    """Pictures of two items each: both right, both wrong, one of each; two equal metrics tell no more than one."""
    intervals = compare.compute_intervals(make_document([item // 2 for item in range(24)]))
    half = student_quantile(11) * np.std([1, 0, 0.5] * 4, ddof=1) / 12**0.5
    assert intervals["a"] == pytest.approx((0.5 - half, 0.5 + half)) == intervals["both"]


def test_without_units_each_item_counts_and_one_picture_has_no_interval():
    alone = compare.compute_intervals(make_document(None))["a"]
    assert alone[1] - 0.5 == pytest.approx(student_quantile(23) * np.std([0, 1] * 12, ddof=1) / 24**0.5)
    assert compare.compute_intervals(make_document([0] * 24)) == {}


def test_an_interval_ends_where_the_metric_does():
    """Six items alone would reach from -7 to 107 %; a cosine has no end at 0."""
    document = make_document(None, repeats=1)
    assert compare.compute_intervals(document)["a"] == (0, 1)
    assert compare.compute_intervals({**document, "scores": {"a": "cosine"}})["a"][0] < 0
