"""`compclip init --test`: which benchmark reads what lies at a path, with which options, and where its pictures are."""

import json
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.begin.benchmark_section import describe_test, find_entry, find_tests
from compclip.benchmarks import _class_sets
from tests.benchmarks import picture_tables
from tests.data import reading, tar_files

TEXTS = {"0.jpg": ["A red dog runs."], "1.jpg": ["A blue cat sleeps."]}


@pytest.fixture
def folder(tmp_path):
    """A folder with two pictures below `shots`."""
    for name in TEXTS:
        reading.put(tmp_path / "mine" / "shots" / name, tar_files.picture())
    return tmp_path / "mine"


def write_table(*lines, name="signs.csv"):
    return lambda folder: reading.put(folder / name, "\n".join(lines) + "\n")


def write_classes(*names, above="shots/"):
    def write(folder):
        for name in names:
            reading.put(folder / f"{above}{name}/a.jpg", tar_files.picture())
        return folder / "shots"

    return write


def clear_shots(write):
    """Without the two pictures that belong to no class."""

    def write_alone(folder):
        for name in TEXTS:
            (folder / "shots" / name).unlink()
        return write(folder)

    return write_alone


def write_pairs_inside(folder):
    rows = [{"image": picture_tables.cell(c), "caption": c, "negative_caption": "x"} for c in ("red", "blue")]
    return picture_tables.write(folder / "data" / "test-00000-of-00001.parquet", rows).parent


def write_tar(folder):
    return tar_files.write(folder / "tars" / "0.tar", tar_files.sample("1", "A dog.")).parent


def write_imagefolder(folder):
    reading.put_lines(folder / "hub/train/metadata.jsonl", [{"file_name": "9.jpg", "text": "Another."}])
    (folder / "hub/test").mkdir()
    for name in TEXTS:
        (folder / "shots" / name).rename(folder / "hub/test" / name)
    rows = [{"file_name": name, "text": texts[0]} for name, texts in TEXTS.items()]
    return reading.put_lines(folder / "hub/test/metadata.jsonl", rows).parent.parent


