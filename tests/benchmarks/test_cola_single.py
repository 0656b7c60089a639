"""Cola's single objects: average precision of a class among hard pictures."""

import numpy as np
import pytest

from compclip.benchmarks import cola_single
from compclip.benchmarks.cola_single import average_precision

CLASSES = ["square plate", "red cup"]
ROWS = [["vg/1.jpg", {"plate": ["square"]}, [1, 0], [1, 1]], ["vg/2.jpg", {}, [0, 1], [1, 0]],
        ["vg/3.jpg", {}, [1, 0], [1, 0]]]  # fmt: skip


@pytest.fixture
def folder(dump):
    dump("c/COLA_singleobjects_benchmark_PACO.json", [CLASSES, [[row[0], *row[2:]] for row in ROWS]])
    return dump("c/COLA_singleobjects_benchmark_GQA.json", {"labels": CLASSES, "data": ROWS}).parent


def test_precision_by_hand():
    """Hits at ranks 1 and 3: (1 + 2/3) / 2. Equals are one threshold: both of two, one a hit, 1/2."""
    assert average_precision(np.array([9, 8, 7, 1]), np.array([1, 0, 1, 0], bool)) == pytest.approx(5 / 6)
    assert average_precision(np.array([5, 5]), np.array([0, 1], bool)) == 0.5
    assert average_precision(np.array([5, 4]), np.array([0, 0], bool)) == 0.0


def slow(score_N, shown_N):
    """At each different score: its precision times what it adds to recall."""
    total, before = 0.0, 0
    for threshold in sorted(set(score_N.tolist()), reverse=True):
        chosen = [is_shown for score, is_shown in zip(score_N, shown_N, strict=True) if score >= threshold]
        total += sum(chosen) / len(chosen) * (sum(chosen) - before) / sum(shown_N)
        before = sum(chosen)
    return total


@pytest.mark.parametrize("digits", [0, 1, 6])
def test_precision_in_loops(digits):
    rng = np.random.default_rng(digits)
    for _ in range(20):
        score_N, shown_N = np.round(rng.normal(size=15), digits), rng.random(15) < 0.4
        shown_N[0] = True
        assert average_precision(score_N, shown_N) == pytest.approx(slow(score_N, shown_N))


def test_both_forms_and_rows_without_annotations(folder):
    benchmark = cola_single.load(folder, split="gqa,paco")
    assert benchmark.texts == CLASSES and len(benchmark) == 6
    assert [record.images for record in benchmark.records[:3]] == [(str(folder / f"{n}.jpg"),) for n in (1, 2, 3)]


def test_among_hard_pictures_alone(folder, embeddings):
    """The plate finds 1, 2, 3 in this order; the cup is shown by no hard picture, so that nothing is found."""
    benchmark = cola_single.load(folder, split="gqa")
    vectors = dict(zip(benchmark.images, ([3, 1], [2, 1], [1, 1]), strict=True))
    items = benchmark.score(embeddings(vectors, {"square plate": [1, 0], "red cup": [0, 1]})).items["gqa"]
    assert items.ids == ("0", "1") and items.values.tolist() == pytest.approx([5 / 6, 0.0])
