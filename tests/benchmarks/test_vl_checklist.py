"""VL-CheckList: the official tree of files, the first records of each, means of sources before means of tasks."""

import pytest

from compclip.benchmarks import vl_checklist

TEXTS = {"good": [0.9, 0.1], "bad": [0.1, 0.9]}
RIGHT, WRONG, TIE = ("good", "bad"), ("bad", "good"), ("good", "good")
SMALL = {"Object/Size/hake_size/hake_obj_small", "Object/Size/vg_size/vg_obj_small", "Object/Size/vg_size/vg_subj_small",
         *(f"Object/Size/swig_size/swig_{r}/swig_{r}_small" for r in ("agent", "destination", "item", "tool"))}  # fmt: skip
OTHERS = {"Attribute/vaw/size", "Attribute/vg/size", "Relation/swig_action", "Relation/hake_action", "Relation/vg/action",
          "Relation/vg/spatial"}  # fmt: skip


def row(texts: tuple[str, str] = RIGHT, image: str = "a.jpg") -> list:
    return [image, {"POS": [texts[0]], "NEG": [texts[1]]}]


@pytest.fixture
def folder(dump):
    names = {name for sources in vl_checklist.TASKS.values() for files in sources.values() for name in files.values()}
    for name in names:
        dump(f"data/{name}", [row(), row(WRONG)])
    assert {f"{name}.json" for name in SMALL | OTHERS} <= names
    return dump("data/Attribute/vg/color.json", [row(), row(WRONG)]).parents[2]


@pytest.fixture
def embedded(folder, embeddings):
    return embeddings({folder / source / "a.jpg": [1, 0] for source in ("vg", "swig", "hake")}, TEXTS)


def test_files_sources_tasks_average(folder, dump, embedded):
    dump("data/Object/Size/vg_size/vg_subj_small.json", [row(), row()])
    dump("data/Object/Size/swig_size/swig_tool/swig_tool_small.json", [row(), row(), row(TIE), row()])
    dump("data/Object/Size/hake_size/hake_obj_small.json", [row(WRONG)])
    dump("data/Attribute/vaw/size.json", [row()])
    result = vl_checklist.load(folder).score(embedded)
    values = result.metrics
    assert result.items["Object_Size_small_swig_tool"].values.tolist() == [1, 1, 0, 1]
    assert (values["Object_Size_small_vg"], values["Object_Size_small_swig"]) == (0.75, (3 * 0.5 + 0.75) / 4)
    assert values["Object_Size_small"] == pytest.approx((0.75 + 0.5625 + 0) / 3), "each source weighs the same"
    assert values["Attribute_size"] == 0.75, "not the 2/3 of all three records"
    assert values["Relation_spatial"] == values["Relation_spatial_vg"] == 0.5
    assert values["average"] == pytest.approx((11 * 0.5 + 0.4375 + 0.75) / 13)
    kinds = (5 * 0.5 + 0.4375) / 6, (4 * 0.5 + 0.75) / 5, 0.5
    assert [values[kind] for kind in ("Object", "Attribute", "Relation")] == pytest.approx(kinds)
    assert values["average_kinds"] == pytest.approx(sum(kinds) / 3)


def test_a_source_without_a_picture_has_no_mean(folder, embeddings):
    images = {folder / source / "a.jpg": [1, 0] for source in ("vg", "swig")}
    result = vl_checklist.load(folder).score(embeddings(images, TEXTS, {folder / "hake" / "a.jpg": "missing"}))
    assert result.metrics["Object_Size_small_swig"] == 0.5 and result.metrics["Attribute_size"] == 0.5
    assert not {"Object_Size_small", "Relation_action", "average", "Object", "average_kinds"} & set(result.metrics)
    assert result.counts["missing_image"] == 7 * 2


def test_the_first_records_of_each_file(folder, dump, embedded, monkeypatch):
    monkeypatch.setattr(vl_checklist, "LIMIT", 3)
    dump("data/Attribute/vg/size.json", [row(), row(), row(WRONG), row(WRONG), row()])
    result = vl_checklist.load(folder, split="Attribute_size").score(embedded)
    assert result.items["Attribute_size_vg"].ids == ("0", "1", "2")
    assert result.metrics["Attribute_size_vg"] == pytest.approx(2 / 3)
    assert (result.counts["records"], result.counts["beyond_limit"]) == (5, 2)


def test_the_first_text_of_each_list(folder, dump, embedded):
    dump("data/Relation/vg/spatial.json", [["a.jpg", {"POS": ["good", "bad"], "NEG": ["bad", "good"]}]])
    assert vl_checklist.load(folder, split="Relation_spatial").score(embedded).metrics["Relation_spatial"] == 1


def test_pictures_of_each_source(folder, dump, tmp_path):
    dump("data/Attribute/vaw/size.json", [row(image="VG_100K/1.jpg")])
    dump("data/Attribute/vg/size.json", [row(image="VG_100K_2/2.jpg")])
    dump("data/Relation/hake_action.json", [row(image="pic/3.jpg")])
    benchmark = vl_checklist.load(folder, images=tmp_path, split="Attribute_size,Relation_action")
    places = ("vg/VG_100K_2/2.jpg", "vg/VG_100K/1.jpg", "vg/a.jpg", "swig/a.jpg", "hake/pic/3.jpg")
    assert benchmark.images == [str(tmp_path / path) for path in places]