USUAL = ("image,caption,negative_caption", "0.jpg,A dog.,A cat.", "1.jpg,A cat.,A dog.")
ODD = ("Bild;True text;wrong_1;wrong_2;note", "0.jpg;A dog.;A cat.;A cow.;a very long remark of somebody")
ODD_OPTIONS = {"picture": "Bild", "caption": "True text", "wrong": ["wrong_1", "wrong_2"]}
CASES = {  # what is written; module, folder of pictures, what else the section has; items and pictures
    "pairs": (write_table(*USUAL), "pairs", "shots", {}, "2 items of 2 pictures"),
    "odd names": (write_table(*ODD), "pairs", "shots", {"options": ODD_OPTIONS}, "1 item of 1 picture"),
    "pairs inside": (write_pairs_inside, "pairs", "data", {}, "2 items of 2 pictures"),
    "one missing": (
        write_table(*USUAL, "9.jpg,A dog.,A cat."), "pairs", "shots", {},
        "3 items of 3 pictures, 1 of them missing, as 9.jpg",
    ),
    "captions": (write_table("filepath,title", "0.jpg,A dog."), "retrieval", "shots", {}, "1 item of 1 picture"),
    "odd captions": (
        write_table("Bild;Satz", "0.jpg;A dog."), "retrieval", "shots",
        {"options": {"layout": {"picture": "Bild", "captions": ["Satz"]}}}, "1 item of 1 picture",
    ),
    "coco": (
        lambda folder: reading.put_coco(folder / "annotations/captions_val2017.json", TEXTS), "retrieval", "shots", {}, "2 items",
    ),
    "karpathy": (
        lambda folder: reading.put_karpathy(folder / "dataset_mine.json", TEXTS, "val"), "retrieval", "shots",
        {"split": "val"}, "2 items of 2 pictures",
    ),
    "tars": (write_tar, "retrieval", "tars", {}, "1 item of 1 picture"),
    "imagefolder": (write_imagefolder, "retrieval", "hub/test", {}, "2 items of 2 pictures"),
    "classes": (clear_shots(write_classes("dogs", "big_cats")), "zeroshot", "shots", {}, "2 items of 2 pictures"),
    "classes of a split": (
        clear_shots(write_classes("train/dogs", "test/dogs", "test/cats", "train/cats")), "zeroshot", "shots/test", {},
        "2 items of 2 pictures",
    ),
    "a known set": (
        clear_shots(write_classes(*_class_sets.load_class_set("stl10").names)), "zeroshot", "shots",
        {"options": {"classes": "stl10"}}, "10 items of 10 pictures",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_each_kind_of_test(folder, kind):
    """Pictures are found below the folder of the file; COCO's, as they are unpacked, also beside it."""
    write, module, images, keys, counts = CASES[kind]
    if kind == "coco":
        (folder / "shots").rename(folder / "val2017")
        images = "val2017"
    ((name, section),) = find_tests(str(write(folder))).items()
    assert counts in describe_test(name, section)
    assert (section.pop("benchmark", name), section.pop("images")) == (module, str(folder / images))
    assert Path(section.pop("path")).is_absolute() and section == keys


SUGARCREPE = {"0": {"filename": "0.jpg", "caption": "x", "negative_caption": "y"}}


def put_sugarcrepe(folder):
    return reading.put(folder / "official" / "swap_obj.json", json.dumps(SUGARCREPE)).parent


def test_pictures_of_an_official_benchmark(folder):
    """Where they are given, with the data, or where `compclip fetch` lays them out; else its line says how."""
    path = put_sugarcrepe(folder)
    expected = {"sugarcrepe": {"path": str(path), "split": "swap_obj", "images": str(folder / "shots")}}
    assert find_tests(str(path), images=str(folder / "shots")) == expected
    assert find_tests(str(path), picture_folders=[str(folder), str(folder / "shots")]) == expected
    assert describe_test("sugarcrepe", expected["sugarcrepe"]) == "sugarcrepe: sugarcrepe, 1 item of 1 picture"
    with pytest.raises(UserError, match=r"0\.jpg, are nowhere; .*--images, or run `compclip fetch coco_val2017`"):
        find_tests(str(path))
    (folder / "coco").mkdir()
    (folder / "shots").rename(folder / "coco" / "val2017")
    assert find_tests(str(path))["sugarcrepe"]["images"] == str(folder / "coco" / "val2017")
    assert (find_entry("data/raw/coco/val2017"), find_entry("data/raw/none")) == ("coco_val2017", "")


def test_a_benchmark_is_named_where_its_files_do_not_tell(folder):
    """COCO's captions are those of ColorFoil too."""
    path = reading.put_coco(folder / "captions_val2017.json", {"0.jpg": ["A red dog runs."]})
    section = find_tests(f"colorfoil={path}", str(folder / "shots"))["colorfoil"]
    assert section == {"path": str(path), "images": str(folder / "shots")}
    table = write_table(*USUAL)(folder)
    assert find_tests(f"retrieval={table}")["signs"]["benchmark"] == "retrieval"


@pytest.mark.parametrize(("text", "fault"), [
    ("{}/none", "none: no such file or folder"),
    ("sugarcrep={}", "unknown benchmark 'sugarcrep'; did you mean 'sugarcrepe'"),
    ("{}/shots", "no official benchmark's files, no table with a true and a false text"),
    ("{}/words.csv", "words.csv: no column of pictures among word, meaning"),
    ("{}/0.tar", "tars are read by their folder"),
    ("{}/signs.csv", r"as 7\.jpg, are nowhere; give their folder with --images"),
])  # fmt: skip
def test_what_is_not_recognised_is_said(folder, text, fault):
    write_table("word,meaning", "dog,an animal", name="words.csv")(folder)
    (write_tar(folder) / "0.tar").rename(folder / "0.tar")
    write_table("image,caption,wrong", "7.jpg,A dog.,A cat.")(folder)
    with pytest.raises(UserError, match=fault):
        find_tests(text.format(folder))
