"""Intervals of a result document's own numbers: over pictures, of metrics and of means of metrics."""

import numpy as np
import pytest

from compclip.evaluate import compare
from compclip.report.statistics import student_quantile


def make_document(units):
    outcomes = [1, 1, 0, 0, 1, 0]
    ids = list(map(str, range(6)))
    items = {m: {"ids": ids, "outcomes": outcomes} for m in ("a", "b")}
    metrics = {"a": 0.5, "b": 0.5, "both": 0.5}
    return {"benchmark": "x", "metrics": metrics, "means": {"both": ["a", "b"]}, "items": items, "counts": {},
            "units": dict.fromkeys(items, units) if units else {}}  # fmt: skip


def test_an_interval_is_over_pictures():
    """Three pictures of two items each, both right, both wrong, one of each; two equal metrics tell no more than one."""
    intervals = compare.compute_intervals(make_document([0, 0, 1, 1, 2, 2]))
    half = student_quantile(2) * np.std([1, 0, 0.5], ddof=1) / 3**0.5
    assert intervals["a"] == pytest.approx((0.5 - half, 0.5 + half)) == intervals["both"]


def test_without_units_each_item_counts_and_one_picture_has_no_interval():
    alone = compare.compute_intervals(make_document(None))["a"]
    assert alone[1] - 0.5 == pytest.approx(student_quantile(5) * np.std([1, 1, 0, 0, 1, 0], ddof=1) / 6**0.5)
    assert compare.compute_intervals(make_document([0] * 6)) == {}
