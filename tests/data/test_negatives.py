"""Negative images: joined from lists, or members of a sample's tar; counted, kept in their folder, read by training."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.names import Name
from compclip.config import grid, pictures, read
from compclip.config.sections import Data
from compclip.data import beside as beside_texts
from compclip.data import images, negatives, overlap, prepare, shards
from compclip.data.overlap import Known
from compclip.data.place import Place
from compclip.data.prepared import Prepared
from compclip.data.sample import GONE, Member, Negative, Sample
from compclip.methods import finetune
from compclip.train.batch import Views
from compclip.train.views import Maker
from tests.conftest import ROOT
from tests.data import tar_files

NAME = Name("x", "data")


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Three captioned pictures, and some that are to stand beside them, as the current folder."""
    monkeypatch.chdir(tmp_path)
    sentences = ["A red dog runs.", "A cat sits.", "A bird sings."]
    listed = [
        {"filename": f"{n}.jpg", "split": "train", "sentences": [{"raw": text}]} for n, text in enumerate(sentences)
    ]
    (tmp_path / "all.json").write_text(json.dumps({"images": listed}))
    for n in range(3):
        put(tmp_path / f"own/{n}.jpg", 10 * n)
        put(tmp_path / f"made/{n}.jpg", 100 + 10 * n)
    (tmp_path / "made/broken.jpg").write_bytes(b"no picture")
    put(tmp_path / "elsewhere.jpg", 7)
    return tmp_path


def put(path: Path, colour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_files.picture(colour=colour))


def section(**more) -> Data:
    """The data set of these pictures."""
    return Data("karpathy", "all.json", "own", captioner="none", negative_images=more)


