"""ColorSwap: the authors' list, and Winoground's scores."""

import pytest

from compclip.benchmarks import colorswap


def row(key: int) -> dict:
    return {"id": key, "caption_1": "a red cup, a blue hat", "caption_2": "a blue cup, a red hat",
            "image_1": f"images/img_{key}_1.png", "image_2": f"images/img_{key}_2.png",
            "image_source": "midjourney", "caption_source": "human"}  # fmt: skip


@pytest.fixture
def folder(dump, picture):
    picture("c/images/img_0_1.png")
    return dump("c/test.json", [row(0), row(1)]).parent


def test_scores(folder, embeddings):
    benchmark = colorswap.load(folder)
    images = [image for record in benchmark.records for image in record.images]
    vectors = dict(zip(images, ([1, 0], [0, 1], [1, 0], [2, 3]), strict=True))
    result = benchmark.score(embeddings(vectors, {row(0)["caption_1"]: [1, 0], row(0)["caption_2"]: [0, 1]}))
    assert result.items["text"].values.tolist() == [1, 1]
    assert result.items["image"].values.tolist() == [1, 0]  # the first caption is nearer to the last picture
    assert result.metrics["group"] == 0.5


def test_pictures_with_their_folder_or_without(folder, picture):
    picture("flat/img_0_1.png")
    assert colorswap.load(folder).images[0] == str(folder / "images" / "img_0_1.png")
    assert colorswap.load(folder, images=folder).images[0] == str(folder / "images" / "img_0_1.png")
    assert colorswap.load(folder, images=folder.parent / "flat").images[0] == str(folder.parent / "flat/img_0_1.png")
