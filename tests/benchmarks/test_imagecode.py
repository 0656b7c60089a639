"""ImageCoDe: official files, ten pictures a set, the average over descriptions."""

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import imagecode

STATIC, VIDEO = "open-images-1815_f91d6f546e63f20d", "MSR-VTT-videoTestVideo_video7047-shot1_0"
TEXTS = {"third": [0.6, 0.8], "first": [1.0, 0.0], "nowhere": [-1.0, 0.0]}
ANNOTATIONS = {STATIC: {"3": "third "}, VIDEO: {"0": "first", "7": "third", "3": "first"}}


def image_vector(number: int) -> list[float]:
    return {0: [1.0, 0.0], 3: [0.6, 0.8]}.get(number, [0.0, -1.0])


@pytest.fixture
def folder(dump, picture):
    picture(f"i/image-sets/{STATIC}/img0.jpg")
    return dump("i/valid_data.json", ANNOTATIONS).parent


def test_the_described_picture_comes_first_among_ten(folder):
    record = imagecode.load(folder).records[0]
    assert (record.subset, record.id, record.texts) == ("static", f"{STATIC}/3", ("third",))
    places = (3, 0, 1, 2, 4, 5, 6, 7, 8, 9)
    assert record.images == tuple(str(folder / "image-sets" / STATIC / f"img{i}.jpg") for i in places)


def test_kinds_and_the_average_over_descriptions(folder, embeddings):
    sets = [folder / "image-sets" / name for name in (STATIC, VIDEO)]
    images = {at / f"img{i}.jpg": image_vector(i) for at in sets for i in range(10)}
    result = imagecode.load(folder).score(embeddings(images, TEXTS))
    assert result.items["static"].values.tolist() == [1]
    assert result.items["video"].values.tolist() == [1, 0, 0]
    assert result.metrics["average"] == pytest.approx(2 / 4)
    assert result.metrics["macro_average"] == pytest.approx((1 + 1 / 3) / 2)


def test_splits_and_pictures_elsewhere(folder, dump):
    dump("i/train_data.json", {VIDEO: {"1": "first"}})
    assert imagecode.load(folder, images="there", split="train").images[0] == f"there/{VIDEO}/img1.jpg"
    with pytest.raises(UserError, match=r"test_data.json: the authors publish .* without .*; use split: valid"):
        imagecode.load(folder, split="test")
