"""VALSE: official files, valid records only, pieces that weigh the same."""

import pytest

from compclip.benchmarks import valse

TEXTS = {"good": [0.9, 0.1], "bad": [0.1, 0.9]}
RIGHT, WRONG, TIE = ("good", "bad"), ("bad", "good"), ("good", "good")


def row(texts: tuple[str, str] = RIGHT, votes: int = 3, image: str = "a.png") -> dict:
    return {"dataset": "coco2017", "image_file": image, "caption": texts[0], "foil": texts[1],
            "mturk": {"foil": 0, "caption": votes, "other": 3 - votes}}  # fmt: skip


@pytest.fixture
def folder(dump, picture):
    picture("v/images/a.png")
    for piece in valse.PIECES:
        path = dump(f"v/{piece}.json", {f"{piece}_0": row(), f"{piece}_1": row(WRONG, 2), f"{piece}_2": row(votes=1)})
    return path.parent


def test_pieces_and_their_mean(folder, dump, embeddings):
    dump("v/plurals.json", {"0": row(), "1": row(TIE), "2": row(WRONG), "3": row(WRONG)})
    result = valse.load(folder).score(embeddings({folder / "images" / "a.png": [1, 0]}, TEXTS))
    assert result.metrics["existence"] == 0.5 and result.metrics["plurals"] == 0.25
    assert result.items["plurals"].values.tolist() == [1, 0, 0, 0]
    assert result.metrics["average"] == pytest.approx((10 * 0.5 + 0.25) / 11)


def test_seven_phenomena_weigh_the_same(folder, dump, embeddings):
    """Counting, actions and coreference are means of their pieces first."""
    dump("v/counting-hard.json", {"0": row(), "1": row(), "2": row(), "3": row(WRONG)})
    dump("v/actant-swap.json", {"0": row()})
    dump("v/plurals.json", {"0": row(WRONG)})
    result = valse.load(folder).score(embeddings({folder / "images" / "a.png": [1, 0]}, TEXTS))
    scored = [result.metrics[name] for name in ("counting", "actions", "coreference")]
    assert scored == pytest.approx([(0.75 + 0.5 + 0.5) / 3, 0.75, 0.5])
    assert result.metrics["average_phenomena"] == pytest.approx((sum(scored) + 0.5 + 0 + 0.5 + 0.5) / 7)
    assert len(result.means["average_phenomena"]) == 7


def test_pictures_by_source(folder, picture, embeddings):
    (folder / "images" / "a.png").unlink()
    at = picture("v/images/coco2017/a.png")
    assert valse.load(folder, split="relations").images == [str(at)]


@pytest.mark.parametrize(
    ("source", "picture_folder"),
    [("visual7w", "visual7w/images"), ("SWiG", "actions/images_512"), ("SWiG", "images_512"),
     ("VisDial_v1.0", "coref/release_v18/test_images"), ("VisDial_v1.0", "train2014"),
     ("FOIL dataset", "val2014"), ("FOIL dataset", "FOIL dataset"), ("coco2017", "plurals/test_images"),
     ("coco_2017", "val2017"), ("coco_2017", "coco2017")],
)  # fmt: skip
def test_pictures_where_the_authors_programs_and_the_original_sets_have_them(dump, picture, source, picture_folder):
    at = picture(f"w/pictures/{picture_folder}/b.png")
    file = dump("w/existence.json", {"0": {**row(image="b.png"), "dataset": source}})
    result = valse.load(file.parent, images=file.parent / "pictures", split="existence")
    assert result.images == [str(at)]
    at.unlink()  # a missing one is told by the data set's own name
    without_picture = valse.load(file.parent, images=file.parent / "pictures", split="existence")
    assert without_picture.images == [str(file.parent / "pictures" / source / "b.png")]


def test_the_official_files(shared_data):
    """Valid records as the paper's Table 1 counts them."""
    benchmark = valse.load(shared_data / "valse", images="pictures")
    sizes = {piece: sum(record.subset == piece for record in benchmark.records) for piece in valse.PIECES}
    assert sizes == {
        "existence": 505, "plurals": 851, "counting-hard": 868, "counting-small-quant": 900,
        "counting-adversarial": 691, "relations": 535, "action-replacement": 648, "actant-swap": 949,
        "coreference-standard": 708, "coreference-hard": 104, "foil-it": 943,
    }  # fmt: skip
    assert benchmark.dropped == {"invalid": 8782 - sum(sizes.values())}
