"""ARO: official fields, boxes, relations and attributes that weigh the same, shuffles that change nothing."""

import pytest

from compclip.benchmarks import aro

TEXTS = {"good": [0.9, 0.1], "bad": [0.1, 0.9], "poor": [0.2, 0.8]}
RIGHT, WRONG = ("good", "bad"), ("bad", "good")
BOX = {"bbox_x": 1, "bbox_y": 2, "bbox_w": 3, "bbox_h": 4}


def relation(name: str = "riding", texts: tuple[str, str] = RIGHT) -> dict:
    captions = {"true_caption": texts[0], "false_caption": texts[1]}
    return {"image_id": "1", "image_path": "1.jpg", **BOX, "relation_name": name, **captions}


def attribution(pair: tuple[str, str] = ("red", "old"), texts: tuple[str, str] = RIGHT) -> dict:
    row = relation(texts=texts) | {"attributes": list(pair), "obj1_name": "car", "obj2_name": "dog"}
    del row["relation_name"]
    return row


def order(*options: str, image: str = "val2014/2.jpg") -> dict:
    return {"image": image, "caption_options": list(options)}


@pytest.fixture
def folder(dump, picture):
    picture("aro/images/1.jpg")
    picture("aro/images/val2014/2.jpg")
    dump("aro/visual_genome_relation.json", [relation(), relation(texts=WRONG)])
    dump("aro/visual_genome_attribution.json", [attribution() for _ in range(25)])
    dump("aro/flickr30k_order.json", [order("good", "bad", "poor"), *[order("bad", "good", "poor")] * 3])
    return dump("aro/coco_order.json", [order("good", "bad", "poor", "bad", "poor")]).parent


@pytest.fixture
def score(folder, embeddings):
    images = {f"{folder}/images/1.jpg#box=1,2,3,4": [1, 0], f"{folder}/images/val2014/2.jpg": [1, 0]}
    return lambda **options: aro.load(folder, **options).score(embeddings(images, TEXTS | {"GOOD2": TEXTS["good"]}))


def test_tasks_and_their_mean(folder, score):
    result = score()
    assert result.metrics == pytest.approx({
        "visual_genome_relation": 0.5, "visual_genome_attribution": 1.0, "flickr30k_order": 0.25, "coco_order": 1.0,
        "average": 2.75 / 4,
    })  # fmt: skip
    assert result.items["flickr30k_order"].values.tolist() == [1, 0, 0, 0]
    assert (result.counts["records"], result.counts["scored"]) == (32, 32)


def test_every_relation_weighs_the_same(dump, score):
    dump("aro/visual_genome_relation.json", [*[relation()] * 3, relation(texts=WRONG), relation("under", WRONG)])
    result = score(split="visual_genome_relation")
    assert result.metrics["visual_genome_relation"] == pytest.approx((3 / 4 + 0) / 2)  # 3 / 5 were they not balanced
    assert result.items["visual_genome_relation"].values == pytest.approx([5 / 8, 5 / 8, 5 / 8, 0, 0])
    assert "average" not in result.metrics


def test_relations_that_the_authors_leave_out(dump, score):
    dump("aro/visual_genome_relation.json", [relation("next to"), relation(texts=WRONG), relation("drinking from")])
    result = score(split="visual_genome_relation")
    assert result.metrics["visual_genome_relation"] == 0.0 and result.items["visual_genome_relation"].ids == ("1",)
    assert result.counts["uncounted_kind"] == 2 and result.counts["records"] == 1
    assert len(aro.UNCOUNTED) == 157 and not any("  " in name or "\n" in name for name in aro.UNCOUNTED)


def test_pairs_of_attributes_that_are_rare(dump, score):
    """Their order is part of the pair."""
    rows = [*[attribution()] * 25, *[attribution(("old", "red"), WRONG)] * 24]
    dump("aro/visual_genome_attribution.json", rows)
    assert score(split="visual_genome_attribution").metrics["visual_genome_attribution"] == 1.0
    dump("aro/visual_genome_attribution.json", [*rows, *[attribution(("old", "red"), WRONG)] * 26])
    result = score(split="visual_genome_attribution")
    assert result.metrics["visual_genome_attribution"] == pytest.approx(0.5) and result.counts["uncounted_kind"] == 0


def test_shuffles_that_give_the_caption_back(dump, score):
    rows = [order("good", "go od", "bad"), order("good", "Good", "good"), order("bad", "bad ", "good")]
    dump("aro/coco_order.json", rows)
    result = score(split="coco_order")
    assert result.items["coco_order"].ids == ("0", "2") and result.items["coco_order"].values.tolist() == [1, 0]
    counts = {name: result.counts[name] for name in ("records", "scored", "foil_is_caption", "without_foil")}
    assert counts == {"records": 2, "scored": 2, "foil_is_caption": 4, "without_foil": 1}


def test_a_picture_that_is_missing_leaves_the_balance(dump, folder, embeddings):
    rows = [relation(), relation("under") | {"image_path": "gone.jpg"}, relation("under", WRONG)]
    dump("aro/visual_genome_relation.json", rows)
    benchmark = aro.load(folder, split="visual_genome_relation")
    at, gone = f"{folder}/images/1.jpg#box=1,2,3,4", f"{folder}/images/gone.jpg#box=1,2,3,4"
    result = benchmark.score(embeddings({at: [1, 0]}, TEXTS, {gone: "missing"}))
    assert result.metrics["visual_genome_relation"] == 0.5 and result.counts["missing_image"] == 1
