"""Official benchmarks are known by their files: each one's own, and no other's."""

import json

import pytest

from compclip.base import plugins
from compclip.begin.official_files import find_official
from compclip.evaluate.benchmark_module import load_module
from tests.benchmarks import picture_tables
from tests.benchmarks.official_files import CHOICES, DESCRIBED, OFFICIAL, PARTS, WINOGROUND
from tests.conftest import ROOT
from tests.data import reading

TAGGED = WINOGROUND | {"image_0": "ex_0_img_0", "collapsed_tag": "Object"}
PAIRED = {"image_0": "a", "image_1": "b", "text_0": "x", "text_1": "y", "category": "count"}
SENTENCES = {"annotations": [{"image": "docci_aar/aar_test_1.jpg", "caption": "x", "image_id": "aar_test_1"}]}
SPLITS = {"train": [], "valid": [], "test": ["a.json"]}
NOT_RECOGNISED = ("colorfoil", "pairs", "retrieval", "zeroshot")  # each says why beside RECOGNISES
FILES = {name: files for name, (files, _) in OFFICIAL.items() if name not in NOT_RECOGNISED} | {
    "winoground": {"examples.jsonl": json.dumps(TAGGED)},
    "cola_single": {"COLA_singleobjects_benchmark_GQA.json": {"labels": [], "data": []}},
    "crepe": {f"{k}/prod_vg_hard_negs_{k}_complexity_{n}.csv": "" for k in ("atom", "swap", "negate") for n in (4, 5)},
    "dci": {"splits.json": SPLITS, "annotations/a.json": {"image": "a.jpg", "short_caption": "x"}},
    "genai_bench": {"genai_image.json": {}, "genai_skills.json": {}},
    "imageinwords": {"IIW-400/data.jsonl": json.dumps({"image/key": "aar_test_1", "IIW": "x"})},
    "made_pairs": {"pairs.jsonl": json.dumps({"image": "a.jpg", "caption": "x", "negative": "y", "group": "swap"})},
    "mmvp_vlm": {"Questions.csv": "Question ID,Type,Statement\n"},
    "sharegpt4v": {"share4v_sam_10k.json": []},
    "urban1k": {"caption/1.txt": "x", "caption/2.txt": "y"},
    "vismin": {"test.jsonl": json.dumps(PAIRED)},
    "sdci": {"complete/a.json": {"image": "a.jpg", "mask_data": {}}},
}
LAYOUTS = [
    *FILES.items(),
    ("docci", {"annotations/test_annotations.json": {"annotations": [{"image": "test_00001.jpg"}]}}),
    ("docci", {"test.csv": f"{','.join(DESCRIBED)}\n"}),
    ("imageinwords", {"annotations/test_annotations.json": SENTENCES}),
    ("hard_positives", {f"{folder}/vl_checklist_relations.json": [] for folder in ("data", "swapped_data")}),
    ("dci sdci", FILES["dci"] | FILES["sdci"]),
    (
        "fg_ovd vl_checklist",
        {"color.json": PARTS, "Attribute/vg/color.json": [["a.png", {"POS": ["x"], "NEG": ["y"]}]]},
    ),
    (
        "",
        {"splits.json": {"fold": 1}, "dev.json": '{"sentence": "x"}', "test.json": [{"a": 1}], "annotations.json": {}},
    ),
    ("", {"captions.csv": "image,caption\n", "captions_val2017.json": {"images": [], "annotations": []}}),
]
TABLES = {  # the hub's, with pictures inside
    "winoground": {"image_0": {}, "image_1": {}, "tag": "x", "collapsed_tag": "x", "caption_0": "x", "caption_1": "y"},
    "coco_counterfactuals": {"id": 1, "image_0": {}, "image_1": {}, "caption_0": "x", "caption_1": "y"},
    "bivlc": {"image": {}, "caption": "x", "negative_caption": "y", "negative_image": {}, "type": "swap"},
    "colorswap": {"id": 1, "image_1": {}, "image_2": {}, "caption_1": "x", "caption_2": "y"},
    "vismin": {"image_0": {}, "text_0": "x", "image_1": {}, "text_1": "y", "category": "count"},
    "docci": {"image": {}, "example_id": "test_1", "description": "x"},
    "": {"image": {}, "text": "x"},
}


def write_files(folder, files):
    for name, content in files.items():
        reading.put(folder / name, content if isinstance(content, str) else json.dumps(content))
    return folder


def test_each_is_tried():
    """Here, or in its own test; one that is not recognised says so itself."""
    names = {name for name in plugins.list_plugins(plugins.BENCHMARKS) if name != "example"}
    recognised = {name for name in names if load_module(name).recognises}
    assert recognised >= {*FILES} and not recognised & {*NOT_RECOGNISED}
    for name in recognised - {*FILES}:
        assert "find_official" in (ROOT / "tests" / "benchmarks" / f"test_{name}.py").read_text(), name


@pytest.mark.parametrize("above", ["", "deep/er"])
@pytest.mark.parametrize(("names", "files"), LAYOUTS)
def test_it_is_known_by_its_files(tmp_path, names, files, above):
    """Also in a folder above them."""
    write_files(tmp_path / above, files)
    assert set(find_official(tmp_path)) == set(names.split())


@pytest.mark.parametrize(("name", "row"), TABLES.items())
def test_a_table_of_the_hub_is_known_by_its_columns(tmp_path, name, row):
    cells = {key: picture_tables.cell("red") if value == {} else value for key, value in row.items()}
    table = picture_tables.write(tmp_path / "data" / "test-00000-of-00001.parquet", [cells])
    for path in (tmp_path, table):
        assert set(find_official(path)) == {*name.split()}


def test_of_some_of_its_files_these_are_the_split(tmp_path):
    """By a folder that lacks the others, and by a file."""
    write_files(tmp_path, {f"{task}.json": [] for task in ("visual_genome_relation", "coco_order")})
    write_files(tmp_path / "spec", {"count/image2text.json": CHOICES})
    assert find_official(tmp_path) == {
        "aro": {"path": str(tmp_path), "split": "visual_genome_relation,coco_order"},
        "spec": {"path": str(tmp_path / "spec"), "split": "count"},
    }
    assert find_official(tmp_path / "coco_order.json") == {"aro": {"path": str(tmp_path), "split": "coco_order"}}
    eqben = write_files(tmp_path / "e", OFFICIAL["eqben"][0]) / "eqben.json"
    assert find_official(eqben) == {"eqben": {"path": str(eqben)}}
