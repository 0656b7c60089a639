"""`compclip init --data`: what is looked at, and what params.yaml says of it then."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compclip.base.errors import UserError
from compclip.begin import __main__ as init_command
from compclip.config import project_files, read
from tests.data import reading, tar_files

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("A red dog runs.", "A blue cat sleeps.")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two pictures below `shots`, and a project with the default grid beside it."""
    monkeypatch.setattr(project_files, "create", lambda source, folder, grid: copy_grid(folder))
    for number in range(2):
        reading.put(tmp_path / "mine" / "shots" / f"{number}.jpg", tar_files.picture())
    return tmp_path / "mine"


def copy_grid(folder):
    """Only the grid of a new project."""
    folder.mkdir()
    (folder / "params.yaml").write_text((ROOT / "params.yaml").read_text())


def begin(folder, data, *options):
    """The section that the command writes, and the grid's data sets."""
    project = folder.parent / "project"
    assert init_command.main([str(project), "--data", str(data), *options]) == 0
    params = read.load_params(project / "params.yaml")
    return params.data, params.grid.data


def write_tar(folder):
    return tar_files.write(folder / "0.tar", tar_files.sample("1", TEXTS[0]))


def write_table(name, text):
    return lambda folder: reading.put(folder / name, text)


def write_texts(folder):
    for number, text in enumerate(TEXTS):
        reading.put(folder / "shots" / f"{number}.txt", text)
    return folder / "shots"


def write_parquet(folder):
    rows = [{"img": {"bytes": tar_files.picture(), "path": None}, "score": 0.5, "text": text} for text in TEXTS]
    (folder / "hub").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "hub" / "train-00000-of-00001.parquet")
    return folder / "hub"


def write_imagefolder(folder):
    rows = [{"file_name": f"{number}.jpg", "text": text} for number, text in enumerate(TEXTS)]
    return reading.put_lines(folder / "shots" / "metadata.jsonl", rows).parent


def write_coco(folder):
    reading.put_coco(folder / "captions_mine.json", {f"{n}.jpg": [text] for n, text in enumerate(TEXTS)})
    return folder


def write_nested(folder):
    """The first picture is missing, the second is named with a folder of its own."""
    (folder / "deep").mkdir()
    (folder / "shots").rename(folder / "deep" / "shots")
    return write_table("my.csv", USUAL.replace("shots/0.jpg", "shots/9.jpg"))(folder)


USUAL = "filepath,title\nshots/0.jpg,A red dog runs.\nshots/1.jpg,A blue cat sleeps.\n"
ODD = "nr;Bild;Satz\n7;0.jpg;A red dog runs.\n8;1.jpg;A blue cat sleeps.\n"
LISTS = 'image,caption,split\n0.jpg,"[""A dog."", ""Red.""]",train\n1.jpg,"[""A cat.""]",test\n'
KINDS = {
    "table": (write_table("my.csv", USUAL), "table", "", {"picture": "filepath", "captions": ["title"]}),
    "odd names": (write_table("my.csv", ODD), "table", "shots", {"picture": "Bild", "captions": ["Satz"]}),
    "lists and splits": (
        write_table("my.csv", LISTS), "table", "shots",
        {"picture": "image", "captions": ["caption"], "lists": True, "split": "split"},
    ),
    "tar": (write_tar, "webdataset", "", {}),
    "texts": (write_texts, "folder", "shots", {}),
    "parquet": (write_parquet, "huggingface", "hub", {"picture": "img", "captions": ["text"]}),
    "imagefolder": (write_imagefolder, "huggingface", "shots", {"picture": "file_name", "captions": ["text"]}),
    "nested": (write_nested, "table", "deep", {"picture": "filepath", "captions": ["title"]}),
    "coco": (write_coco, "coco", "shots", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_data(folder, capsys, kind):
    """Its source, where its pictures begin, its columns; what it holds is printed."""
    write, source, images, layout = KINDS[kind]
    data, in_grid = begin(folder, write(folder))
    ((name, section),) = data.items()
    assert in_grid == [name]
    assert (section.source, section.images, section.layout) == (source, str(folder / images).rstrip("/"), layout)
    printed = capsys.readouterr().out
    assert ("1 picture" if kind in ("tar", "lists and splits") else "2 pictures, 2 captions") in printed


def test_a_schedule_that_does_not_fit_is_said(folder, capsys):
    """Two pictures are no step of the default grid, whose warm-up takes thirty."""
    begin(folder, write_table("my.csv", USUAL)(folder))
    assert "train: 0 steps of 64 pictures, the first 30 to warm up" in capsys.readouterr().err


def test_a_project_keeps_what_it_has(folder):
    """A second data set stands beside the first, comments stay, and a name twice is refused."""
    begin(folder, write_table("my.csv", USUAL)(folder))
    data, in_grid = begin(folder, write_texts(folder))
    assert list(data) == in_grid == ["my", "shots"]
    assert "# of one run; the cells" in (folder.parent / "project/params.yaml").read_text()
    with pytest.raises(UserError, match=r"data\.shots: is in .*params\.yaml already"):
        begin(folder, folder / "shots")


@pytest.mark.parametrize("name", ["{}/private.png", "../private.png", "shots/../../private.png"])
def test_a_table_does_not_choose_the_folder_of_its_pictures(folder, capsys, name):
    """A name that leads out leaves the table's own folder, and is counted; alone it is refused."""
    reading.put(folder.parent / "private.png", tar_files.picture())
    row = f"{name.format(folder.parent)},A secret.\n"
    data, _ = begin(folder, write_table("my.csv", USUAL + row)(folder))
    assert data["my"].images == str(folder)
    assert f"pictures outside of {folder}: 1, the first" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"private\.png' is nowhere below .*--images"):
        begin(folder, write_table("other.csv", "filepath,title\n" + row)(folder))


def test_a_name_does_not_move_the_folder_above_the_tables(folder):
    """The table's own folder stands in the picture's name."""
    with pytest.raises(UserError, match="'0.jpg' is nowhere below"):
        begin(folder, write_table("my.csv", "filepath,title\nmine/shots/0.jpg,A dog.\n")(folder))


@pytest.mark.parametrize(("write", "options", "fault"), [
    (write_table("my.csv", "image,caption\n9.jpg,A dog.\n"), [], r"picture '9\.jpg' is nowhere below"),
    (write_table("my.csv", USUAL), ["--images", "elsewhere"], "give their folder with --images"),
    (write_table("my.csv", "nr,id\n1,2\n"), [], "no column of pictures among nr, id"),
    (lambda folder: folder / "shots", [], "no table, no tars and no texts"),
    (lambda folder: folder / "none", [], "none: no such file or folder"),
])  # fmt: skip
def test_what_is_wrong_writes_nothing(folder, write, options, fault):
    with pytest.raises(UserError, match=fault):
        begin(folder, write(folder), *options)
    assert not (folder.parent / "project").exists()
