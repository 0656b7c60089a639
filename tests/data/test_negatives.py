"""Negative images: joined from lists, or members of a sample's tar; counted, kept in their folder, read by training."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compclip.base.errors import UserError
from compclip.config import read, released_lists
from compclip.config.sections import Data
from compclip.data import images
from compclip.data.sample import NO_IMAGE, ImageLocation, NegativeImage, Sample
from compclip.interface.views import Views
from compclip.methods import clip_in
from compclip.prepare import benchmark_overlap, shard_writer, stored_lists
from compclip.prepare.benchmark_overlap import BenchmarkImages
from compclip.train.view_maker import ViewMaker
from tests.conftest import ROOT
from tests.data import reading, tar_files
from tests.data.reading import prepare, put_karpathy, put_lines, recaption


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Three captioned pictures, and some that are to stand beside them, as the current folder."""
    monkeypatch.chdir(tmp_path)
    captions = {"0.jpg": ["A red dog runs."], "1.jpg": ["A cat sits."], "2.jpg": ["A bird sings."]}
    put_karpathy(tmp_path / "all.json", captions)
    for n in range(3):
        put(tmp_path / f"own/{n}.jpg", 10 * n)
        put(tmp_path / f"made/{n}.jpg", 100 + 10 * n)
    (tmp_path / "made/broken.jpg").write_bytes(b"no picture")
    put(tmp_path / "elsewhere.jpg", 7)
    return tmp_path


def put(path: Path, colour: int) -> None:
    reading.put(path, tar_files.picture(colour=colour))


def section(**options) -> Data:
    return Data("karpathy", "all.json", "own", captioner="none", negative_images=options)


def negative_counts(counts: dict) -> dict:
    prefix = "negative_images_"
    return {name.removeprefix(prefix): number for name, number in counts.items() if name.startswith(prefix)}


def write_list(rows: list[dict]) -> str:
    return str(put_lines(Path("list.jsonl"), rows))


def names(samples: list[Sample]) -> list[list[str]]:
    return [[negative.image for negative in sample.negatives] for sample in samples]


ROWS = [
    {"image": "0.jpg", "key": "0", "caption": "A red dog runs.", "made": ["0.jpg", "1.jpg"]},
    {"image": "1.jpg", "key": "1", "caption": "A cat sits.", "made": ["gone.jpg", "broken.jpg", "2.jpg"]},
    {"image": "7.jpg", "key": "7", "caption": "A fox.", "made": "2.jpg"},
]


