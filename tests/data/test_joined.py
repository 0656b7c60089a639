"""Released lists of captions, joined to pictures: formats as their authors write them, counts, hostile files."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.config import released_lists
from compclip.config.released_lists import Captions
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare import caption_join
from tests.data import reading, tar_files
from tests.data.reading import put, read_list

DREAMLIP = (
    "Image Path,raw_caption,shortIB_captions,longIB_captions\n"
    'http://a/1.jpg,raw,a dog,"In the image, a dog\nruns.  It is ""fast""."\n'
    "http://a/2.jpg,raw 2,a cat,\n"
)


def config(file, **options) -> Captions:
    captions = released_lists.captions_config(Data(captions={"file": str(file), **options}))
    assert captions
    return captions


def picture(name, **fields) -> Sample:
    return Sample(name, f"pictures/{name}.jpg", ("old",), **fields)


def test_dreamlip(tmp_path):
    """Several columns are several captions; a line break within quotation marks is white space."""
    file = put(tmp_path / "cc3m.csv", DREAMLIP)
    captions, counts = read_list(config(file, on="url", column=["shortIB_captions", "longIB_captions"]))
    assert captions == {
        "http://a/1.jpg": ("a dog", 'In the image, a dog runs. It is "fast".'),
        "http://a/2.jpg": ("a cat",),
    }
    assert counts == {"captions_rows": 2}
    folder_captions, _ = read_list(config(tmp_path, on="url", column="raw_caption"))
    assert folder_captions["http://a/2.jpg"] == ("raw 2",)
    _, counts = read_list(config(file, on="url", column="longIB_captions"))
    assert counts == {"captions_rows": 2, "captions_empty": 1}


def test_pixelprose_is_a_folder_of_parquet(tmp_path):
    table = {"uid": ["a"], "url": [" http://a/1.jpg "], "key": ["00012"], "vlm_caption": ["This image displays a dog."]}
    pq.write_table(pa.table(table), tmp_path / "00.parquet")
    pq.write_table(pa.table({**table, "url": [None], "vlm_caption": ["lost"]}), tmp_path / "01.parquet")
    captions, counts = read_list(config(tmp_path, on="url", column="vlm_caption"))
    assert captions == {"http://a/1.jpg": ("This image displays a dog.",)}
    assert counts == {"captions_rows": 2, "captions_without_key": 1}
    assert list(read_list(config(tmp_path, on="key", column="vlm_caption"))[0]) == ["00012"]


def test_a_list_without_header_and_rows_of_different_length(tmp_path):
    """As CLIC's programs read and write theirs: an address, then sentences without their full stops."""
    file = put(tmp_path / "clic.csv", "http://a/1.jpg,A dog runs,It is fast!\n\nhttp://a/2.jpg,A cat,It sits,It eats\n")
    bare = {"on": "url", "header": False, "key_column": 1}
    assert read_list(config(file, column="2-", **bare))[0]["http://a/2.jpg"] == ("A cat", "It sits", "It eats")
    assert read_list(config(file, column=2, **bare))[0]["http://a/1.jpg"] == ("A dog runs",)
    assert read_list(config(file, column="2-", sentences=True, **bare))[0] == {
        "http://a/1.jpg": ("A dog runs. It is fast!",),
        "http://a/2.jpg": ("A cat. It sits. It eats.",),
    }


def test_a_folder_of_texts_named_by_key(tmp_path):
    """As FSC-CLIP's coca_captions."""
    put(tmp_path / "000000012.txt", "a dog on grass\nsecond line")
    put(tmp_path / "000000013.txt", b"\xff")
    put(tmp_path / "000000014.txt", "\n")
    os.mkfifo(tmp_path / "000000015.txt")
    captions, counts = read_list(config(tmp_path, on="key"))
    assert captions == {"000000012": ("a dog on grass",)}
    assert counts == {"captions_rows": 4, "captions_not_utf8": 1, "captions_empty": 1, "captions_damaged": 1}


