"""`compclip init` with one's own data: what is recognised, what params.yaml says of it then, and what stays."""

import json
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compclip.base.errors import UserError
from compclip.begin import __main__ as init_command
from compclip.begin import data_section
from compclip.config import project_files, read
from tests.data import picture_sets, reading, tar_files

TEXTS = ("A red dog runs.", "A blue cat sleeps.")
DRAWN = ("scene", "drawing")  # words that a project of photographs has no use for


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two pictures below `shots`; new projects are laid out without git and DVC."""
    monkeypatch.setattr(project_files, "create", lambda source, folder, grid: folder.mkdir(exist_ok=True))
    for number in range(2):
        reading.put(tmp_path / "mine" / "shots" / f"{number}.jpg", tar_files.picture(colour=6 * number))
    return tmp_path / "mine"


def begin(folder, *arguments):
    """The parameters after the command."""
    project = folder.parent / "project"
    assert init_command.main([str(project), *map(str, arguments)]) == 0
    return read.load_params(project / "params.yaml", together=True)


def write_tar(folder):
    return tar_files.write(folder / "0.tar", tar_files.sample("1", TEXTS[0]))


def write_tars(folder):
    """Two tars, which the command names at once."""
    for number, text in enumerate(TEXTS):
        tar_files.write(folder / "web" / f"{number}.tar", tar_files.sample(f"{number}", text))
    return folder / "web" / "{0..1}.tar"


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


def write_karpathy(folder):
    reading.put_karpathy(folder / "dataset_mine.json", {f"{n}.jpg": [text] for n, text in enumerate(TEXTS)})
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
    "tabs": (
        write_table("my.tsv", USUAL.replace(",", "\t")), "table", "", {"picture": "filepath", "captions": ["title"]}
    ),
    "odd names": (write_table("my.csv", ODD), "table", "shots", {"picture": "Bild", "captions": ["Satz"]}),
    "lists and splits": (
        write_table("my.csv", LISTS), "table", "shots",
        {"picture": "image", "captions": ["caption"], "lists": True, "split": "split"},
    ),
    "tar": (write_tar, "webdataset", "", {}),
    "tars in braces": (write_tars, "webdataset", "web", {}),
    "texts": (write_texts, "folder", "shots", {}),
    "parquet": (write_parquet, "huggingface", "hub", {"picture": "img", "captions": ["text"]}),
    "imagefolder": (write_imagefolder, "huggingface", "shots", {"picture": "file_name", "captions": ["text"]}),
    "nested": (write_nested, "table", "deep", {"picture": "filepath", "captions": ["title"]}),
    "coco": (write_coco, "coco", "shots", {}),
    "karpathy": (write_karpathy, "karpathy", "shots", {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_data(folder, kind):
    """Its source, where its pictures begin, its columns, how many there are."""
    write, source, images, layout = KINDS[kind]
    section = data_section.find_section(str(write(folder)), "")
    assert (section["source"], section.get("layout", {})) == (source, layout)
    assert section["images"] == str(folder / images).rstrip("/")
    survey = data_section.survey_data(section, lambda sample: None)
    numbers = {"tar": (1, 1), "lists and splits": (1, 2)}
    assert (survey.pictures, survey.captions) == numbers.get(kind, (2, 2))


def test_tars_of_two_folders(folder):
    """The pictures of each may be below its own folder."""
    tars = [
        tar_files.write(folder / name / "0.tar", tar_files.sample(name, text))
        for name, text in zip(("a", "b"), TEXTS, strict=True)
    ]
    section = data_section.find_section("::".join(map(str, tars)), "")
    assert section["images"] == f"{folder}/a::{folder}/b"
    survey = data_section.survey_data(section, lambda sample: None)
    assert (survey.pictures, survey.outside) == (2, [])


def test_a_new_project_fits_what_is_there(folder, capsys):
    """Two commands and no edit: a held-out test set, a schedule of a hundred pictures, and nothing of drawings."""
    rows = ["filepath,title"]
    for number in range(40):
        reading.put(folder / "shots" / f"{number}.jpg", tar_files.picture(colour=6 * number))
        rows.append(f"shots/{number}.jpg,A red dog and a blue cat sleep.")
    params = begin(folder, "--data", reading.put(folder / "my.csv", "\n".join(rows)))
    assert (params.grid.data, params.data["my"].exclude) == (["my"], ["my_test", "my_pairs"])
    assert params.evaluate.benchmarks == ["my_test", "my_pairs"]
    assert (params.train.batch_size, params.train.epochs, params.train.warmup_steps) == (8, 10, 2)  # 20 pictures
    assert {column.partition("/")[0] for column in params.report.columns} == {"my_test", "my_pairs"}
    text = (folder.parent / "project/params.yaml").read_text()
    assert not [word for word in DRAWN if word in text.lower()]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= 12
    assert printed[-1].endswith("compclip repro")


def test_two_data_sets_have_a_test_set_each(folder, capsys):
    """Neither trains on the other's; twelve lines are enough."""
    params = begin(folder, "--data", write_table("my.csv", USUAL)(folder), "--data", write_texts(folder))
    assert params.grid.data == ["my", "shots"] and len(capsys.readouterr().out.splitlines()) <= 12
    tests = ["my_test", "my_pairs", "shots_test", "shots_pairs"]
    assert set(params.evaluate.benchmarks) == set(params.data["my"].exclude) == set(params.data["shots"].exclude)
    assert set(params.evaluate.benchmarks) <= set(tests)