def listed(rows: list[dict], name: str = "list.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def recaptioned(data: Data) -> tuple[list[Sample], dict]:
    """What the stage leaves, and its counts."""
    counts = prepare.run("recaption", NAME, data)
    return [s for path in sorted(Path("data/x/samples").glob("*.arrow")) for s in shards.load(path)], counts


def told(counts: dict) -> dict:
    """The counts of negative images."""
    prefix = "negative_images_"
    return {name.removeprefix(prefix): number for name, number in counts.items() if name.startswith(prefix)}


def names(samples: list[Sample]) -> list[list[str]]:
    return [[one.image for one in sample.negatives] for sample in samples]


ROWS = [
    {"image": "0.jpg", "key": "0", "caption": "A red dog runs.", "made": ["0.jpg", "1.jpg"]},
    {"image": "1.jpg", "key": "1", "caption": "A cat sits.", "made": ["gone.jpg", "broken.jpg", "2.jpg"]},
    {"image": "7.jpg", "key": "7", "caption": "A fox.", "made": "2.jpg"},
]


@pytest.mark.parametrize("on", ["image", "key", "caption"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_list_is_joined_and_what_is_missing_keeps_its_place(photos, on, kind):
    file = listed(ROWS)
    if kind == "parquet":
        rows = [row | {"made": row["made"] if isinstance(row["made"], list) else [row["made"]]} for row in ROWS]
        pq.write_table(pa.Table.from_pylist(rows), file := "list.parquet")
    samples, counts = recaptioned(section(file=file, on=on, key_column=on, column="made", images="made"))
    assert names(samples) == [["made/0.jpg", "made/1.jpg"], ["", "", "made/2.jpg"], []]
    assert told(counts) == {"rows": 3, "samples": 2, "without": 1, "missing": 1, "unreadable": 1}
    assert samples[0].negatives[0].head and samples[1].negatives[0] == GONE
    assert samples[1].captions == ("A cat sits.",)


def test_a_list_as_csv(photos):
    Path("list.csv").write_text("picture,made\n0.jpg,0.jpg\n0.jpg,1.jpg\n\n2.jpg,\n")
    samples, counts = recaptioned(
        section(file="list.csv", on="image", key_column="picture", column=["made"], images="made")
    )
    assert names(samples) == [["made/0.jpg", "made/1.jpg"], [], []]
    assert told(counts) == {"rows": 3, "empty": 1, "duplicate": 1, "samples": 1, "without": 2}


@pytest.mark.parametrize("name", ["../elsewhere.jpg", "/etc/hostname", "link.jpg"])
def test_pictures_stay_in_their_folder(photos, name):
    """By a name, and by a link; unless the section allows it."""
    (photos / "made/link.jpg").symlink_to(photos / "elsewhere.jpg")
    file = listed([{"image": "0.jpg", "made": name}])
    asked = {"file": file, "on": "image", "column": "made", "images": "made"}
    with pytest.raises(UserError, match="lies outside of images=made; correct its name, or say images_outside: true"):
        recaptioned(section(**asked))
    assert not Path("data/x/samples/manifest.json").exists()
    samples, _ = recaptioned(section(**asked, images_outside=True))
    assert len(samples) == 3


def test_a_changed_picture_or_list_makes_the_shard_anew(photos):
    file = listed(ROWS)
    data = section(file=file, on="image", column="made", images="made")
    before, _ = recaptioned(data)
    put(photos / "made/gone.jpg", 99)
    assert names(recaptioned(data)[0])[1][0] == "made/gone.jpg"
    listed(ROWS[:1])
    assert names(recaptioned(data)[0])[1] == []
    assert names(before)[1][0] == ""


def test_triplet_data(photos):
    """Members of one tar: picture, caption, negative picture and negative caption; one of them is empty, one missing."""
    tar_files.write(
        photos / "tars/shard-0.tar",
        [
            ("1.image", tar_files.picture(colour=50)), ("1.caption", b"A dog."),
            ("1.neg_image", tar_files.picture(colour=200)), ("1.neg_caption", b"A cat."),
            ("2.image", tar_files.picture()), ("2.caption", b"A fox."), ("2.neg_image", b""),
            ("3.image", tar_files.picture()), ("3.caption", b"A bee."), ("3.neg_image", b"no picture"),
        ],
    )  # fmt: skip
    tars = {"source": "webdataset", "path": "tars", "images": "tars", "captioner": "none"}
    data = Data(**tars, negative_images={"member": "neg_image"}, members=["neg_caption"])
    samples, counts = recaptioned(data)
    assert told(counts) == {"samples": 2, "without": 1, "unreadable": 1}
    assert [s.captions for s in samples] == [("A dog.",), ("A fox.",), ("A bee.",)]
    own, beside = samples[0], samples[0].negatives[0]
    assert [m.name for m in own.members] == ["neg_caption", "neg_image"]
    assert images.load(beside.picture).getpixel((0, 0))[0] > 190 > images.load(own.picture).getpixel((0, 0))[0]
    text = next(m for m in own.members if m.name == "neg_caption")
    assert images.read(Place(own.image, text.offset, text.length)) == b"A cat."
    assert [samples[1].negatives, samples[2].negatives] == [(), (GONE,)]
    texts = grid.texts_config(replace(data, texts={"negative": {"member": "neg_caption"}}))
    with beside_texts.opened(texts) as lists:
        found = beside_texts.of(lists, samples)
    assert found.texts == {"negative": [("A cat.",), (), ()]}
    assert found.counts == {"captions_with_negative": 1, "captions_without_negative": 2}
    plain, _ = recaptioned(Data(**tars))
    assert [(s.members, s.negatives) for s in plain] == [((), ())] * 3


def test_training_finds_them_by_number(photos):
    """The whole way: recaption, annotate, and a view with one picture and one that is not there."""
    data = section(file=listed(ROWS), on="image", column="made", images="made")
    for stage in ("recaption", "annotate"):
        prepare.run(stage, NAME, data)
    found = Prepared(Path("data/x"))
    assert found.negative_images(0) == (Place("made/0.jpg"), Place("made/1.jpg"))
    assert found.negative_images(1) == (Place(""), Place(""), Place("made/2.jpg"))
    assert found.negative_images(2) == ()
    view = Maker(found, 0, 8).view(1, 0, Views(negative_images=3, caption="full"))
    assert [picture is not None for picture in view.negative_images] == [False, False, True]
    prepare.run("recaption", NAME, section())
    prepare.run("annotate", NAME, section())
    assert Prepared(Path("data/x")).negative_images(0) == ()


BYTES = st.integers(0, 2**40)
NEGATIVES = st.lists(
    st.builds(Negative, st.text(st.characters(codec="utf-8")), BYTES, BYTES, st.integers(0, 2**64 - 1))
)
MEMBERS = st.lists(st.builds(Member, st.sampled_from(["neg_image", "neg_caption"]), BYTES, BYTES))


@given(st.lists(st.tuples(NEGATIVES, MEMBERS), max_size=5))
def test_samples_come_back_as_they_were(tmp_path_factory, given_samples):
    """From a shard, and their places from a column of the shards that training reads."""
    samples = [
        Sample(str(n), "t.tar", ("A dog.",), negatives=tuple(own), members=tuple(members))
        for n, (own, members) in enumerate(given_samples)
    ]
    path = tmp_path_factory.getbasetemp() / "samples.arrow"
    shards.save(path, samples)
    assert shards.load(path) == samples
    has = {name for name in shards.MORE if any(getattr(s, name) for s in samples)}
    assert set(shards.read_batch(path, "recaption").schema.names) == {*shards.SCHEMA.names, *has}
    for array in negatives.column(samples).values():
        places = negatives.Places(array)
        assert [places[row] for row in range(len(samples))] == [
            tuple(one.picture for one in sample.negatives) for sample in samples
        ]


def test_a_benchmarks_pictures_among_them(tmp_path):
    """Counted with the data set's own, once a sample; left out, they leave their place empty."""
    known = Known(frozenset({7}), frozenset({5}), frozenset())
    coco, bytes_, free = Negative("coco/000000000007.jpg"), Negative("a.jpg", head=5), Negative("b.jpg", head=6)
    samples = [
        Sample("a", "a.jpg", ("A dog.",), head=5, negatives=(coco,)),
        Sample("b", "b.jpg", ("A dog.",), head=8, negatives=(free, coco, bytes_)),
        Sample("c", "c.jpg", ("A dog.",), head=9, negatives=(GONE, free)),
    ]
    path = tmp_path / "00000.arrow"
    shards.save(path, samples)
    assert overlap.shared([path], {"v": known}) == {"v": {"bytes": 1, "coco_id": 1, "pictures": 2}}
    assert overlap.shared([path], {"v": known}, ["v"]) == {"v": {}}
    kept, counts = overlap.without(samples, {"v": known})
    assert [s.negatives for s in kept] == [(free, GONE, GONE), (GONE, free)]
    assert counts == Counter(excluded_v=1, excluded_negative_images_v=2)


@pytest.mark.parametrize("spoil", ["offsets", "images", "type"])
def test_a_damaged_column_is_an_error(spoil):
    """Never a read beyond the buffer; the last edge is right, and Arrow looks at no other."""
    samples = [Sample(name, "a", (), negatives=(Negative(name, 1, 2),)) for name in "bc"]
    array = negatives.column(samples)[negatives.COLUMN]
    edges = pa.array([0, 99, 2], pa.int32())
    if spoil == "offsets":
        array = pa.ListArray.from_arrays(edges, array.values)
    elif spoil == "images":
        fields = [pa.StringArray.from_buffers(2, edges.buffers()[1], pa.py_buffer(b"bc"))]
        fields += [array.values.field(name) for name in ("offset", "length")]
        values = pa.StructArray.from_arrays(fields, ["image", "offset", "length"])
        array = pa.ListArray.from_arrays(array.offsets, values)
    else:
        array = pa.array([[1], [2]])
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError, pa.ArrowException)):
        negatives.Places(array)[0]


LIST = {"file": "x.csv", "on": "image", "column": "c", "images": "i"}


@pytest.mark.parametrize("asked,says", [
    ({}, None),
    (LIST, None),
    ({"member": "neg_image"}, None),
    (LIST | {"member": "neg_image"}, "give a list, or a member of the samples' tars"),
    ({"on": "image"}, "give a list, or a member of the samples' tars"),
    (LIST | {"on": "imgae"}, "unknown on 'imgae'.*did you mean 'image'"),
    (LIST | {"images": ""}, "column, images: must be given with a file"),
    (LIST | {"column": []}, "column, images: must be given with a file"),
    (LIST | {"on": "caption"}, "key_column: must be given with on=caption"),
    (LIST | {"header": False}, "key_column: must be given with on=image, header=false"),
    (LIST | {"sorce": 1}, "sorce"),
])  # fmt: skip
def test_what_a_section_may_say(asked, says):
    if says is None:
        assert (pictures.of(section(**asked)) is None) == (not asked)
        return
    with pytest.raises(UserError, match=says):
        pictures.of(section(**asked))


def test_a_member_of_a_source_without_tars():
    more = ["data.scenes.negative_images={member: neg_image}"]
    with pytest.raises(UserError, match="data.scenes: source 'karpathy' reads no tars, and has no member 'neg_image'"):
        read.load(ROOT / "params.yaml", more)


def test_a_method_that_shows_them_needs_data_with_some(monkeypatch):
    monkeypatch.setattr(finetune, "views", lambda cfg, step: Views(negative_images=1))
    with pytest.raises(
        UserError, match="methods.finetune: shows negative images; data.scenes has none: add data.scenes"
    ):
        read.load(ROOT / "params.yaml")
    listed = "{file: a.csv, 'on': key, column: made, images: a}"
    assert read.load(ROOT / "params.yaml", [f"data.scenes.negative_images={listed}"])


def test_a_list_that_is_not_there(photos):
    with pytest.raises(UserError, match="nowhere.csv: no such list"):
        recaptioned(section(file="nowhere.csv", on="image", column="c", images="made"))
    assert not Path("data/x").exists()
