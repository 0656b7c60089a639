"""Winoground: the official JSON lines and the three scores."""

import pytest

from compclip.benchmarks import winoground


def line(key: int) -> dict:
    return {"id": key, "image_0": f"ex_{key}_img_0", "image_1": f"ex_{key}_img_1", "caption_0": "x", "caption_1": "y",
            "tag": "Adjective", "collapsed_tag": "Object"}  # fmt: skip


@pytest.fixture
def folder(dump, picture):
    picture("w/images/ex_0_img_0.png")
    return dump("w/examples.jsonl", [line(key) for key in range(3)]).parent


def test_text_image_and_group(folder, embeddings):
    at = folder / "images"
    images = {
        at / "ex_0_img_0.png": [1, 0], at / "ex_0_img_1.png": [0, 1],  # all right
        at / "ex_1_img_0.png": [1, 0], at / "ex_1_img_1.png": [2, 3],  # x is nearer to the second image
        at / "ex_2_img_0.png": [1, 0], at / "ex_2_img_1.png": [1, 0],  # the same image twice
    }  # fmt: skip
    result = winoground.load(folder).score(embeddings(images, {"x": [1, 0], "y": [0, 1]}))
    assert result.items["text"].values.tolist() == [1, 1, 0]
    assert result.items["image"].values.tolist() == [1, 0, 0]
    assert result.items["group"].values.tolist() == [1, 0, 0]
    assert result.metrics["text"] == pytest.approx(2 / 3)