def test_a_split_of_the_data_is_the_test_set(folder):
    """As it is, and the training set is as large as before."""
    params = begin(folder, "--data", write_table("my.csv", LISTS)(folder))
    rows = [json.loads(line) for line in (folder.parent / "project/data/held_out/my/captions.jsonl").open()]
    assert [row["captions"] for row in rows] == [["A cat."]]
    assert params.data["my"].layout["split"] == "split"


def test_a_project_keeps_what_it_has(folder):
    """A second data set stands beside the first, comments stay, and a name twice is refused."""
    begin(folder, "--data", write_table("my.csv", USUAL)(folder))
    path = folder.parent / "project/params.yaml"
    path.write_text(path.read_text().replace("  lr: ", "  # by hand\n  lr: "))
    former = path.read_text()
    params = begin(folder, "--data", write_texts(folder))
    assert list(params.data) == params.grid.data == ["my", "shots"]
    assert params.data["shots"].exclude == params.data["my"].exclude
    assert "  # by hand\n" in path.read_text()
    assert [line for line in former.splitlines() if line not in path.read_text().splitlines()] == ["  data: [my]"]
    with pytest.raises(UserError, match=r"data\.shots: is in params\.yaml already"):
        begin(folder, "--data", folder / "shots")


@pytest.mark.parametrize("name", ["{}/private.png", "../private.png", "shots/../../private.png"])
def test_a_table_does_not_choose_the_folder_of_its_pictures(folder, capsys, name):
    """A name that leads out leaves the table's own folder, and is counted; alone it is refused."""
    reading.put(folder.parent / "private.png", tar_files.picture())
    row = f"{name.format(folder.parent)},A secret.\n"
    params = begin(folder, "--data", write_table("my.csv", USUAL + row)(folder))
    assert params.data["my"].images == str(folder)
    assert re.search("pictures outside of the folder, which repro refuses.*: 1, the first", capsys.readouterr().out)
    with pytest.raises(UserError, match=r"private\.png' is nowhere below .*--images"):
        begin(folder, "--data", write_table("other.csv", "filepath,title\n" + row)(folder))
    with pytest.raises(UserError, match="'0.jpg' is nowhere below"):  # the table's own folder stands in the name
        begin(folder, "--data", write_table("third.csv", "filepath,title\nmine/shots/0.jpg,A dog.\n")(folder))


@pytest.mark.parametrize(("text", "name"), [
    ("photos/my.csv", "my"), ("photos/2017", "data_2017"), ("a b/{00..09}.tar", "a_b"), ("x/*.csv", "x"),
])  # fmt: skip
def test_a_data_set_is_called_as_its_file(text, name):
    assert data_section.make_name(text, "data") == name