def test_tsv_by_the_name_of_the_picture(tmp_path):
    """As NegCLIP's train_neg_clip.tsv: a row for each caption, of which a picture has several."""
    file = put(tmp_path / "t.tsv", "filepath\ttitle\ncoco/images/a.jpg\tone\ncoco/images/a.jpg\ttwo, three\n")
    captions = caption_join.open_list(config(file, on="image", column="title"), tmp_path / "i")
    both = ("one", "two, three")
    assert captions.find(["a.jpg", "elsewhere/a.jpg", "b.jpg"]) == [both, both, ()]
    assert captions.counts["captions_duplicate"] == 1


def test_json_lines(tmp_path):
    rows = [{"url": "u1", "c": "a"}, {"url": "u2", "c": ["b", None, "\ud800"]}, {"url": "u3", "c": {"x": 1}}]
    rows += [{"url": "u4"}, 7]
    damaged = b'\n{"url": "u5", "c": "\xff"}\n{"url": \n\n'
    file = put(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)).encode() + damaged)
    captions, counts = read_list(config(file, on="url", column="c"))
    assert captions == {"u1": ("a",), "u2": ("b", "\ufffd")}
    assert counts == {"captions_rows": 7, "captions_damaged": 3, "captions_empty": 1, "captions_not_utf8": 1}


BARE = {"on": "url", "header": False}
FAULTS = [  # a file, its content, options, and what the error must name
    ("x.csv", "url,caption\nu,c\n", {"on": "url", "column": "captions"}, "'captions'.*'caption'"),
    ("x.csv", "address,caption\nu,c\n", {"on": "url", "column": "caption"}, "captions.key_column.*'address'"),
    ("x.csv", "url,caption\nu,c\n", {"on": "url"}, "captions.column.*'url', 'caption'"),
    ("x.csv", "", {"on": "url", "column": "c"}, "no row"),
    ("x.csv", "url,caption\n,c\n", {"on": "url", "column": "caption"}, r"no row .*1 captions_rows"),
    ("x.txt", "a", {"on": "url"}, "x.txt"),
    ("x.csv", "a,b\n", BARE | {"column": "caption", "key_column": 1}, "1, 2"),
    ("x.csv", "a,b\n", BARE | {"column": "2-"}, "key_column=''"),
]


@pytest.mark.parametrize("name,content,options,fault", FAULTS)
def test_what_is_wrong_is_told(tmp_path, name, content, options, fault):
    file = put(tmp_path / name, content)
    with pytest.raises(UserError, match=fault):
        caption_join.open_list(config(file, **options), tmp_path / "i")
    assert not [p for p in (tmp_path / "i").glob("*") if p.is_dir() and not p.name.startswith(".")] or "no row" in fault


def test_no_list(tmp_path):
    with pytest.raises(UserError, match="x.csv: no such list"):
        read_list(config(tmp_path / "x.csv", on="url"))
    with pytest.raises(UserError, match="this has none, or several"):
        read_list(config(tmp_path, on="url"))
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(UserError, match="not a regular file"):
        read_list(config(tmp_path / "x.csv", on="url"))


def test_joined_to_samples_and_counted_on_both_sides(tmp_path):
    file = put(tmp_path / "x.csv", "url,c\nu1,one\nu2,two\nu1,one\nu1,another\nu4,nobody\n")
    first = [picture("a", url="u1"), picture("b", url=" u2"), picture("c", url="u3"), picture("d")]
    captions = caption_join.open_list(config(file, on="url", column="c"), tmp_path / "i")
    samples, counts = captions.replace_captions(first)
    assert [(s.id, s.captions) for s in samples] == [("a", ("one", "another")), ("b", ("two",))]
    assert counts == {"samples_matched": 2, "samples_unmatched": 2}
    assert captions.counts == {"captions_rows": 5, "captions_duplicate": 2}
    assert captions.replace_captions([])[0] == []


def test_joined_by_key_and_by_picture(tmp_path):
    """A key is img2dataset's, whose id may have the shard's folder before it; a picture in a tar has no file."""
    file = put(tmp_path / "x.csv", "key,image,c\n000000001,a/000000001.jpg,one\n")
    in_tar, in_folder = picture("00000/000000001", offset=512, length=9), picture("00000/000000001")
    by_key, by_image = (
        caption_join.open_list(config(file, on=on, column="c"), tmp_path / "i") for on in ("key", "image")
    )
    assert (
        by_key.replace_captions([in_tar])[0][0].captions
        == by_image.replace_captions([in_folder])[0][0].captions
        == ("one",)
    )
    with pytest.raises(UserError, match="join by key or url"):
        by_image.replace_captions([in_tar])


