"""FG-OVD: a part of a picture among descriptions, in LVIS' layout."""

import pytest

from compclip.benchmarks import fg_ovd
from compclip.evaluate.benchmark import with_box

CONTENT = {
    "images": [{"id": 5, "file_name": "val2017/000000000005.jpg"}, {"id": 6, "file_name": "train2017/6.jpg"}],
    "categories": [{"id": n, "name": name} for n, name in enumerate(("a red cup", "a blue cup", "a green cup"))],
    "annotations": [
        {"id": 3, "image_id": 5, "bbox": [1.9, 2.2, 3.3, 4.0], "category_id": 0, "neg_category_ids": [1, 2]},
        {"id": 9, "image_id": 6, "bbox": [0, 0, 4, 4], "category_id": 2, "neg_category_ids": [0]},
    ],
}


@pytest.fixture
def folder(dump, picture):
    picture("f/images/val2017/000000000005.jpg")
    return dump("f/pattern.json", CONTENT).parent


def test_parts_their_own_description_first_and_whole_pixels(folder):
    """Edges are cut down one by one: 1.9 + 3.3 ends at 5, 2.2 + 4.0 at 6."""
    first, second = fg_ovd.load(folder, split="pattern").records
    assert first.texts == ("a red cup", "a blue cup", "a green cup") and first.id == "3"
    assert first.images == (with_box(str(folder / "images/val2017/000000000005.jpg"), (1, 2, 4, 4)),)
    assert second.texts == ("a green cup", "a red cup")


def test_a_picture_in_a_flat_folder(folder, picture):
    at = picture("f/images/6.jpg")
    assert fg_ovd.load(folder, split="pattern").records[1].images == (with_box(str(at), (0, 0, 4, 4)),)


def test_each_part_chooses_its_description(folder, embeddings):
    benchmark = fg_ovd.load(folder, split="pattern")
    vectors = dict(zip(benchmark.images, ([1, 0], [0, 1]), strict=True))
    result = benchmark.score(embeddings(vectors, {"a red cup": [2, 1], "a blue cup": [1, 5], "a green cup": [0, 1]}))
    assert result.items["pattern"].values.tolist() == [1.0, 0.0]  # green is equal to red on the second
    assert result.counts["tied"] == 1
