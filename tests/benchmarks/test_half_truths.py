"""Half-Truths: a wrong detail must cost, and a right one must pay."""

import pytest

from compclip.benchmarks import half_truths


def row(number: int, kind: str) -> dict:
    texts = {name: f"{name} {number}" for name in half_truths.TEXTS}
    return {"id": f"q{number}", "image": f"{number}.jpg", "triplet_type": kind} | texts


@pytest.fixture
def folder(dump, picture):
    picture("h/images/0.jpg")
    rows = [row(0, "entity"), row(1, "entity"), row(2, "relation")]
    return dump("h/coco_qwen.jsonl", rows).parent


def test_accuracy_order_and_kinds(folder, embeddings):
    benchmark = half_truths.load(folder)
    scores = {0: (2, 1, 3), 1: (2, 1, 2), 2: (1, 2, 3)}  # anchor, half, full: right and ordered, right, wrong
    texts = {}
    for n, heights in scores.items():
        for name, height in zip(half_truths.TEXTS, heights, strict=True):
            texts[f"{name} {n}"] = [height, 0]
    result = benchmark.score(embeddings({image: [1, 0] for image in benchmark.images}, texts))
    assert result.items["coco_qwen"].values.tolist() == [1, 1, 0]
    assert result.items["coco_qwen_ordered"].values.tolist() == [1, 0, 0]  # the second's right detail is a tie
    assert result.metrics["coco_qwen_entity"] == 1.0 and result.metrics["coco_qwen_ordered_entity"] == 0.5
    assert result.items["coco_qwen_relation"].ids == ("q2",)
