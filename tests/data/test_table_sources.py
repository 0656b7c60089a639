"""The same pictures and captions as tables, Hugging Face's data sets and folders: equal samples, whichever way."""

import csv
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.grid import source_config
from compclip.config.sections import Data
from compclip.data import images
from compclip.prepare.sources import folder, huggingface, table
from tests.data.reading import read_source

TEXTS = {"a": ["A dog."], "b": ["A cat.", "It sleeps."], "c/007": ["A train, two\nbridges."]}
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.fixture
def pictures(tmp_path):
    """Three pictures, one of them in a folder."""
    for number, name in enumerate(TEXTS):
        path = tmp_path / "images" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20 + number, 10), (number, 0, 0)).save(path)
    return tmp_path / "images"


def rows(picture="image", caption="caption"):
    """A row a caption."""
    return [{picture: f"{name}.png", caption: text} for name, texts in TEXTS.items() for text in texts]


def inside(pictures):
    """A table with the pictures inside and a list of captions, as the hub has them."""
    cells = [{"bytes": (pictures / f"{name}.png").read_bytes(), "path": f"{name}.png"} for name in TEXTS]
    return pa.table({"image": pa.array(cells, PICTURE), "caption": list(TEXTS.values())})


def write_csv(path, records, separator=","):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(records)


