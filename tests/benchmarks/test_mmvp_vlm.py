"""MMVP-VLM: the hub's table and folders, pairs of one pattern, the authors' accuracy."""

import pytest

from compclip.benchmarks import mmvp_vlm

HEADER = "Question ID,Type,Statement\n"
ROWS = """1,Orientation and Direction,a dog facing left
2,Orientation and Direction,"a dog, facing right"
3,Orientation and Direction,a cup upright
4,Orientation and Direction,a cup upside down
241,Camera Perspective,from above
242,Camera Perspective,from below
"""


@pytest.fixture
def folder(dump, picture):
    picture("m/MLLM_VLM Images/Orientation and Direction/1.jpg")
    return dump("m/Questions.csv", HEADER + ROWS).parent


def test_pairs_their_prompts_and_places(folder):
    first, _, third = mmvp_vlm.load(folder).records
    assert first.texts == ("a photo of a dog facing left", "a photo of a dog, facing right")
    assert first.images[1] == str(folder / "MLLM_VLM Images/Orientation and Direction/2.jpg")
    assert (first.subset, first.id, third.subset, third.id) == ("orientation", "1", "viewpoint", "241")


def test_a_pair_is_right_where_each_statement_chooses_its_picture(folder, embeddings):
    benchmark = mmvp_vlm.load(folder)
    right, half, third = benchmark.records
    images = {right.images[0]: [1, 0], right.images[1]: [0, 1], half.images[0]: [1, 0], half.images[1]: [1, 2],
              third.images[0]: [1, 0], third.images[1]: [0, 1]}  # fmt: skip
    texts = {text: [1 - i, i] for record in benchmark.records for i, text in enumerate(record.texts)}
    result = benchmark.score(embeddings(images, texts))
    # of `half`, statement 1 gets 1 from both pictures: a tie
    assert result.items["orientation_image"].values.tolist() == [1, 0]
    assert result.items["orientation_text"].values.tolist() == [1, 1]
    assert result.items["viewpoint_group"].values.tolist() == [1]
    assert "image" not in result.metrics  # a mean over nine patterns, of which two are there


def test_all_nine_patterns_have_a_mean(dump, embeddings):
    kinds = ("Orientation", "Presence", "State", "Quantity", "Spatial", "Color", "Structural Character", "Text",
             "Camera Perspective")  # fmt: skip
    rows = "".join(f"{2 * i + 1 + j},{kind},s{i}{j}\n" for i, kind in enumerate(kinds) for j in (0, 1))
    benchmark = mmvp_vlm.load(dump("m/Questions.csv", HEADER + rows).parent)
    vectors = {record.images[i]: [1 - i, i] for record in benchmark.records for i in (0, 1)}
    texts = {text: [1 - i, i] for record in benchmark.records for i, text in enumerate(record.texts)}
    wrong = benchmark.records[0]
    result = benchmark.score(embeddings(vectors | {wrong.images[0]: [0, 2]}, texts))
    assert result.metrics["group"] == pytest.approx(8 / 9)