@pytest.mark.parametrize("on", ["image", "key", "caption"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_list_is_joined_and_what_is_missing_keeps_its_place(photos, on, kind):
    file = write_list(ROWS)
    if kind == "parquet":
        rows = [row | {"made": row["made"] if isinstance(row["made"], list) else [row["made"]]} for row in ROWS]
        pq.write_table(pa.Table.from_pylist(rows), file := "list.parquet")
    samples, counts = recaption(section(file=file, on=on, key_column=on, column="made", images="made"))
    assert names(samples) == [["made/0.jpg", "made/1.jpg"], ["", "", "made/2.jpg"], []]
    assert negative_counts(counts) == {"rows": 3, "samples": 2, "without": 1, "missing": 1, "unreadable": 1}
    assert samples[0].negatives[0].head and samples[1].negatives[0] == NO_IMAGE
    assert samples[1].captions == ("A cat sits.",)


@pytest.mark.parametrize("name", ["../elsewhere.jpg", "/etc/hostname", "link.jpg"])
def test_pictures_stay_in_their_folder(photos, name):
    """By a name, and by a link; unless the section allows it."""
    (photos / "made/link.jpg").symlink_to(photos / "elsewhere.jpg")
    file = write_list([{"image": "0.jpg", "made": name}])
    options = {"file": file, "on": "image", "column": "made", "images": "made"}
    with pytest.raises(UserError, match="lies outside of images=made; correct its name, or say images_outside: true"):
        recaption(section(**options))
    assert not Path("data/x/samples/manifest.json").exists()
    samples, _ = recaption(section(**options, images_outside=True))
    assert len(samples) == 3


def test_a_changed_picture_or_list_makes_the_shard_anew(photos):
    file = write_list(ROWS)
    data = section(file=file, on="image", column="made", images="made")
    first_samples, _ = recaption(data)
    put(photos / "made/gone.jpg", 99)
    assert names(recaption(data)[0])[1][0] == "made/gone.jpg"
    write_list(ROWS[:1])
    assert names(recaption(data)[0])[1] == []
    assert names(first_samples)[1][0] == ""


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
    samples, counts = recaption(data)
    assert negative_counts(counts) == {"samples": 2, "without": 1, "unreadable": 1}
    assert [s.captions for s in samples] == [("A dog.",), ("A fox.",), ("A bee.",)]
    sample, negative = samples[0], samples[0].negatives[0]
    assert [m.name for m in sample.members] == ["neg_caption", "neg_image"]
    red_values = [images.load_image(item.picture).getpixel((0, 0))[0] for item in (negative, sample)]
    assert red_values[0] > 190 > red_values[1]
    text = next(m for m in sample.members if m.name == "neg_caption")
    assert images.read_bytes(ImageLocation(sample.image, text.offset, text.length)) == b"A cat."
    assert [samples[1].negatives, samples[2].negatives] == [(), (NO_IMAGE,)]
    texts = released_lists.texts_config(replace(data, texts={"negative": {"member": "neg_caption"}}))
    negative_texts, text_counts = stored_lists.find_texts(stored_lists.open_lists(texts), samples)
    assert negative_texts == {"negative": [("A cat.",), (), ()]}
    assert text_counts == {"captions_with_negative": 1, "captions_without_negative": 2}
    plain, _ = recaption(Data(**tars))
    assert [(s.members, s.negatives) for s in plain] == [((), ())] * 3


def test_edited_pairs_with_long_captions(photos):
    """CLIP-IN's grid: the first sentence is the caption that was edited, and edit and picture come from the pair's tar."""
    data = read.load_params(ROOT / "experiments/grids/clip_in_released.yaml").data["ultraedit"]
    source, edited = "Some cows on a beach", "Flamingos on a beach."
    long = "A wide beach. Three cows stand at the water."
    members = [("4.jpg", tar_files.picture()), ("4.txt", source.encode()), ("4.target.txt", edited.encode())]
    tar_files.write(photos / "pairs/0.tar", [*members, ("4.edited.jpg", tar_files.picture(colour=200))])
    long_list = write_list([{"key": "4", "source": source, "long": long}])
    data = replace(data, path="pairs", images="pairs", captions={**data.captions, "file": long_list})
    data_set, _ = prepare(data)
    view = ViewMaker(data_set, 0, 8).view(0, 0, clip_in.views(clip_in.Config(), 0))
    assert view.caption == f"{source}. {long}" and view.positives == (f"{source}.",)
    assert view.negatives == (edited,) and view.negative_images[0].getpixel((0, 0))[0] > 190


def test_training_finds_them_by_number(photos):
    """The whole way: recaption, annotate, and a view with one picture and one that is not there."""
    data = section(file=write_list(ROWS), on="image", column="made", images="made")
    data_set, _ = prepare(data)
    assert data_set.negative_images(0) == (ImageLocation("made/0.jpg"), ImageLocation("made/1.jpg"))
    assert data_set.negative_images(1) == (ImageLocation(""), ImageLocation(""), ImageLocation("made/2.jpg"))
    assert data_set.negative_images(2) == ()
    view = ViewMaker(data_set, 0, 8).view(1, 0, Views(negative_images=3, caption="full"))
    assert [picture is not None for picture in view.negative_images] == [False, False, True]
    assert prepare(section())[0].negative_images(0) == ()


def test_a_benchmarks_pictures_among_them(tmp_path):
    """Counted with the data set's own, once a sample; left out, they leave their place empty."""
    benchmark_pictures = BenchmarkImages(frozenset({7}), frozenset({5}), frozenset())
    coco, free = NegativeImage("coco/000000000007.jpg"), NegativeImage("b.jpg", head=6)
    samples = [
        Sample("a", "a.jpg", ("A dog.",), head=5, negatives=(coco,)),
        Sample("b", "b.jpg", ("A dog.",), head=8, negatives=(free, coco, NegativeImage("a.jpg", head=5))),
        Sample("c", "c.jpg", ("A dog.",), head=9, negatives=(NO_IMAGE, free)),
    ]
    path = tmp_path / "00000.arrow"
    shard_writer.save_samples(path, samples)
    shared = benchmark_overlap.count_shared([path], {"v": benchmark_pictures})
    assert shared == {"v": {"bytes": 1, "coco_id": 1, "pictures": 2}}
    assert benchmark_overlap.count_shared([path], {"v": benchmark_pictures}, ["v"]) == {"v": {}}
    remaining, counts = benchmark_overlap.exclude_images(samples, {"v": benchmark_pictures})
    assert [s.negatives for s in remaining] == [(free, NO_IMAGE, NO_IMAGE), (NO_IMAGE, free)]
    assert counts == Counter(excluded_v=1, excluded_negative_images_v=2)