def test_indexed_once_and_again_when_the_list_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, built = put(tmp_path / "x.csv", "url,c\nu,one\n"), []
    build = caption_join._build
    monkeypatch.setattr(caption_join, "_build", lambda folder, rows: [built.append(folder), build(folder, rows)])
    cfg = config(file, on="url", column="c")
    assert [caption_join.open_list(cfg).find(["u"]) for _ in range(2)] == [[("one",)]] * 2
    assert len(built) == 1
    os.utime(put(file, "url,c\nu,two\n"), ns=(1, 1))
    assert caption_join.open_list(cfg).find(["u"]) == [("two",)]
    assert len(set(built)) == 2


KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)


@given(
    rows=st.lists(st.tuples(KEYS, st.lists(KEYS, min_size=1, max_size=3)), max_size=40),
    keys=st.lists(KEYS, max_size=20),
)
def test_finds_what_a_dictionary_finds(tmp_path_factory, rows, keys):
    """Across blocks, with keys that stand several times."""
    expected: dict[str, dict] = {}
    for key, texts in rows:
        expected.setdefault(key, {}).update(dict.fromkeys(texts))
    keys += [key for key, _ in rows[:5]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caption_join, "BLOCK", 7)
        index = caption_join.open_index(tmp_path_factory.mktemp("index") / "x", lambda counts: rows)
        texts = index.find(keys)
    assert texts == [tuple(expected.get(key, ())) for key in keys]
    assert index.counts["captions_duplicate"] == len(rows) - len(expected)


def test_keys_of_one_hash_are_told_apart_and_one_on_every_row_costs_little(tmp_path, monkeypatch):
    index = caption_join.open_index(tmp_path / "x", lambda counts: (("k", [str(n)]) for n in range(1000)))
    assert index.find(["k"]) == [tuple(str(n) for n in range(caption_join.MAX_ROWS))]
    monkeypatch.setattr(caption_join, "_hash_keys", lambda keys: np.full(len(keys), 5, np.uint64))
    index = caption_join.open_index(tmp_path / "y", lambda counts: [("a", ["1"]), ("b", ["2"])])
    assert index.find(["b", "a", "c"]) == [("2",), ("1",), ()]


def archive(path: Path, samples: dict[str, str]) -> None:
    """A tar as img2dataset writes it without captions: pictures and their addresses."""
    members = []
    for key, url in samples.items():
        members += [(f"{key}.jpg", tar_files.picture(9, 8)), (f"{key}.json", json.dumps({"url": url}).encode())]
    tar_files.write(path, members)


def test_the_stage(tmp_path, monkeypatch):
    """Pictures without captions get the list's; a row that two shards ask for is one; the list's own rows are counted."""
    monkeypatch.chdir(tmp_path)
    archive(tmp_path / "00000.tar", {"000000000": "u1", "000000001": "u2", "000000002": "u3"})
    archive(tmp_path / "00001.tar", {"000010000": "u1", "000010001": "u9"})
    archive(tmp_path / "00002.tar", {"000020000": "u8"})
    rows = ["u1,A dog runs on grass.", "u2,Short.", "u4,A cat.", "u5,", '"u1\n",A dog runs on grass.']
    put(tmp_path / "list.csv", "url,c\n" + "\n".join(rows))
    caption_list = {"file": "list.csv", "on": "url", "column": ["c"]}
    cfg = Data("webdataset", ".", ".", captioner="none", captions=caption_list, min_sentences=1)
    samples, counts = reading.recaption(cfg)
    assert counts == {
        "images": 6, "samples": 3, "samples_matched": 3, "samples_unmatched": 3, "few_sentences": 1,
        "openings_dropped": 0, "captions_rows": 5, "captions_empty": 1, "captions_duplicate": 1,
    }  # fmt: skip
    assert [(s.id, s.captions) for s in samples] == [
        ("00000/000000000", ("A dog runs on grass.",)),
        ("00001/000010000", ("A dog runs on grass.",)),
    ]
    put(tmp_path / "list.csv", "url,c\nu3,A man and a woman sit.\n")
    assert reading.recaption(cfg)[1]["captions_rows"] == 1
