"""NegBench: the authors' tables, choices by their kinds of answer, and retrieval in pools of their own."""

import pytest

from compclip.benchmarks import negbench
from tests.benchmarks.official_files import table

MCQ = ("image_path", "caption_0", "caption_1", "caption_2", "caption_3", "correct_answer", "correct_answer_template")
QUESTIONS = [
    ("data/coco/images/val2017/1.jpg", "x", "a", "b", "c", "0", "positive"),
    ("data/coco/images/val2017/2.jpg", "a", "b", "y", "c", "2", "negative"),
    ("data/coco/images/val2017/2.jpg", "x", "a", "b", "c", "3", "hybrid"),
]
POOL = [("data/coco/images/val2017/1.jpg", "['x', 'x too']"), ("data/coco/images/val2017/2.jpg", '["y"]'),
        ("data/coco/images/val2017/3.jpg", "[' ']")]  # fmt: skip
VECTORS = {"x": [1, 0], "y": [0, 1], "a": [0.1, 0.1], "b": [0.1, 0.2], "c": [0.2, 0.1], "x too": [0.5, 0.6]}


@pytest.fixture
def folder(dump, picture):
    picture("n/images/val2017/1.jpg")
    picture("n/images/2.jpg")
    for name in ("coco_mcq", "voc2007_mcq"):
        dump(f"n/{negbench.FILES[name]}", table(MCQ, *QUESTIONS))
    for name in ("coco_retrieval", "coco_negated_retrieval"):
        dump(f"n/{negbench.FILES[name]}", table(("", "filepath", "captions"), *((7, *row) for row in POOL)))
    return dump("n/other.txt", "").parent


@pytest.fixture
def scored(folder, embeddings):
    benchmark = negbench.load(folder)
    at = folder / "images"
    return benchmark.score(embeddings({at / "val2017/1.jpg": [1, 0], at / "2.jpg": [0, 1]}, VECTORS))


def test_the_answer_stands_in_front_and_pictures_are_found_at_the_end_of_their_paths(folder):
    first, second, third = negbench.load(folder, split="coco_mcq").records
    assert (first.texts, second.texts, third.texts) == (
        ("x", "a", "b", "c"), ("y", "a", "b", "c"), ("c", "x", "a", "b"))  # fmt: skip
    assert first.images == (str(folder / "images/val2017/1.jpg"),)
    assert second.images == (str(folder / "images/2.jpg"),)


def test_choices_whole_and_by_the_kind_of_their_answer(scored):
    assert scored.items["coco_mcq"].values.tolist() == [1, 1, 0]
    kinds = [scored.metrics[f"voc2007_mcq_{kind}"] for kind in negbench.TEMPLATES]
    assert kinds == [1.0, 1.0, 0.0]


def test_retrieval_in_its_own_pool(scored):
    """`x too` is nearer to the second picture; a picture without a caption is left out and counted."""
    assert scored.items["coco_negated_retrieval_t2i_recall_at_1"].values.tolist() == [1, 0, 1]
    assert scored.items["coco_retrieval_i2t_recall_at_1"].values.tolist() == [1, 1]
    assert scored.counts["image_without_caption"] == 2


def test_two_captions_about_an_x_ray(folder, dump, embeddings):
    """No column of templates; the answer may be the second caption."""
    rows = [("xray/2.jpg", "shows it", "does not", "1"), ("xray/2.jpg", "x", "a", "0")]
    header = ("image_path", "caption_0", "caption_1", "correct_answer")
    dump("n/chexpert_binary_mcq.csv", table(header, *rows))
    benchmark = negbench.load(folder, split="chexpert_binary_mcq")
    assert [record.texts for record in benchmark.records] == [("does not", "shows it"), ("x", "a")]
    vectors = VECTORS | {"does not": [0, 1], "shows it": [1, 0]}
    result = benchmark.score(embeddings({folder / "images/2.jpg": [0, 1]}, vectors))
    assert result.metrics == {"chexpert_binary_mcq": 0.5}
