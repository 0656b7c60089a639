"""People's own names: endings in any case, another case, backslashes, flat folders, one name in two folders, marks at a text's start."""

import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.benchmarks import retrieval
from compclip.config.released_lists import Captions
from compclip.config.sections import BenchmarkSection, Data
from compclip.data.sample import ENDINGS, PictureFinder
from compclip.evaluate import benchmark_module
from compclip.prepare import sources
from tests.data import reading

FORMATS = {".JPG": "JPEG", ".jpeg": "JPEG", ".Gif": "GIF", ".tif": "TIFF", ".BMP": "BMP", ".webp": "WEBP",
           ".PNG": "PNG"}  # fmt: skip


def draw(path: Path, form: str = "JPEG") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), "red").save(path, form)
    return path


def test_every_format_is_found_beside_its_caption(tmp_path):
    """Captions' files end otherwise, and begin with a mark."""
    endings = ("TXT", "caption", *["txt"] * len(FORMATS))
    for number, ((ending, form), of_caption) in enumerate(zip(FORMATS.items(), endings, strict=False)):
        draw(tmp_path / f"{number}{ending}", form)
        (tmp_path / f"{number}.{of_caption}").write_text(f"caption {number}", encoding="utf-8-sig")
    found = list(sources.img2dataset.records(Data("img2dataset", str(tmp_path), str(tmp_path)), Counter()))
    assert [Path(sample.image).name for sample in found] == [f"{i}{ending}" for i, ending in enumerate(FORMATS)]
    assert [sample.captions for sample in found] == [(f"caption {i}",) for i in range(len(FORMATS))]
    assert all(ending.lower() in ENDINGS for ending in FORMATS)


@pytest.mark.parametrize(("name", "found"), [
    *((name, "val/One.jpg") for name in ("val/One.jpg", "VAL/one.JPG", "val\\One.jpg")),
    ("train2014/two.jpg", "two.jpg"),  # all in one folder
    ("none.jpg", "none.jpg"),
])  # fmt: skip
def test_a_name_that_means_one_file(tmp_path, name, found):
    draw(tmp_path / "val" / "One.jpg")
    draw(tmp_path / "two.jpg")
    assert PictureFinder(str(tmp_path), "list.json").find(f"{tmp_path}/{name}") == f"{tmp_path}/{found}"


def test_a_name_that_means_two_files_is_named_with_both(tmp_path):
    for name in ("a.jpg", "A.jpg", "b.jpg"):
        draw(tmp_path / name)
    finder = PictureFinder(str(tmp_path), "list.json")
    with pytest.raises(UserError, match=r"list.json: 'a.JPG': 'A.jpg' and 'a.jpg' in"):
        finder.find(f"{tmp_path}/a.JPG")
    assert finder.find(f"{tmp_path}/train/b.jpg") == finder.find(f"{tmp_path}/train/b.jpg") == f"{tmp_path}/b.jpg"
    assert finder.find_shared() == {}
    finder.find(f"{tmp_path}/val/b.jpg")
    (line,) = finder.find_shared().values()
    assert "'train/b.jpg' and 'val/b.jpg' are one file" in line
    ids = sources.make_ids(["a/1.jpg", "b/1.jpg", "a/2.jpg", "c\\3.JPG"])  # with their folder where a name stands twice
    assert ids == ["a/1", "b/1", "2", "3"]


def test_a_byte_order_mark_is_no_fault(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1}', encoding="utf-8-sig")
    assert read_json(tmp_path / "a.json") == {"a": 1}
    reading.put(tmp_path / "list" / "7.json", '\ufeff["a dog"]')
    reading.put(tmp_path / "rows.jsonl", '\ufeff{"key": "7", "caption": "a dog"}')
    for name, columns in (("list", []), ("rows.jsonl", ["caption"])):
        cfg = Captions(str(tmp_path / name), on="key", column=columns)
        assert reading.read_list(cfg)[0] == {"7": ("a dog",)}


def test_a_split_file_has_a_name_a_line(tmp_path):
    """White space is part of a name; a file of which no name has a caption is an error."""
    (tmp_path / "captions.txt").write_text("image,caption\nmy dog.jpg,a dog\nb.jpg,b\n")
    (tmp_path / "test.txt").write_text("my dog.jpg\n")
    assert [r.id for r in retrieval.load(tmp_path, images=tmp_path, split="test.txt").records] == ["my dog.jpg"]
    (tmp_path / "test.txt").write_text("dog\n")
    with pytest.raises(UserError, match=r"none of its 1 names has a caption, as 'dog'"):
        retrieval.load(tmp_path, images=tmp_path, split="test.txt")


def test_benchmarks_find_their_pictures_by_other_names(tmp_path, capsys):
    """Where the section's folder has the file in another case, or flat; counted as the authors name them otherwise."""
    draw(tmp_path / "images" / "DOG.JPG")
    draw(tmp_path / "images" / "cat.jpg")
    row = {"filepath": "val", "split": "test", "sentences": [{"raw": "a"}]}
    rows = [row | {"filename": name} for name in ("dog.jpg", "cat.jpg")]
    (tmp_path / "list.json").write_text(json.dumps({"images": rows}))
    section = BenchmarkSection("retrieval", path=str(tmp_path / "list.json"), images=str(tmp_path / "images"))
    benchmark = benchmark_module.load_benchmark("retrieval", section)
    assert [Path(record.images[0]).name for record in benchmark.records] == ["DOG.JPG", "cat.jpg"]
    rows += [row | {"filename": "cat.jpg", "filepath": "train"}]
    (tmp_path / "list.json").write_text(json.dumps({"images": rows}))
    benchmark = benchmark_module.load_benchmark("retrieval", section)
    assert [Path(record.images[0]).is_file() for record in benchmark.records] == [True, False, False]
    assert "'val/cat.jpg' and 'train/cat.jpg' are one file" in capsys.readouterr().err
