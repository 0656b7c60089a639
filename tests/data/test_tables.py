"""Tables as people have them: each is read, counted with the place of its first fault, or refused in one line."""

import gzip
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compclip.base.errors import UserError
from compclip.data import images, tables
from compclip.data.sample import ImageLocation
from compclip.data.tables import TableForm

TWO = [("a.jpg", "A dog"), ("007", "A cat")]


def read(path, form):
    """The first two usual columns of a table, row by row, and the counts."""
    names = tables.read_columns(path, form)
    picture = tables.choose_column(names, "", ("1", *tables.PICTURE_COLUMNS), "picture", path)
    caption = tables.choose_column(names, "", ("2", *tables.CAPTION_COLUMNS), "captions", path)
    counts = Counter()
    rows = [tuple(row.values.values()) for row in tables.read_rows(path, [picture, caption], counts, form)]
    return rows, dict(counts)


ODD_TABLES = {  # name, bytes, form; rows, counts
    "comma": ("t.csv", b"image,caption\na.jpg,A dog\n007,A cat\n", {}, TWO, {}),
    "no end of the last line": ("t.csv", b"image,caption\na.jpg,A dog\n007,A cat", {}, TWO, {}),
    "open_clip's tab in a csv": ("t.csv", b"filepath\ttitle\na.jpg\tA dog\n007\tA cat\n", {}, TWO, {}),
    "comma in a tsv": ("t.tsv", b"image,caption\na.jpg,A dog\n007,A cat\n", {}, TWO, {}),
    "semicolon": ("t.csv", b"image;caption\na.jpg;A dog\n007;A cat\n", {}, TWO, {}),
    "separator set": ("t.csv", b"image:caption\na.jpg:A dog\n007:A cat\n", {"separator": ":"}, TWO, {}),
    "CRLF and a mark": ("t.csv", b"\xef\xbb\xbfimage,caption\r\na.jpg,A dog\r\n007,A cat\r\n", {}, TWO, {}),
    "UTF-16": ("t.csv", "image\tcaption\r\na.jpg\tA dog\r\n007\tA cat\r\n".encode("utf-16"), {}, TWO, {}),
    "compressed": ("t.csv.gz", gzip.compress(b"image,caption\na.jpg,A dog\n007,A cat\n"), {}, TWO, {}),
    "columns in another case": ("t.csv", b"Image, Caption\na.jpg,A dog\n007,A cat\n", {}, TWO, {}),
    "further columns": ("t.csv", b"n,caption,image\n1,A dog,a.jpg\n2,A cat,007\n", {}, TWO, {}),
    "no header": ("t.tsv", b"a.jpg\tA dog\n007\tA cat\n", {"header": False}, TWO, {}),
    "empty lines": ("t.csv", b"\n\nimage,caption\na.jpg,A dog\n\n \n,\n007,A cat\n", {}, TWO,
                    {"empty_rows (first: t.csv: line 5)": 2, "damaged_rows (first: t.csv: line 6)": 1}),
    "three lines in quotes": ("t.csv", b'image,caption\na.jpg,"A ""big"" dog,\nruns\nhome"\nb.jpg\n', {},
                              [("a.jpg", 'A "big" dog,\nruns\nhome')], {"damaged_rows (first: t.csv: line 5)": 1}),
    "quotes that enclose nothing": ("t.tsv", b'image\tcaption\na.jpg\t"A dog\n007\tA cat\n', {"quotes": False},
                                    [("a.jpg", '"A dog'), ("007", "A cat")], {}),
    "a text that begins with a quote": ("t.tsv", b'image\tcaption\na.jpg\t"A dog\nb.jpg\tA cat\nc.jpg\t"A cow" runs\n', {},
        [("a.jpg", '"A dog'), ("b.jpg", "A cat"), ("c.jpg", '"A cow" runs')], {"open_quotes (first: t.tsv: line 2)": 1}),
    "numbers and a quote": ("t.tsv", b'image\tcaption\n1\t"A dog\n2\tA cat\n3\tA "cow"\n', {},
        [("1", '"A dog'), ("2", "A cat"), ("3", 'A "cow"')], {"open_quotes (first: t.tsv: line 2)": 1}),
    "a quote of inches": ("t.csv", b'image,caption\na.jpg,"A dog, 5"" tall"\nb.jpg,"A cat\nc.jpg,"A cow, a hen"\nd.jpg,A "hen\n', {},
        [("a.jpg", 'A dog, 5" tall'), ("b.jpg", '"A cat'), ("c.jpg", "A cow, a hen"), ("d.jpg", 'A "hen')],
        {"open_quotes (first: t.csv: line 3)": 1}),
    "an open quote in the last line": ("t.csv", b'image,caption\na.jpg,A dog\nb.jpg,"A cat\n', {},
        [("a.jpg", "A dog"), ("b.jpg", '"A cat')], {"open_quotes (first: t.csv: line 3)": 1}),
    "two lines of which one names a picture": ("t.csv", b'image,caption\na.jpg,"A dog in\nb.jpg as a man, who runs"\n', {},
        [("a.jpg", "A dog in\nb.jpg as a man, who runs")], {}),
    "commas without quotes": ("t.csv", b"image,caption\na.jpg,A dog, a cat\n007,A cat\nb.jpg,x,y\n", {}, TWO[1:],
                              {"damaged_rows (first: t.csv: line 2)": 2}),
    "an open quote before a long line": ("t.csv", b'image,caption\nx,"open ' + b"x" * 200_000 + b"\n007,A cat\n", {}, TWO[1:],
                                         {"damaged_rows (first: t.csv: line 2)": 1}),
    "no UTF-8": ("t.csv", b"image,caption\na.jpg,\xff\xfe\n007,A cat\n", {}, TWO[1:],
                 {"not_utf8_rows (first: t.csv: line 2)": 1}),
    "Windows paths": ("t.csv", b"image,caption\nx\\a.jpg,A dog\n", {}, [("x\\a.jpg", "A dog")], {}),
    "JSON lines": ("t.jsonl", b'{"file_name": "a.jpg", "text": "A dog"}\n\n[1]\n{"file_name": 7, "text": ["A", "B"]}\n{"file_name":\n',
                   {}, [("a.jpg", "A dog"), ("7", ["A", "B"])],
                   {"empty_rows (first: t.jsonl: line 2)": 1, "damaged_rows (first: t.jsonl: line 3)": 2}),
    "JSON lines with another's value": ("t.jsonl", b'{"image": "a.jpg", "text": {"x": 1}}\n{"image": "b.jpg"}\n', {},
                                        [("b.jpg", "")], {"damaged_rows (first: t.jsonl: line 1)": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables(tmp_path, name):
    file, content, form, rows, counts = ODD_TABLES[name]
    (tmp_path / file).write_bytes(content)
    values, found = read(tmp_path / file, TableForm(**form))
    assert (sorted(values), found) == (sorted(map(tuple, rows)), counts)


REFUSED = {  # name, bytes, form; what the line says
    "empty": ("t.csv", b"\n \n", {}, "t.csv: holds no row"),
    "wrong separator": (
        "t.csv",
        b"image,caption\n",
        {"separator": ";"},
        "of 'image,caption', or correct the separator",
    ),
    "no usual column": ("t.csv", b"x,y\na.jpg,A dog\n", {}, "set picture to one of 'x', 'y'"),
    "an open quote": ("t.csv", b'image,caption\na.jpg,"A dog\n' + b"b.jpg,A cat\n" * 200, {}, "line 2: a quote"),
    "no JSON": ("t.jsonl", b"image,caption\n", {}, "t.jsonl: no line is a JSON object"),
    "no Parquet": ("t.parquet", b"PAR1 no", {}, "t.parquet: cannot be read as parquet"),
    "no Arrow": ("t.arrow", b"image,caption\n", {}, "t.arrow: cannot be read as arrow"),
    "grows": ("t.csv.gz", gzip.compress(b"image,caption\n" + b'"\n' * (1 << 20)), {}, "t.csv.gz: grows to more than"),
    "grows, JSON": ("t.jsonl.gz", gzip.compress(b"{}\n" * (1 << 20)), {}, "t.jsonl.gz: grows to more than 100"),
    "cut": ("t.csv.gz", gzip.compress(b"image,caption\na.jpg,A dog\n" * 99)[:-9], {}, "t.csv.gz: cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path, name):
    file, content, form, line = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=line) as error:
        read(tmp_path / file, TableForm(**form))
    assert "\n" not in str(error.value)


PICTURES = [b"\xff" * 10, b"", b"\xfe" * 700, *(b"%d" % i for i in range(600))]


def write_pictures(path, values, kind):
    """A table of pictures and texts, as Parquet or as either form of Arrow."""
    table = pa.table({"image": pa.array(values, kind), "caption": [str(i) for i in range(len(values))]})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=100)
        return
    open_writer = pa.ipc.new_stream if path.name == "stream.arrow" else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as file, open_writer(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


@pytest.mark.parametrize("name", ["t.parquet", "stream.arrow", "file.arrow"])
@pytest.mark.parametrize("is_struct", [True, False])
def test_pictures_inside_are_read_in_place(tmp_path, name, is_struct):
    """Each picture's bytes come from its place, in any order; what has no bytes is its path."""
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [{"bytes": p or None, "path": "x.jpg"} for p in PICTURES] if is_struct else PICTURES
    write_pictures(tmp_path / name, values, struct if is_struct else pa.binary())
    rows = list(tables.read_rows(tmp_path / name, ["image"], Counter()))
    places = [row.values["image"] for row in rows]
    assert places[1] == ("x.jpg" if is_struct else "")
    for index in (602, 0, 2, 99, 301):
        assert isinstance(places[index], ImageLocation)
        assert images.read_bytes(places[index]) == PICTURES[index]
    assert images.read_bytes(places[2], 5) == b"\xfe" * 5


def test_a_picture_of_many_rows_is_decoded_once_for_training(tmp_path):
    """In a column of two parts, as the hub has them: 64 rows at most are decoded to find them, one to read one."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([{"bytes": b"\xff" * (8 << 20), "path": "x.jpg"}] * 20, kind)
    path, table = tmp_path / "t.parquet", pa.table({"x": cells})
    pq.write_table(table, path, dictionary_pagesize_limit=1 << 30, store_schema=False)
    del cells, table
    values = [row.values["x"] for row in tables.read_rows(path, ["x"], Counter())]
    before = pa.total_allocated_bytes()
    assert len(images.read_bytes(values[19])) == 8 << 20
    assert pa.total_allocated_bytes() - before < 20 << 20


def write_repeated(path, value, rows):
    """A Parquet whose dictionary has one value for all rows."""
    kind = pa.binary() if isinstance(value, bytes) else pa.string()
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value], kind))
    options = {"dictionary_pagesize_limit": 1 << 30, "compression": "zstd", "store_schema": False}
    pq.write_table(pa.table({"x": cells}), path, **options)


@pytest.mark.parametrize("value", [b"\xff", "a"], ids=["pictures", "texts"])
def test_what_many_rows_share_is_decoded_once(tmp_path, value):
    """A file of some kilobytes: 200 rows of one cell of 8 MiB, not 1.6 GiB."""
    write_repeated(tmp_path / "t.parquet", value * (8 << 20), 200)
    before = pa.default_memory_pool().max_memory()
    values = [row.values["x"] for row in tables.read_rows(tmp_path / "t.parquet", ["x"], Counter())]
    assert len(values) == 200
    if isinstance(value, bytes):
        assert len(images.read_bytes(values[199])) == 8 << 20
    else:
        assert values[180] is values[140]  # of one batch
    assert pa.default_memory_pool().max_memory() - before < 200 << 20


def test_a_table_that_changed_or_is_compressed(tmp_path):
    """The one is an unreadable picture, the other is refused."""
    write_pictures(tmp_path / "t.parquet", [b"a"], pa.binary())
    for row, column in ((5, "image"), (0, "caption"), (0, "gone")):
        with pytest.raises(images.ImageError, match="t.parquet"):
            images.read_bytes(ImageLocation(f"{tmp_path}/t.parquet#{column}", row, 9))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.table({"image": pa.array([b"a" * 999])})
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(UserError, match="t.arrow: is compressed"):
        list(tables.read_rows(tmp_path / "t.arrow", ["image"], Counter()))


def test_texts_of_columns(tmp_path):
    """Numbers as texts, no value as none, lists; a row not UTF-8 is counted. Without a header: a column, and all behind it."""
    broken = pa.array([b"A", b"\xff", b"C"]).view(pa.string())
    columns = {"id": [7, None, 9], "text": broken, "all": [["a", None], None, []], "x": [{"a": 1}] * 3}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    counts = Counter()
    rows = [row.values for row in tables.read_rows(tmp_path / "t.parquet", ["id", "text", "all"], counts)]
    assert rows == [{"id": "7", "text": "A", "all": ["a"]}, {"id": "9", "text": "C", "all": []}]
    assert counts == {"not_utf8_rows (first: t.parquet: row 2)": 1}
    with pytest.raises(UserError, match="column 'x' holds struct<a: int64>, no text"):
        list(tables.read_rows(tmp_path / "t.parquet", ["x"], counts))
    (tmp_path / "t.tsv").write_text("a.jpg\tA dog\tIt runs\nb.jpg\tA cat\n\nc.jpg\n")
    counts = Counter()
    form = TableForm(header=False)
    rows = [row.values for row in tables.read_rows(tmp_path / "t.tsv", ["1", "2-"], counts, form)]
    assert rows == [{"1": "a.jpg", "2-": ["A dog", "It runs"]}, {"1": "b.jpg", "2-": ["A cat"]}]
    assert counts == {"empty_rows (first: t.tsv: line 3)": 1, "damaged_rows (first: t.tsv: line 4)": 1}


def test_files_folders_and_patterns(tmp_path):
    for name in ("b/2.csv", "b/1.csv", "c/3.CSV.GZ", "c/notes.md", "d/x.csv", "d/y.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({}))
    table_paths = tables.list_tables([str(tmp_path / name) for name in ("b/2.csv", "?/1.*", "c")])
    assert table_paths == [tmp_path / name for name in ("b/2.csv", "b/1.csv", "c/3.CSV.GZ")]
    for name, line in {"none.csv": "none.csv: no", "c/notes.md": "notes.md: no", "d": "several formats"}.items():
        with pytest.raises(UserError, match=line):
            tables.list_tables(str(tmp_path / name))


def write_parquet(folder, **columns):
    pq.write_table(pa.table(columns), folder / "t.parquet", compression="zstd")
    return folder / "t.parquet"


@pytest.mark.parametrize("columns", [["image", "caption"], ["image", "caption", "junk"]])
def test_a_small_file_whose_cells_are_huge_takes_no_memory(tmp_path, columns):
    """A column that nobody named is not read at all."""
    huge = ["a" * (1 << 26), "b" * (1 << 26), "c" * (1 << 26)]
    names = dict.fromkeys(columns, ["x"] * 3) | {columns[-1]: huge}
    path = write_parquet(tmp_path, **names)
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    with pytest.raises(UserError, match=f"column '{columns[-1]}' grows to 192 MiB when it is read; leave it out"):
        list(tables.read_rows(path, columns, Counter()))
    assert pa.total_allocated_bytes() == before
    if "junk" in columns:
        assert len(list(tables.read_rows(path, columns[:2], Counter()))) == 3


def test_large_cells_are_decoded_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "DECODED_BYTES", 20_000)
    rng = np.random.default_rng(0)
    path = write_parquet(tmp_path, image=[rng.bytes(5_000) for _ in range(20)], caption=["x"] * 20)
    sizes = [len(batch) for batch, _ in tables._iterate_batches(path, ["image", "caption"])]
    assert max(sizes) < 5 and sum(sizes) == 20
    assert len(list(tables.read_rows(path, ["image", "caption"], Counter()))) == 20


def test_what_python_cannot_hold_is_a_line(tmp_path):
    """A date beyond the year 9999, two columns of one name."""
    days = pa.array([3_000_000], pa.date32())
    path = write_parquet(tmp_path, image=["a.jpg"], caption=["A dog."], taken=days)
    assert list(tables.read_records(path)) == [{"image": "a.jpg", "caption": "A dog."}]
    pair = pa.table([["a"], ["b"], ["c"]], names=["image", "caption", "caption"])
    pq.write_table(pair, tmp_path / "two.parquet")
    with pytest.raises(UserError, match="two.parquet: 2 columns are called 'caption'; rename them"):
        tables.read_columns(tmp_path / "two.parquet")
    struct = pa.StructArray.from_arrays([pa.array([b"x"]), pa.array([b"y"])], names=["bytes", "bytes"])
    pq.write_table(pa.table({"image": struct, "caption": ["A"]}), tmp_path / "fields.parquet")
    with pytest.raises(UserError, match="fields.parquet"):
        list(tables.read_records(tmp_path / "fields.parquet"))
