"""Files that are not the official ones: one line that names the file, the record, the field or the value.

Every benchmark's small official file is damaged in the same ways; below are the cases of one benchmark.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from tests.benchmarks import official_files as official

OPTIONAL = {("sugarcrepe", "caption2"), ("sugarcrepe", "id"), ("nlvr2", "directory"), ("nlvr2", "label")}
FIRST_RECORDS = [(name, file) for name, (files, _) in official.OFFICIAL.items() for file in files]


@pytest.fixture
def refusal_of(dump):
    """What is said of a benchmark whose files are these."""

    def load(name: str, files: dict[str, Any], split: str) -> str:
        folder = dump("b/none.txt", "").parent
        for file, content in files.items():
            dump(f"b/{file}", content)
        with pytest.raises(UserError) as error:
            plugins.load_plugin(plugins.BENCHMARKS, name).load(folder, split=split)
        assert "\n" not in str(error.value)
        return str(error.value)

    return load


@pytest.mark.parametrize("name", official.OFFICIAL)
def test_a_split_that_is_not_there_and_files_that_are_not(refusal_of, name):
    files, split = official.OFFICIAL[name]
    assert refusal_of(name, {}, split)
    assert "nope" in refusal_of(name, files, "nope")


def damages(content: Any) -> Iterator[tuple[str, Any]]:
    """What is in the place of a JSON file, and what must be named beside the file."""
    yield "JSON", "{"
    yield "int", 3
    if isinstance(content, str):  # lines, the first of which is damaged
        first = json.loads(content.split("\n")[0])
        for field in first:
            yield field, json.dumps({name: value for name, value in first.items() if name != field})
            yield field, json.dumps(first | {field: None})
        return
    yield "", type(content)()
    yield "", {"0": 1} if isinstance(content, list) else [1]
    first = content[0] if isinstance(content, list) else content.get("0")
    for field in first if isinstance(first, dict) else ():
        for row in ({name: value for name, value in first.items() if name != field}, first | {field: None}):
            yield field, [row] if isinstance(content, list) else {"0": row}


@pytest.mark.parametrize(("name", "file"), [case for case in FIRST_RECORDS if not case[1].endswith("csv")])
def test_no_json_another_value_and_each_field(refusal_of, name, file):
    """Gone, or of another type."""
    files, split = official.OFFICIAL[name]
    for field, content in damages(files[file]):
        if (name, field) not in OPTIONAL and not (field in ("id", "image_id") and "null" in json.dumps(content)):
            message = refusal_of(name, files | {file: content}, split)
            assert file.rpartition("/")[2] in message and field in message, content


@pytest.mark.parametrize(("name", "file"), [case for case in FIRST_RECORDS if case[1].endswith("csv")])
def test_each_column_of_a_table(refusal_of, name, file):
    """Gone; no row; a row that is too short, and a field without end."""
    files, split = official.OFFICIAL[name]
    header, first, *_ = files[file].split("\n")
    for column in header.split(","):
        message = refusal_of(name, files | {file: f"{header.replace(column, 'other', 1)}\n{first}\n"}, split)
        assert file in message and f"'{column}'" in message
    for content in ("", header, f"{header}\nx\n", f'{header}\nx,"{"a" * 200_000}'):
        assert file in refusal_of(name, files | {file: content}, split)


ATTRIBUTE = official.REGION | {"attributes": ["red", "old"], "obj1_name": "car", "obj2_name": "dog"}
CLASSES = {"labels": ["x", "y"], "data": [["1.jpg", {}, [1, 0], [1, 0]]]}
MCQ = ("image_path", "caption_0", "caption_1", "caption_2", "caption_3", "correct_answer", "correct_answer_template")
MMVP = "Question ID,Type,Statement\n"
SVO_HEADER = official.SVO.split("\n")[0]
QUESTION = ("a.jpg", "x", "a", "b", "c")
GOOD = [official.CHOICES[0] | {"keys": ["a", "b"]}]
INFO = {"dataset": "eqbensd", "sample_cnt": 4, "name": "c0i0"}
NAMED = {"private_info": INFO, "image": "eqbensd/x.png", "caption": "x"}
SECOND = {"private_info": INFO | {"name": "c1i1"}, "image": "eqbensd/y.png", "caption": "y"}
BOTH = [official.REWORDED | {"true_caption": "z"}]
CASES = [  # of one benchmark: its split, the file, its content, and what must be named
    ("aro", "visual_genome_relation", "visual_genome_relation.json", [official.REGION | {"bbox_w": "3"}], "record 0.*'bbox_w'.*'3'"),
    ("aro", "visual_genome_attribution", "visual_genome_attribution.json", [ATTRIBUTE | {"attributes": ["red"]}], r"\['red'\]"),
    ("aro", "visual_genome_attribution", "visual_genome_attribution.json", [official.REGION], "'attributes'"),
    ("aro", "coco_order", "coco_order.json", [official.SHUFFLED, official.SHUFFLED | {"caption_options": ["x"]}],
     r"record 1.*\['x'\]"),
    ("bivlc", "swap", "test.json", [official.EDITED | {"type": "swp"}], "'swp'.*'swap'"),
    ("bla", "coordination", "coordination_captions.json", [{"image_id": 1, "caption_group": []}], "'caption_group'"),
    ("bla", "coordination", "coordination_captions.json", [official.JUDGED | {"caption_group": [{"True1": "r"}]}], "'True2'"),
    ("coco_counterfactuals", "", "examples.jsonl", "\n".join([json.dumps(official.WINOGROUND)] * 2), "'0_0'"),
    ("cola", "", "COLA_multiobjects_matching_benchmark.json", [["a", "b", "c"]], "record 0"),
    ("cola", "", "COLA_multiobjects_matching_benchmark.json", [["https://x/", "a", "b.jpg", "c"]], "'https://x/'"),
    *(("cola_single", "gqa", "COLA_singleobjects_benchmark_GQA.json", content, names) for content, names in (
        (CLASSES | {"data": [["1.jpg", {}, [1], [1, 0]]]}, "record 0.*2 of 0"), (CLASSES | {"data": []}, "no rec"),
        (CLASSES | {"data": [["1.jpg", {}, [2, 0], [1, 0]]]}, "0 and 1"),
    )),
    ("colorswap", "", "test.json", [official.SWAPPED, official.SWAPPED], "'0'"),
    ("docci", "", "docci_descriptions.jsonlines", "\n".join([json.dumps(official.DESCRIBED)] * 2), "'a'"),
    *(("eqben", "", "eqben.json", content, names) for content, names in (
        ([official.SAMPLE, official.SAMPLE | {"caption0": [3]}], r"record 1.*'caption0'.*\[3\]"),
        ([official.SAMPLE | {"image0": "eqbensdx/a.png"}], "'eqbensdx'.*'eqbensd'"), ([NAMED], "sample 4 of eqbensd.*image1"),
        ([NAMED, SECOND, NAMED | {"caption": "z"}], "record 2.*'z'"), ([NAMED | {"private_info": {}}], "'sample_cnt'"),
        ([NAMED | {"private_info": INFO | {"name": "c2i0"}}], "'c2i0'"), ({"v": 3}, "'v' is 3"),
        ({"v": {"person": [official.SAMPLE | {"caption1": []}]}}, r"v/person/0.*'caption1'.*\[\]"),
        ({"v": [official.SAMPLE | {"image0": "v.mp4/1.png"}]}, "v/0.*'v.mp4'"),
    )),
    *(("fg_ovd", "color", "color.json", official.PARTS | {"annotations": [official.PART | change]}, names) for change, names in (
        ({"category_id": 7}, "record 1: 7"), ({"image_id": 8}, "record 1: 8"), ({"bbox": [1, 2, 3]}, "'bbox'"),
    )),
    *(("genai_bench", "", "genai_image.json", {"00000": {"prompt": "a", "models": {"DALLE_3": ratings}}}, "00000.*ratings")
      for ratings in ([], [5, "x"])),
    ("half_truths", "", "coco_qwen.json", [official.HALF | {"triplet_type": "thing"}], "record 0.*'thing'"),
    ("half_truths", "", "coco_qwen.json", [official.HALF, official.HALF], "'0'"),
    ("imagecode", "", "valid_data.json", {"video_1": {"10": "x"}}, "video_1.*'10'"),
    ("imagecode", "test", "valid_data.json", {"video_1": {"1": "x"}}, "test_data.json.*valid"),
    *(("mmvp_vlm", "", "Questions.csv", MMVP + rows, names) for rows, names in (
        ("1,Text,a\n", "1 rows"), ("2,Text,a\n3,Text,b\n", "2 and 3"), ("1,Text,a\n2,Color,b\n", "1 and 2"),
        ("one,Text,a\n2,Text,b\n", "'one'"), ("1,Taste,a\n2,Taste,b\n", "question 1.*'Taste'"), ("1,Text\n", "line 2"),
    )),
    *(("negbench", "coco_mcq", "COCO_val_mcq_llama3.1_rephrased.csv", official.table(MCQ, (*QUESTION, *ends)), names)
      for ends, names in (
        (("4", "positive"), "correct_answer='4'"), (("0", "yes"), "record 0.*'yes'"),
    )),
    ("negbench", "chexpert_binary_mcq", "chexpert_binary_mcq.csv",
     official.table((*MCQ[:3], "correct_answer"), ("a.jpg", "x", "y", "2")), "correct_answer='2'"),
    ("nlvr", "", "dev.json", json.dumps(official.STATEMENT | {"identifier": "7-0", "label": "yes"}), "'yes'"),
    ("nlvr2", "", "dev.json", json.dumps(official.STATEMENT | {"identifier": "5-0", "label": "True"}), "'5-0'|expected"),
    ("nlvr2", "", "dev.json", json.dumps(official.STATEMENT | {"identifier": "dev-5-0-1", "label": 1}), "'1'"),
    *(("spec", "count", "count/text2image.json", content, names) for content, names in (
        ([*GOOD, official.CHOICES[0] | {"label": 3}], "record 1.*label=3"), ([official.CHOICES[0] | {"label": -1}], "record 0.*label=-1"),
        ([official.CHOICES[0] | {"keys": ["a"]}], r"'keys'.*\['a'\]"),
    )),
    ("sugarcrepe", "add_att", "add_att.json", {"5": "text"}, "record 5.*str"),
    *(("sugarcrepe", "add_att", "groups.json", content, f"groups.json.*{names}") for content, names in (
        ({"swap_at": {}}, "'swap_at'"), ({"add_att": {"g": ["8"]}}, "add_att/g: .*'8'"), ({"add_att": {"g": "0"}}, "'g' is '0'"),
    )),
    ("hard_positives", "swap", "swap_hard_positive.json", BOTH * 2, "2 records for 1"),
    ("hard_positives", "swap", "swap_hard_positive.json", [BOTH[0] | {"false_caption": "v"}], "'false_caption'"),
    ("sugarcrepe_pp", "swap_obj", "swap_obj.json", [official.PAIR, official.PAIR], "'0'"),
    *(("svo_probes", "", "svo_probes.csv", f"{SVO_HEADER}\n{row}\n", names) for row, names in (
        ("x,1,2,True,False", "line 2"), ("x,1,2,True,False,no", "record 0.*obj_neg 'no'"),
        ("x,12.0,2,True,False,False", "pos_image_id='12.0'"),
    )),
    ("valse", "plurals", "plurals.json", {"5": official.FOILED | {"mturk": {"caption": "3"}}}, "record 5.*'caption'.*'3'"),
    ("vismin", "", "test.jsonl", json.dumps({"category": "../x", "text_0": "", "text_1": "", "image_0": "", "image_1": ""}),
     "record 0.*'../x'"),
    *(("vl_checklist", "Attribute_size", "Attribute/vg/size.json", content, names) for content, names in (
        ([["a.jpg"]], r"record 0.*\['a.jpg'\]"), ([["a.jpg", {"POS": ["a"]}]], "'NEG'"),
        ([["a.jpg", {"POS": [], "NEG": ["b"]}]], "'POS'"), ([["a.jpg", {"POS": "a", "NEG": ["b"]}]], "'POS'.*'a'"),
    )),
    *(("whatsup", "Controlled_Images_A", "controlled_images_dataset.json", content, names) for content, names in (
        ([{"caption_options": ["a", "b"]}], "'image_path'"), ([{"image_path": "a/b.jpg", "caption_options": ["a"]}], r"\['a'\]"),
    )),
    ("whatsup", "VG_QA_one_obj", "vg_qa_one_obj.json", [["VG/1.jpg", "a", "b"]], "record 0"),
    ("whatsup", "VG_QA_one_obj", "vg_qa_one_obj.json", [[1, "a", "b"], [1, "a"]], "record 1"),
]  # fmt: skip
OTHER_FILES = {  # what must be there beside the damaged file
    "vl_checklist": {"Attribute/vaw/size.json": [["a.jpg", {"POS": ["a"], "NEG": ["b"]}]]},
    "spec": {"count/image2text.json": official.CHOICES},
    "genai_bench": {"genai_skills.json": {"basic": [0]}},
    "hard_positives": {"swap.json": [official.REWORDED]},
    "sugarcrepe": {"add_att.json": {"0": official.PAIR}},
}


@pytest.mark.parametrize(("name", "split", "file", "content", "names"), CASES)
def test_what_is_wrong_is_named(refusal_of, name, split, file, content, names):
    message = refusal_of(name, OTHER_FILES.get(name, {}) | {file: content}, split)
    assert re.search(names, message), message
