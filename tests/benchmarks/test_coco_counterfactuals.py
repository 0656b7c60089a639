"""COCO-Counterfactuals: the official JSON lines, one pool of both halves, a part of the pairs."""

import json

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import coco_counterfactuals

FILE = "c/examples.jsonl"


def line(key: str, caption_0: str = "a dog", caption_1: str = "a cat") -> dict:
    images = {f"image_{i}": f"{key}_img_{i}" for i in (0, 1)}
    return {"id": key, **images, "caption_0": caption_0, "caption_1": caption_1}


@pytest.fixture
def dump_lines(dump):
    return lambda *rows: dump(FILE, list(rows)).parent


def test_each_half_is_a_picture_with_its_caption(dump_lines, picture):
    picture("c/images/7_2_img_0.jpg")
    folder = dump_lines(line("7_2"))
    first, second = coco_counterfactuals.load(folder).records
    assert (first.id, first.images, first.texts) == ("7_2_0", (str(folder / "images/7_2_img_0.jpg"),), ("a dog",))
    assert (second.id, second.images, second.texts) == ("7_2_1", (str(folder / "images/7_2_img_1.jpg"),), ("a cat",))
    assert coco_counterfactuals.load(folder, images="there").images[0] == "there/7_2_img_0.jpg"


def test_all_pictures_and_captions_are_one_pool(dump_lines, embeddings):
    folder = dump_lines(line("1_0", "w", "x"), line("2_0", "y", "z"))
    at = {name: folder / f"{name}.jpg" for name in ("1_0_img_0", "1_0_img_1", "2_0_img_0", "2_0_img_1")}
    # the first pair is right among its own two; a caption of the other pair is nearer to its second picture
    images = dict(zip(at.values(), ([1, 0, 0], [0, 1, 0], [0, 0.8, 0.6], [0, 0, 1]), strict=True))
    texts = {"w": [1, 0, 0], "x": [0, 0.9, 0], "y": [0, 1, 0.1], "z": [0, 0, 1]}
    result = coco_counterfactuals.load(folder).score(embeddings(images, texts))
    assert result.items["i2t_recall_at_1"].ids == ("1_0_0", "1_0_1", "2_0_0", "2_0_1")
    assert result.items["i2t_recall_at_1"].values.tolist() == [1, 0, 1, 1]
    assert result.items["t2i_recall_at_1"].values.tolist() == [1, 1, 0, 1]
    assert result.metrics["i2t_recall_at_5"] == 1.0 and result.metrics["t2i_recall_at_1"] == 0.75


def test_a_line_separator_in_a_caption_ends_no_line(dump):
    folder = dump(FILE, json.dumps(line("1_0", caption_1="a\u2028cat"), ensure_ascii=False)).parent
    assert coco_counterfactuals.load(folder).texts == ["a dog", "a\u2028cat"]


def test_a_part_of_the_pairs_is_spread_over_the_file_and_the_rest_counted(dump_lines):
    folder = dump_lines(*(line(f"{key}_0") for key in range(7)))
    sampled = coco_counterfactuals.load(folder, split="3")
    assert [record.id for record in sampled.records] == ["0_0_0", "0_0_1", "2_0_0", "2_0_1", "4_0_0", "4_0_1"]
    assert sampled.dropped == {"not_drawn": 8}
    everything = coco_counterfactuals.load(folder)
    assert everything.dropped == {"not_drawn": 0} and len(everything) == 14
    for wrong in ("0", "8", "test"):
        with pytest.raises(UserError, match=rf"split='{wrong}': must be a number of pairs, 1 to 7"):
            coco_counterfactuals.load(folder, split=wrong)
