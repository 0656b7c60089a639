"""VisMin: rows as they are released today, whose captions and pictures compare straight; older answers are refused."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import vismin

STRAIGHT = "T0_I0 > T1_I0 & T1_I1 > T0_I1,T0_I0 > T0_I1 & T1_I1 > T1_I0"
CROSSED = "T1_I0 > T0_I0 & T0_I1 > T1_I1,T0_I1 > T0_I0 & T1_I0 > T1_I1"
CATEGORIES = ("object", "object", "spatial relation")


@pytest.fixture
def folder(dump):
    rows = [{"id": str(i), "image_0": f"{i}a.png", "image_1": f"{i}b.png", "text_0": "x", "text_1": "y", "category": c}
            for i, c in enumerate(CATEGORIES)]  # fmt: skip
    return dump("v/test.jsonl", rows).parent


def answers(*pairings: str) -> str:
    lines = (f"{number},{pairing},object" for number, pairing in enumerate(pairings))
    return "\n".join(["idx,Text,Image,category", *lines]) + "\n"


def test_pictures_stand_in_the_order_of_the_rows(folder):
    """As `eval.py` and `metric.py` of the release compare them, which read no answers."""
    picture_names = [[image.rpartition("/")[2] for image in record.images] for record in vismin.load(folder).records]
    assert picture_names == [["0a.png", "0b.png"], ["1a.png", "1b.png"], ["2a.png", "2b.png"]]


def test_scores_by_category_and_their_means(folder, embeddings):
    first, second = [1, 0], [0, 1]
    images = {"0a": first, "0b": second, "1a": first, "1b": first, "2a": first, "2b": second}
    vectors = {folder / f"{name}.png": vector for name, vector in images.items()}
    result = vismin.load(folder).score(embeddings(vectors, {"x": [1, 0], "y": [0, 1]}))
    assert result.items["object_group"].values.tolist() == [1, 0]
    assert result.metrics["spatial_relation_group"] == 1.0
    assert result.metrics["group"] == pytest.approx(0.75)


@pytest.mark.parametrize("answer_file", ["sim_solution.csv", "solutions/sim_solution.csv"])
def test_answers_of_the_mixed_release_are_refused(folder, dump, answer_file):
    """With today's rows they would turn half of the pairs round: a perfect model's group score would be a third."""
    dump(f"v/{answer_file}", answers(STRAIGHT, CROSSED, CROSSED))
    with pytest.raises(UserError, match=r"2 of 3 answers are crossed: .* of November 2024, .* remove this file"):
        vismin.load(folder)
