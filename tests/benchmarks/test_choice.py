"""A query and its candidates: records of different lengths, ties, NaN, missing images."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compclip.benchmarks import _choice
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

IMAGES = {"i0": [1.0, 0.0], "i1": [0.0, 1.0], "i2": [0.6, 0.8]}
TEXTS = {"t0": [1.0, 0.0], "t1": [0.0, 1.0], "t2": [0.8, 0.6]}


def test_an_image_chooses_among_texts(embeddings):
    records = [Record("a", "0", ("i0",), ("t0", "t1", "t2")), Record("a", "1", ("i1",), ("t2", "t1")),
               Record("b", "2", ("i0",), ("t0", "t0")), Record("b", "3", ("gone",), ("t0", "t1"))]  # fmt: skip
    result = _choice.choose(records, embeddings(IMAGES, TEXTS, {"gone": "missing"}))
    assert result["a"].values.tolist() == [1, 0] and result["a"].ids == ("0", "1")
    assert result["b"].values.tolist() == [0] and result["b"].ids == ("2",)


def test_a_text_chooses_among_images(embeddings):
    records = [Record("a", "0", ("i1", "i0", "i2"), ("t1",)), Record("a", "1", ("i2", "i0"), ("t0",)),
               Record("a", "2", ("i0", "gone"), ("t0",))]  # fmt: skip
    result = _choice.choose(records, embeddings(IMAGES, TEXTS, {"gone": "missing"}))
    assert result["a"].values.tolist() == [1, 0] and result["a"].ids == ("0", "1")


SCORES = {  # of the match and the others: how many of these stand ahead; right; right where ties go to the first; tied
    "above all": ([0.5, 0.4, 0.3], 1, True, True, False),
    "below one": ([0.5, 0.4, 0.6], 0, False, False, False),
    "equal to one behind": ([0.5, 0.4, 0.5], 1, False, True, True),
    "equal to one ahead": ([0.5, 0.5, 0.4], 1, False, False, True),
    "equal to one ahead and one behind": ([0.5, 0.5, 0.5], 1, False, False, True),
    "equal to all, and first": ([0.5, 0.5, 0.5], 0, False, True, True),
    "equal to one, below another": ([0.5, 0.5, 0.6], 0, False, False, False),
    "against NaN": ([0.5, np.nan], 0, False, False, False),
    "NaN": ([np.nan, 0.1], 0, False, False, False),
    "alone": ([0.5], 0, True, True, False),
}


def test_scores_decide_by_hand():
    """All records in one go, as they are scored, so that none takes its neighbour's candidates."""
    scores_S = np.concatenate([scores for scores, *_ in SCORES.values()])
    length_N = np.array([len(scores) for scores, *_ in SCORES.values()])
    ahead_N = np.array([ahead for _, ahead, *_ in SCORES.values()])
    for first, column_index in ((False, 2), (True, 3)):
        right_N, tied_N = _choice.decide(scores_S, length_N, ahead_N, first)
        result = dict(zip(SCORES, zip(right_N.tolist(), tied_N.tolist(), strict=True), strict=True))
        assert result == {name: (case[column_index], case[4]) for name, case in SCORES.items()}


coarse = st.sampled_from([0.0, 0.5, 1.0, np.nan])


@given(st.lists(st.tuples(st.lists(coarse, min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=5))
def test_the_first_of_equals_is_what_argmax_gives(cases):
    """In the authors' order, where the match is behind those ahead of it; NaN is never right."""
    cases = [(scores, min(ahead, len(scores) - 1)) for scores, ahead in cases]
    scores_S = np.concatenate([scores for scores, _ in cases])
    length_N, ahead_N = np.array([len(scores) for scores, _ in cases]), np.array([ahead for _, ahead in cases])
    right_N, _ = _choice.decide(scores_S, length_N, ahead_N, first=True)
    for (scores, ahead), right in zip(cases, right_N, strict=True):
        theirs = [*scores[1 : ahead + 1], scores[0], *scores[ahead + 1 :]]
        assert right == (not np.isnan(scores).any() and int(np.argmax(theirs)) == ahead)


def test_ties_go_to_the_first_unless_the_authors_compare_strictly(embeddings):
    records = [Record("a", "0", ("i0",), ("t0", "t0")), Record("a", "1", ("i0",), ("t0", "t0"), ahead=1),
               Record("a", "2", ("i0",), ("t0", "t1")), Record("a", "3", ("i0",), ("t1", "t0"))]  # fmt: skip
    wrong = embeddings(IMAGES, TEXTS)
    first = replace(wrong, ties="first")
    cases = ((wrong, False, [0, 0, 1, 0]), (first, False, [1, 0, 1, 0]), (first, True, [0, 0, 1, 0]))
    for embedded, strict, values in cases:
        result = _choice.choose(records, embedded, strict)["a"]
        assert result.values.tolist() == values and result.tied == ("0", "1")


def test_a_text_s_ties_go_to_the_first_picture(embeddings):
    records = [Record("a", str(ahead), ("i1", "i0", "same", "i2"), ("t1",), ahead) for ahead in (1, 2)]
    embedded = replace(embeddings(IMAGES | {"same": IMAGES["i1"]}, TEXTS), ties="first")
    assert _choice.choose(records, embedded)["a"].values.tolist() == [1, 0], "same is behind i1, then ahead of it"


def test_wrong_texts_that_repeat_the_caption_are_left_out():
    records = [Record("a", "0", ("i",), ("A man's hat.", "a man 's hat.", "a hat's man.")),
               Record("a", "1", ("i",), ("t0", "T0", "t0 ")), Record("a", "2", ("i",), ("t0", "t1", "t1", ""))]  # fmt: skip
    with_foils, counts = _choice.with_foils(records)
    assert [record.texts for record in with_foils] == [("A man's hat.", "a hat's man."), ("t0", "t1", "t1", "")]
    assert counts == {"foil_is_caption": 3, "without_foil": 1}


def test_where_ties_go_to_the_first_the_authors_records_count():
    records = (Record("a", "0", ("i",), ("A man's hat.", "a man 's hat.")), Record("a", "1", ("i",), ("t0", "t1")))
    authors = Benchmark(records, (), _choice.choose, dropped={"other": 2}, kind=COMPOSITION)
    ours = _choice.without_repeats(authors)
    assert ours.counted("wrong") is ours and ours.counted("first") is authors
    assert [record.id for record in ours.records] == ["1"] and authors.dropped == {"other": 2}
    assert ours.dropped == {"foil_is_caption": 1, "without_foil": 1, "other": 2}
    assert authors.counted("first") is authors, "a benchmark that leaves nothing out is its authors'"