def write_stream(path, content):
    """A table as `save_to_disk` writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as writer:
        writer.write_table(content, max_chunksize=2)


def write_saved(path, content):
    write_stream(path / "data-00000-of-00001.arrow", content)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))


def open_clip_csv(path, pictures):
    write_csv(path / "t.csv", rows("filepath", "title"), "\t")


def absolute_jsonl(path, pictures):
    lines = [{"image_path": str(pictures / f"{name}.png"), "text": texts} for name, texts in TEXTS.items()]
    (path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def two_columns_parquet(path, pictures):
    records = [{"image": f"{n}.png", "one": t[0], "two": t[1] if t[1:] else None} for n, t in TEXTS.items()]
    pq.write_table(pa.Table.from_pylist(records), path / "t.parquet")


def inside_parquet(path, pictures):
    pq.write_table(inside(pictures), path / "t.parquet", row_group_size=2)


def inside_arrow(path, pictures):
    write_stream(path / "t.arrow", inside(pictures))


def shards(path, pictures):
    content = inside(pictures)
    for number in range(2):
        file = path / "data" / f"train-{number:05d}-of-00002.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(content.slice(2 * number, 2), file)
    pq.write_table(content.slice(0, 1), path / "data" / "test-00000-of-00001.parquet")


def saved(path, pictures):
    write_saved(path, inside(pictures))


def saved_splits(path, pictures):
    write_saved(path / "train", inside(pictures))
    write_saved(path / "test", inside(pictures).slice(0, 1))
    (path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))


def imagefolder(path, pictures):
    shutil.copytree(pictures, path / "train")
    write_csv(path / "train" / "metadata.csv", rows("file_name", "text"))
    write_csv(path / "test" / "metadata.csv", rows("file_name", "text")[:1])


def texts_beside(path, pictures):
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    for name, texts in TEXTS.items():
        lines = [text.replace("\n", " ") for text in texts]
        (path / f"{name}.TXT").write_text("\n".join(lines))


def json_beside(path, pictures):
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    for name, texts in TEXTS.items():
        (path / f"{name}.Json").write_text(json.dumps({"id": 7, "caption": texts if texts[1:] else texts[0]}))
    (path / "notes.json").write_text("{}")


def metadata_beside(path, pictures):
    shutil.copytree(pictures, path, dirs_exist_ok=True)
    lines = [{"file_name": f"{name}.png", "text": texts} for name, texts in TEXTS.items()]
    (path / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


WAYS = [  # source, how it is written, the path below the folder, layout
    (table, open_clip_csv, "t.csv", {}),
    (table, absolute_jsonl, "t.jsonl", {}),
    (table, two_columns_parquet, "*.parquet", {"captions": ["one", "two"]}),
    (table, inside_parquet, "t.parquet", {}),
    (table, inside_arrow, "t.arrow", {}),
    (huggingface, shards, "", {}),
    (huggingface, saved, "", {}),
    (huggingface, saved_splits, "", {}),
    (huggingface, imagefolder, "", {}),
    (folder, texts_beside, "", {"lines": True}),
    (folder, json_beside, "", {}),
    (folder, metadata_beside, "", {}),
]


@pytest.mark.parametrize("source,write,name,layout", WAYS, ids=lambda value: getattr(value, "__name__", None))
def test_equal_samples_whichever_way(tmp_path, pictures, source, write, name, layout):
    """Ids, captions, sizes and the bytes of pictures; nothing is copied."""
    path = tmp_path / "set"
    path.mkdir()
    write(path, pictures)
    files = set(tmp_path.rglob("*"))
    folder_of_pictures = pictures if name.startswith(("t.csv", "t.jsonl", "*")) else path
    samples, counts = read_source(source, Data(path=str(path / name), images=str(folder_of_pictures), layout=layout))
    assert {s.id: s.captions for s in samples} == {
        name: tuple(text.replace("\n", " ") for text in texts) for name, texts in TEXTS.items()
    }
    for sample in samples:
        content = (pictures / f"{sample.id}.png").read_bytes()
        assert images.read_bytes(sample.picture) == content
        assert sample.length in (0, len(content))
    assert counts["samples"] == counts["images"] == 3
    assert set(tmp_path.rglob("*")) == files


def test_rows_of_a_picture_are_one_sample_wherever_they_are(pictures):
    """In the order of first rows; ids are texts; other splits, lists and what names no picture are counted or read."""
    lines = ["image,caption,split,id", "b.png,\"['A cat.', 'It sleeps.']\",train,07", "a.png,['A dog.'],test,8"]
    lines += [",['x'],train,9", "c\\007.PNG,['A train.'],restval,1e5", "b.png,['Again.'],train,07", "a.png,[,train,8"]
    (pictures / "t.csv").write_text("\n".join(lines))
    layout = {"split": "split", "id": "id", "lists": True}
    samples, counts = read_source(table, Data(path=str(pictures / "t.csv"), images=str(pictures), layout=layout))
    assert [(s.id, s.captions) for s in samples] == [("07", ("A cat.", "It sleeps.", "Again.")), ("1e5", ("A train.",))]
    assert counts["rows_of_other_splits"] == counts["images_named_otherwise"] == 1
    assert counts["no_picture (first: t.csv: line 4)"] == counts["damaged_lists (first: t.csv: line 7)"] == 1


def test_a_table_lies_beside_its_pictures_or_the_command(pictures, monkeypatch):
    """Not below `images` first: a path from where the table lies, and from where the command runs."""
    monkeypatch.chdir(pictures.parent)
    for name in ("images/a.png", "a.png"):
        (pictures / "t.csv").write_text(f"image,caption\n{name},A dog.\n")
        samples, _ = read_source(table, Data(path="images/t.csv", images=str(pictures.parent)))
        assert images.read_size(samples[0].picture) == (20, 10)


@pytest.mark.parametrize("limit,groups,is_noted", [(40_000, 1, True), (40_000, 3, False), (90_000, 1, False)])
def test_large_row_groups_are_noted(tmp_path, monkeypatch, capsys, limit, groups, is_noted):
    """By the bytes that one picture makes be decoded."""
    monkeypatch.setattr(table, "LARGE_GROUP", limit)
    content = pa.table({"image": [bytes([n]) * 20_000 for n in range(3)], "caption": ["A dog."] * 3})
    pq.write_table(content, tmp_path / "t.parquet", row_group_size=3 // groups)
    table.parts(Data("table", str(tmp_path / "t.parquet"), images=str(tmp_path)))
    assert (f"{tmp_path}/t.parquet: " in capsys.readouterr().err) == is_noted


def test_a_picture_outside_is_refused(pictures):
    """A table from elsewhere may name any file."""
    (pictures / "t.csv").write_text("image,caption\n/etc/hosts,A dog.\n")
    with pytest.raises(UserError, match="lies outside of images"):
        read_source(table, Data(path=str(pictures / "t.csv"), images=str(pictures)))


def test_a_missing_split_or_data_set_is_named(tmp_path, pictures):
    shards(tmp_path, pictures)
    for name, split, line in (("data", "val", "no file of split 'val' among"), ("hub/name", "train", "no such folder")):
        cfg = Data(source="huggingface", path=str(tmp_path / name), images=str(tmp_path), split=split)
        with pytest.raises(UserError, match=line):
            huggingface.parts(cfg)
    saved_splits(tmp_path, pictures)
    with pytest.raises(UserError, match="unknown split 'val'"):
        huggingface.parts(Data(source="huggingface", path=str(tmp_path), images=str(tmp_path), split="val"))


def test_a_layout_that_cannot_be(pictures):
    """A column that is not there, and a parameter that a source does not have."""
    (pictures / "t.csv").write_text("image,caption\na.png,A dog.\n")
    cfg = Data(path=str(pictures / "t.csv"), images=str(pictures), layout={"captions": "captoin"})
    with pytest.raises(UserError, match="layout.captions: unknown column 'captoin'; did you mean 'caption'"):
        read_source(table, cfg)
    with pytest.raises(UserError, match="layout: source 'coco' has no options"):
        source_config(Data(source="coco", layout={"captions": "x"}))