def test_what_is_dropped_is_counted(folder):
    section = data_section.find_section(str(write_nested(folder)), "")
    survey = data_section.survey_data(section, lambda sample: None)
    assert (len(survey.missing), survey.usable) == (1, 1)
    assert "9.jpg" in "\n".join(survey.describe())
    survey.counts = Counter(damaged_rows=3, images=2)
    assert "damaged_rows: 3" in survey.describe()[-1]


PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
NUMBERED = pa.struct([("bytes", pa.binary()), ("path", pa.int64())])


def make_cells(folder, kind=PICTURE, has_bytes=True):
    """Cells of the folder's two pictures: with their bytes, or by their paths alone."""
    cells = []
    for number in range(2):
        path = number if kind is NUMBERED else f"shots/{number}.jpg"
        content = (folder / "shots" / f"{number}.jpg").read_bytes() if has_bytes else None
        cells.append({"bytes": content, "path": path})
    return pa.array(cells, kind)


def save_to_disk(folder, files=("data-00000-of-00001.arrow",), **columns):
    """A folder as the package datasets saves it."""
    picture_sets.write_stream(folder / "data-00000-of-00001.arrow", pa.table(columns))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in files]}))
    (folder / "dataset_info.json").write_text(json.dumps({"builder_name": "x", "features": {}}))
    return folder


def write_shards(folder):
    """Two shards, the first without a row."""
    whole = pa.table({"image": make_cells(folder), "text": list(TEXTS)})
    pq.write_table(whole.slice(0, 0), folder / "train-00000-of-00002.parquet")
    pq.write_table(whole, folder / "train-00001-of-00002.parquet")


HUB_FOLDERS = {
    "saved": lambda f: save_to_disk(f, image=make_cells(f), text=TEXTS),
    "paths only": lambda f: save_to_disk(f, image=make_cells(f, has_bytes=False), text=TEXTS),
    "numeric path": lambda f: save_to_disk(f, image=make_cells(f, NUMBERED), text=TEXTS),
    "empty first shard": write_shards,
}


@pytest.mark.parametrize("name", HUB_FOLDERS)
def test_hub_folders_are_read(folder, name):
    """Their captions, and of pictures that are inside of tables their places there."""
    HUB_FOLDERS[name](folder)
    section = data_section.find_section(str(folder), "")
    samples = list(data_section.read_samples(section, Counter()))
    assert section["source"] == "huggingface" and section["layout"] == {"picture": "image", "captions": ["text"]}
    assert [sample.captions for sample in samples] == [(text,) for text in TEXTS]
    assert all(bool(sample.length) == (name != "paths only") for sample in samples)


def save_twins(folder):
    columns = [make_cells(folder), pa.array(TEXTS), pa.array(TEXTS)]
    pq.write_table(pa.Table.from_arrays(columns, names=["image", "text", "text"]), folder / "t.parquet")
    return folder


@pytest.mark.parametrize(("write", "options", "fault"), [
    (write_table("my.csv", "image,caption\n9.jpg,A dog.\n"), [], r"picture '9\.jpg' is nowhere below"),
    (write_table("my.csv", USUAL), ["--images", "elsewhere"], "give their folder with --images"),
    (write_table("my.csv", USUAL), ["--grid", "frist_hour"], "did you mean"),
    (write_table("my.csv", "nr,id\n1,2\n"), [], "no column of pictures among nr, id"),
    (lambda folder: folder / "shots", [], "no table, no tars and no texts"),
    (lambda folder: folder / "none", [], "none: no such file or folder"),
    (lambda folder: folder / "{0..2}.tar", [], r"0\.tar: no such file or folder"),
    (write_tars, ["--grid", "hard_positives_table4"], "^grid hard_positives_table4 with what you bring: .* names no rewriter"),
    (lambda f: save_to_disk(f, (), image=make_cells(f), text=TEXTS), [], "state.json: names no file"),
    (lambda f: save_to_disk(f, image=make_cells(f), text=[b"a", b"b"]), [], "column 'text' holds bytes, no texts"),
    (save_twins, [], "2 columns are called 'text'"),
])  # fmt: skip
def test_what_is_wrong_writes_nothing(folder, write, options, fault):
    with pytest.raises(UserError, match=fault):
        begin(folder, "--data", write(folder), *options)
    assert not (folder.parent / "project").exists()
