"""SPEC: official folders, both ways, subsets that weigh the same."""

import pytest

from compclip.benchmarks import spec

TEXTS = {"left": [1.0, 0.0], "right": [0.0, 1.0], "both": [0.6, 0.8]}
PICTURES = {"images/l.jpg": [1.0, 0.0], "images/r.jpg": [0.0, 1.0]}


def choice(query: str, keys: list, label: int = 0) -> dict:
    return {"query": query, "keys": keys, "label": label}


TO_TEXT = choice("images/l.jpg", ["right", "left", "both"], 1)
TO_IMAGE = choice("right", ["images/l.jpg", "images/r.jpg"], 1)


@pytest.fixture
def folder(dump):
    for subset in spec.SUBSETS:
        dump(f"s/{subset}/image2text.json", [TO_TEXT])
        path = dump(f"s/{subset}/text2image.json", [TO_IMAGE])
    return path.parent.parent


@pytest.fixture
def scored(folder, embeddings):
    def score(failed=(), **options):
        places = {(subset, name): folder / subset / name for subset in spec.SUBSETS for name in PICTURES}
        images = {at: PICTURES[name] for (_, name), at in places.items() if at not in failed}
        return spec.load(folder, **options).score(embeddings(images, TEXTS, dict.fromkeys(failed, "missing")))

    return score


def test_the_match_comes_first_and_pictures_lie_beside_the_files(folder):
    to_text, to_image = spec.load(folder, split="count").records
    assert (to_text.subset, to_text.texts) == ("count_i2t", ("left", "right", "both"))
    assert to_text.images == (str(folder / "count/images/l.jpg"),)
    assert to_image.texts == ("right",)
    assert to_image.images == (str(folder / "count/images/r.jpg"), str(folder / "count/images/l.jpg"))
    assert spec.load(folder, images="elsewhere", split="count").images[0] == "elsewhere/count/images/l.jpg"


def test_both_ways_and_their_means(dump, scored):
    wrong = choice("images/l.jpg", ["right", "left"], 0)
    dump("s/count/image2text.json", [TO_TEXT, wrong, wrong, wrong])
    dump("s/count/text2image.json", [TO_IMAGE, choice("right", ["images/l.jpg", "images/r.jpg"], 0)])
    result = scored()
    assert result.items["count_i2t"].values.tolist() == [1, 0, 0, 0] and result.items["count_i2t"].ids[3] == "3"
    assert result.metrics["count_t2i"] == 0.5 and result.metrics["count"] == pytest.approx((0.25 + 0.5) / 2)
    assert result.metrics["existence"] == 1.0
    assert result.metrics["i2t"] == pytest.approx(5.25 / 6) and result.metrics["t2i"] == pytest.approx(5.5 / 6)
    assert result.metrics["average"] == pytest.approx((10 + 0.25 + 0.5) / 12)
