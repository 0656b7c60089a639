"""CC-Neg: captions against negated ones, the end of the list for evaluation."""

import pytest

from compclip.benchmarks import cc_neg

ROWS = [{"image": f"x/{n}.jpg", "caption": f"c{n}", "negative": f"no, c{n}"} for n in range(3)]


@pytest.fixture
def folder(dump, monkeypatch):
    monkeypatch.setattr(cc_neg, "HELD_OUT", 2)
    return dump("c/ccneg.jsonl", ROWS).parent


def texts(folder, split=""):
    return [record.texts for record in cc_neg.load(folder, folder, split).records]


def test_the_last_rows_are_for_evaluation(folder):
    """Without the commas of negated captions."""
    assert texts(folder) == texts(folder, "test") == [("c1", "no c1"), ("c2", "no c2")]
    assert texts(folder, "train") == [("c0", "no c0")] and len(texts(folder, "all")) == 3
    assert cc_neg.load(folder).records[0].id == "2"  # its line
