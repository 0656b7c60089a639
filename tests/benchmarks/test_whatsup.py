"""What's Up: both forms of the official files, four candidates and two, subsets that weigh the same."""

import pytest

from compclip.benchmarks import whatsup

TEXTS = {"good": [0.9, 0.1], "fair": [0.5, 0.1], "bad": [0.1, 0.9]}
TIE = ("good", "good")
QUESTIONS = {"coco_qa_one_obj": "coco", "coco_qa_two_obj": "coco", "vg_qa_one_obj": "vg", "vg_qa_two_obj": "vg"}
PLACES = ("controlled_images/mug_on_table.jpeg", "controlled_clevr/cup_behind_plate.jpeg", "val2017/000000000139.jpg",
          "vg_images/2370799.jpg")  # fmt: skip


def controlled(name: str, *texts: str) -> dict:
    return {"image_path": f"data/{name}", "caption_options": list(texts)}


@pytest.fixture
def folder(dump):
    for name, picture in zip(("controlled_images", "controlled_clevr"), PLACES, strict=False):
        dump(f"data/{name}_dataset.json", [controlled(picture, "good", "fair", "bad", "bad"),
                                           controlled(picture, "fair", "bad", "bad", "good")])  # fmt: skip
    for name, source in QUESTIONS.items():
        image = 139 if source == "coco" else 2370799
        path = dump(f"data/{name}.json", [[image, "good", "bad"], [str(image), "bad", "good"]])
    return path.parent


@pytest.fixture
def embedded(folder, embeddings):
    return embeddings({folder / picture_path: [1, 0] for picture_path in PLACES}, TEXTS)


def test_subsets_and_their_mean(folder, dump, embedded):
    pairs = (("good", "bad"), TIE, ("bad", "good"), ("bad", "good"))
    dump("data/vg_qa_two_obj.json", [[2370799, *pair] for pair in pairs])
    result = whatsup.load(folder).score(embedded)
    assert result.items["Controlled_Images_A"].values.tolist() == [1, 0]
    assert result.items["VG_QA_two_obj"].values.tolist() == [1, 0, 0, 0], "a tie is wrong"
    assert result.metrics["COCO_QA_one_obj"] == 0.5 and result.metrics["VG_QA_two_obj"] == 0.25
    assert result.metrics["average"] == pytest.approx((5 * 0.5 + 0.25) / 6)
    assert result.counts["scored"] == result.counts["records"] == 14


def test_pairs_and_sets_of_the_controlled_pictures(folder, dump, embeddings):
    """Of cup and can all four are right; of mug and table `on` is wrong; of pen and pad one picture is missing."""
    is_right_by_place = {"left_of": 1, "right_of": 1, "on": 0, "under": 1}
    rows = [controlled(f"controlled_images/{a}_{relation}_{b}.jpeg", *(("good", "bad") if a == "cup" or right else TIE))
            for a, b in (("cup", "can"), ("mug", "table"), ("pen", "pad")) for relation, right in is_right_by_place.items()]  # fmt: skip
    dump("data/controlled_images_dataset.json", rows)
    at = [str(folder / row["image_path"].removeprefix("data/")) for row in rows]
    embedded = embeddings({**dict.fromkeys(at, [1, 0]), folder / PLACES[1]: [1, 0]}, TEXTS)
    missing_picture = str(folder / "controlled_images/pen_under_pad.jpeg")
    embedded.image_row.pop(missing_picture)
    embedded.failed[missing_picture] = "missing"
    result = whatsup.load(folder, split="Controlled_Images_A,Controlled_Images_B").score(embedded)
    pair, set_items = result.items["Controlled_Images_A_pair"], result.items["Controlled_Images_A_set"]
    assert dict(zip(pair.ids, pair.values.tolist(), strict=True)) == {
        "cup_can/left+right": 1, "cup_can/on+under": 1, "mug_table/left+right": 1, "mug_table/on+under": 0,
        "pen_pad/left+right": 1,
    }  # fmt: skip
    assert dict(zip(set_items.ids, set_items.values.tolist(), strict=True)) == {
        "cup_can/left+right+on+under": 1, "mug_table/left+right+on+under": 0}  # fmt: skip
    assert result.metrics["Controlled_Images_A_pair"] == pytest.approx(4 / 5)
    assert "Controlled_Images_B_pair" not in result.metrics


def test_pairs_of_the_second_subset_are_in_front_and_behind(folder, dump, embeddings):
    rows = [controlled(f"controlled_clevr/cup_{relation}_can.jpeg", "good", "bad")
            for relation in ("left_of", "right_of", "in-front_of", "behind")]  # fmt: skip
    dump("data/controlled_clevr_dataset.json", rows)
    at = {folder / row["image_path"].removeprefix("data/"): [1, 0] for row in rows}
    result = whatsup.load(folder, split="Controlled_Images_B").score(embeddings(at, TEXTS))
    assert result.items["Controlled_Images_B_pair"].ids == ("cup_can/left+right", "cup_can/in-front+behind")
    assert result.metrics["Controlled_Images_B_set"] == 1.0


def test_pictures_lie_as_in_the_official_folder(folder, tmp_path):
    assert set(whatsup.load(folder).images) == {str(folder / path) for path in PLACES}
    elsewhere = whatsup.load(folder, images=tmp_path / "pictures", split="COCO_QA_one_obj,VG_QA_one_obj")
    assert set(elsewhere.images) == {str(tmp_path / "pictures" / path) for path in PLACES[2:]}
