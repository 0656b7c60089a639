"""Hard positives: aligned files in both layouts, pooled REPLACE, crops."""

import pytest

from compclip.benchmarks import hard_positives

TEXTS = {"c": [0.8, 0.1], "p": [0.6, 0.1], "n": [0.4, 0.1], "low": [0.2, 0.1]}


def row(caption: str, negative: str = "n", **overrides: object) -> dict:
    captions = {"true_caption": caption, "false_caption": negative}
    return {"image_id": "1", "image_path": "data/VG/1.png", **captions, **overrides}


@pytest.fixture
def folder(dump, picture):
    picture("hp/images/VG/1.png")
    dump("hp/replace_relations.json", [row("c"), row("c"), row("low")])
    dump("hp/replace_relations_hard_positive.json", [row("p"), row("low"), row("c")])
    dump("hp/replace_attributes.json", [row("c")])
    return dump("hp/replace_attributes_hard_positive.json", [row("p")]).parent


def test_each_metric(folder, embeddings):
    result = hard_positives.load(folder).score(embeddings({folder / "images/VG/1.png": [1, 0]}, TEXTS))
    values = {name: items.values.tolist() for name, items in result.items.items() if name.startswith("replace_rel")}
    assert values["replace_relations_original"] == [1, 1, 0]
    assert values["replace_relations_augmented"] == [1, 0, 0]
    assert values["replace_relations_brittleness"] == [0, 1, 1]
    assert values["replace_relations_gap"] == [0, 1, 0]
    assert values["replace_relations_mean_score"] == pytest.approx([0.8, 0.8, 0.2])


def test_replace_weighs_kinds_by_their_records(folder, embeddings):
    result = hard_positives.load(folder).score(embeddings({folder / "images/VG/1.png": [1, 0]}, TEXTS))
    assert result.metrics["replace_original"] == 3 / 4
    assert result.metrics["replace_gap"] == pytest.approx(3 / 4 - result.metrics["replace_augmented"])
    ids = (*(f"replace_relations/{i}" for i in range(3)), "replace_attributes/0")
    assert result.items["replace_original"].ids == ids


def test_the_layout_and_the_boxes_of_the_released_files(dump, picture, embeddings):
    picture("repo/images/data/VG/1.png")
    box = {"bbox_x": 1, "bbox_y": 2, "bbox_w": 3, "bbox_h": 4.5}
    dump("repo/data/visual_genome_attribution.json", [row("c", **box)])
    folder = dump("repo/swapped_data/visual_genome_attribution.json", [row("p", **box)]).parent.parent
    benchmark = hard_positives.load(folder)
    assert benchmark.images == [str(folder / "images/data/VG/1.png") + "#box=1,2,3,4.5"]
    result = benchmark.score(embeddings({benchmark.images[0]: [1, 0]}, TEXTS))
    assert result.metrics["swap_augmented"] == 1.0


@pytest.mark.parametrize("subfolder", ["", "images", "VG_100K", "VG_100K_2"])
def test_one_folder_of_pictures_for_replace_and_swap(dump, picture, subfolder):
    """REPLACE names `data/VG_100K_2/1.jpg`, SWAP a bare file name: ARO's `images`, or Visual Genome's own folders."""
    swapped, replaced = picture(f"vg/{subfolder}/7.jpg"), picture("vg/VG_100K_2/1.jpg")
    for name, image in (("replace_attributes", "data/VG_100K_2/1.jpg"), ("swap", "7.jpg")):
        dump(f"hp2/{name}.json", [{**row("c"), "image_path": image}])
        folder = dump(f"hp2/{name}_hard_positive.json", [{**row("p"), "image_path": image}]).parent
    assert hard_positives.load(folder, images=folder.parent / "vg").images == [str(replaced), str(swapped)]
