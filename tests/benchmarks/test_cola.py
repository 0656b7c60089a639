"""Cola: the authors' list of addresses and captions; their accuracy is Winoground's image score."""

import pytest

from compclip.benchmarks import cola

AT = "https://cs-people.bu.edu/array/data/vg_gqa_images/"
ROWS = [[AT + "1.jpg", "x", AT + "2.jpg", "y"], [AT + "3.jpg", "x", AT + "4.jpg", "y"]]


@pytest.fixture
def folder(dump, picture):
    picture("c/images/1.jpg")
    return dump(f"c/{cola.FILE}", ROWS).parent


def test_each_caption_chooses_its_picture(folder, embeddings):
    at = folder / "images"
    images = {at / "1.jpg": [1, 0], at / "2.jpg": [0, 1], at / "3.jpg": [1, 0], at / "4.jpg": [2, 3]}
    result = cola.load(folder).score(embeddings(images, {"x": [1, 0], "y": [0, 1]}))
    assert result.items["image"].values.tolist() == [1, 0]
    assert result.items["text"].values.tolist() == [1, 1]
