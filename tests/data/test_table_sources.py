"""The same pictures and captions as tables, Hugging Face's data sets and folders: equal samples, whichever way."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.grid import source_config
from compclip.config.sections import Data
from compclip.data import images
from compclip.prepare.sources import folder, huggingface, table
from tests.data import picture_sets as sets
from tests.data.picture_sets import TEXTS
from tests.data.reading import read_source


@pytest.fixture
def pictures(tmp_path):
    """Three pictures, one of them in a folder."""
    return sets.write_pictures(tmp_path / "images")


WAYS = [  # source, how it is written, the path below the folder, layout
    (table, sets.open_clip_csv, "t.csv", {}),
    (table, sets.absolute_jsonl, "t.jsonl", {}),
    (table, sets.two_columns_parquet, "*.parquet", {"captions": ["one", "two"]}),
    (table, sets.inside_parquet, "t.parquet", {}),
    (table, sets.inside_arrow, "t.arrow", {}),
    (huggingface, sets.shards, "", {}),
    (huggingface, sets.saved, "", {}),
    (huggingface, sets.saved_splits, "", {}),
    (huggingface, sets.imagefolder, "", {}),
    (folder, sets.texts_beside, "", {"lines": True}),
    (folder, sets.json_beside, "", {}),
    (folder, sets.metadata_beside, "", {}),
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


def write_whole_parts(folder, form, row):
    """A data set whose pictures are inside its tables, the last row apart."""
    content = sets.make_inside(folder / "images", TEXTS)
    row_kind = sets.PICTURE if isinstance(row, dict) else pa.string()
    last = pa.table({"image": pa.array([row], row_kind), "caption": [["A secret."]]})
    if form == "table":
        pq.write_table(pa.concat_tables([content, last]), folder / "set" / "train.parquet")
    elif form == "saved":
        sets.write_stream(folder / "set" / "0.arrow", pa.concat_tables([content, last]))
        (folder / "set" / "state.json").write_text('{"_data_files": [{"filename": "0.arrow"}]}')
    else:  # a later shard, whose pictures may be names
        for number, shard in enumerate((content, last)):
            pq.write_table(shard, folder / "set" / f"train-{number}.parquet")


@pytest.mark.parametrize("name", ["{}/private.png", "../private.png", "link.png"])
@pytest.mark.parametrize("form", ["table", "saved", "later rows", "later texts"])
def test_a_picture_outside_is_refused_in_a_shard_of_its_own(tmp_path, pictures, monkeypatch, form, name):
    """Before it is opened, beside pictures inside a table, unless the section says that it may be there."""
    secret = tmp_path / "private.png"
    secret.write_bytes((pictures / "a.png").read_bytes())
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "link.png").symlink_to(secret)
    path = name.format(tmp_path)
    write_whole_parts(tmp_path, form, path if form == "later texts" else {"bytes": None, "path": path})
    cfg = Data(path=str(tmp_path / "set"), images=str(tmp_path / "set"))
    source = table if form == "table" else huggingface
    opened = list[str]()
    read_bytes = images.read_bytes
    monkeypatch.setattr(
        images, "read_bytes", lambda place, *count: opened.append(str(place)) or read_bytes(place, *count)
    )
    with pytest.raises(UserError, match="record .*lies outside of images="):
        read_source(source, cfg)
    assert not [place for place in opened if "@" not in place]
    samples, _ = read_source(source, replace(cfg, images_outside=True))
    assert len(samples) == 4


@pytest.mark.parametrize("form", ["t.parquet", "t.arrow"])
def test_pictures_inside_are_known_by_their_content(tmp_path, form):
    """As many sets of the hub have it: one name in every row, and bitmaps of equal size; a picture twice is one."""
    pictures = []
    for number in (0, 1, 2, 2, 3):
        Image.new("RGB", (64, 64), (number, 0, 0)).save(tmp_path / "x.bmp")
        pictures.append({"bytes": (tmp_path / "x.bmp").read_bytes(), "path": "image.jpg"})
    content = pa.table({"image": pa.array(pictures, sets.PICTURE), "caption": [f"Text {n}." for n in range(5)]})
    if form == "t.arrow":
        sets.write_stream(tmp_path / form, content)
    else:
        pq.write_table(content, tmp_path / form)
    samples, _ = read_source(table, Data(path=str(tmp_path / form), images=str(tmp_path)))
    assert [s.captions for s in samples] == [("Text 0.",), ("Text 1.",), ("Text 2.", "Text 3."), ("Text 4.",)]


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


def test_a_missing_split_or_data_set_is_named(tmp_path, pictures):
    sets.shards(tmp_path, pictures)
    for name, split, line in (("data", "val", "no file of split 'val' among"), ("hub/name", "train", "no such folder")):
        cfg = Data(source="huggingface", path=str(tmp_path / name), images=str(tmp_path), split=split)
        with pytest.raises(UserError, match=line):
            huggingface.parts(cfg)
    sets.saved_splits(tmp_path, pictures)
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
