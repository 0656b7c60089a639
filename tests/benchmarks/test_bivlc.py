"""BiVLC: the hub's columns, seven outcomes, and the pools by type and over all."""

import pytest

from compclip.benchmarks import bivlc


def row(number: int, kind: str, **overrides) -> dict:
    return {"image": f"{number}.jpg", "negative_image": f"n{number}.png", "caption": "x", "negative_caption": "y",
            "type": kind, "subtype": "obj"} | overrides  # fmt: skip


@pytest.fixture
def folder(dump, picture):
    picture("b/images/0.jpg")
    rows = [row(0, "add"), row(1, "replace"), row(2, "replace")]
    return dump("b/test.jsonl", rows).parent


def test_seven_outcomes(folder, embeddings):
    at = folder / "images"
    images = {
        at / "0.jpg": [1, 0], at / "n0.png": [0, 1],  # all right
        at / "1.jpg": [1, 0], at / "n1.png": [3, 2],  # the second picture is nearest to both captions, and nearer to x
        at / "2.jpg": [1, 0], at / "n2.png": [2, 3],  # both captions are nearer to the second picture
    }  # fmt: skip
    result = bivlc.load(folder).score(embeddings(images, {"x": [1, 0], "y": [0, 1]}))
    outcomes = {name: result.items[name].values.tolist() for name in ("i2t", "t2i", "group", *bivlc.CHOICES)}
    assert outcomes == {
        "i2t": [1, 0, 1], "t2i": [1, 0, 0], "group": [1, 0, 0], "image_pos": [1, 1, 1], "image_neg": [1, 0, 1],
        "text_pos": [1, 0, 0], "text_neg": [1, 1, 1],
    }  # fmt: skip
    assert result.metrics["replace_i2t"] == 0.5 and result.metrics["add_group"] == 1.0
    assert result.metrics["t2i"] == pytest.approx(1 / 3)  # over the records, not over the types
    assert result.items["i2t"].ids == ("add/0", "replace/1", "replace/2")
