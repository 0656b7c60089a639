"""One reader a format: training and benchmarks read the same pictures and captions from the same files."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import retrieval
from compclip.config.sections import Data
from compclip.prepare.sources import coco, flickr8k, img2dataset, karpathy, webdataset
from tests.data import reading, tar_files
from tests.data.reading import put

RAW = tar_files.picture(8, 8)


def karpathy_record(folder, split="train", name="1.jpg"):
    return {"filename": name, "filepath": folder, "split": split, "sentences": [{"raw": folder}, {"raw": "two"}]}


KARPATHY = {"images": [karpathy_record("a"), karpathy_record("b", "restval"), karpathy_record("c", "test")]}
COCO = {
    "images": [{"id": 7, "file_name": "a/1.jpg"}, {"id": "8", "file_name": "b/1.jpg"}, {"id": 9, "file_name": "2.jpg"}],
    "annotations": [
        {"image_id": 8, "caption": "b"}, {"image_id": "7", "caption": "a"}, {"image_id": 8, "caption": "two"},
        {"image_id": 1, "caption": "of none"},
    ],
}  # fmt: skip
LINES = "a/1.jpg,a\nb/1.jpg,b\nb/1.jpg,two, and three\n"
TOKENS = "a/1.jpg#0\ta\nb/1.jpg#0\tb\nb/1.jpg#1\ttwo, and three\n"
PAIRS = [("a/1.jpg", ("a",)), ("b/1.jpg", ("b", "two, and three"))]
OF_LINES = {
    "captions.txt": f"image,caption\n{LINES}",
    "quoted.txt": f'"image","caption"\n{LINES}',
    "blank.csv": f"\n image,caption\n\n{LINES}\n",
    "returns.txt": f"image,caption\n{LINES}".replace("\n", "\r\n"),
    "results_20130124.token": TOKENS,
    "tokens.csv": TOKENS,
    "flickr30k_train_karpathy.txt": f"image,caption\n{LINES}",
}


def read_both(source, path, images, split=""):
    """Pictures below `images` with their captions, as training and as retrieval read them, and the counts of both."""
    counts = Counter()
    cfg = Data(source=source.__name__.rpartition(".")[2], path=str(path), images=str(images), captioner="none")
    samples = [(Path(s.image), s.captions) for s in source.records(cfg, counts)]
    benchmark = retrieval.load(path, images=images, split=split)
    records = [(Path(record.images[0]), record.texts) for record in benchmark.records]
    sides = [[(str(picture.relative_to(images)), texts) for picture, texts in side] for side in (samples, records)]
    return *sides, counts, benchmark.dropped


@pytest.mark.parametrize("name", OF_LINES)
def test_both_read_a_caption_a_line(tmp_path, name):
    """Quoted headers, blank lines, marks at the start, commas in captions; the format is known by its content."""
    samples, records, _, _ = read_both(flickr8k, put(tmp_path / name, f"\ufeff{OF_LINES[name]}"), tmp_path)
    assert samples == records == PAIRS


def test_both_read_karpathys_splits(tmp_path):
    """Train includes restval; a name in two folders is two pictures."""
    path = put(tmp_path / "dataset_coco.json", json.dumps(KARPATHY))
    samples, records, _, _ = read_both(karpathy, path, tmp_path, "train")
    assert samples == records == [("a/1.jpg", ("a", "two")), ("b/1.jpg", ("b", "two"))]
    assert [record.id for record in retrieval.load(path, split="train").records] == ["a/1.jpg", "b/1.jpg"]
    assert [record.id for record in retrieval.load(path, split="test").records] == ["1.jpg"]


def test_both_read_cocos_captions_and_count_those_of_no_image(tmp_path):
    samples, records, counts, dropped = read_both(coco, put(tmp_path / "c.json", json.dumps(COCO)), tmp_path)
    assert samples == [*records, ("2.jpg", ())] == [("a/1.jpg", ("a",)), ("b/1.jpg", ("b", "two")), ("2.jpg", ())]
    assert counts["caption_without_image"] == dropped["caption_without_image"] == 1
    path = put(
        tmp_path / "twice.json", json.dumps(COCO | {"images": [*COCO["images"], {"id": 7, "file_name": "3.jpg"}]})
    )
    cfg = Data(source="coco", path=str(path), images=str(tmp_path), captioner="none")
    for read in (lambda: list(coco.records(cfg, Counter())), lambda: retrieval.load(path)):
        with pytest.raises(UserError, match=r"twice.json: id '7' stands twice"):  # captions cannot be told apart
            read()


@pytest.mark.parametrize(("line", "fault", "count"), [
    (b'b.jpg,"open', "close a caption's quotes", "malformed_lines"),
    (b'b.jpg,"open\nin the sun, happy"', "close a caption's quotes", "malformed_lines"),
    (b"b.jpg", "expected image,caption", "malformed_lines"),
    (b"b.jpg,\xff", "not UTF-8", "invalid_utf8_lines"),
])  # fmt: skip
def test_a_damaged_line_is_counted_in_training_and_ends_a_benchmark(tmp_path, line, fault, count):
    """A gallery without one picture is another benchmark."""
    path, counts = tmp_path / "captions.txt", Counter()
    path.write_bytes(b"image,caption\na.jpg,a\n" + line + b"\nc.jpg,c\n")
    cfg = Data(source="flickr8k", path=str(path), images=str(tmp_path), captioner="none")
    assert [s.id for s in flickr8k.records(cfg, counts)] == ["a", "c"]
    assert counts == {count: 1 + line.count(b"\n")}
    with pytest.raises(UserError, match=f"captions.txt: line 3: .*{fault}"):
        retrieval.load(path)


SIDECARS = [("0", "TXT"), ("1", "caption"), ("2", "Caption"), ("3", "txt")]


@pytest.mark.parametrize("picture", ["JPG", "image"])
def test_captions_beside_pictures_in_a_tar(tmp_path, picture):
    """Whatever case their endings are in, with a mark at the start; a picture without is counted by both sides."""
    members = [("4.jpg", RAW), ("4.text", b"lost")]
    for key, ending in SIDECARS:
        members += [(f"{key}.{picture}", RAW), (f"{key}.{ending}", b"\xef\xbb\xbfx")]
    tar = tar_files.write(tmp_path / "0.tar", members)
    cfg = Data(source="webdataset", path=str(tmp_path), images=str(tmp_path), captioner="none")
    samples = list(webdataset.records(cfg, Counter(), str(tar)))
    benchmark = retrieval.load(tmp_path)
    assert [(s.id, s.captions) for s in samples if s.captions] == [(f"0/{key}", ("x",)) for key, _ in SIDECARS]
    assert [(r.id, r.texts) for r in benchmark.records] == [(f"0/{key}", ("x",)) for key, _ in SIDECARS]
    _, counts = reading.read_source(webdataset, cfg)
    assert counts["no_caption"] == benchmark.dropped["no_captions"] == 1


def test_captions_beside_pictures_in_a_folder(tmp_path):
    """The .txt is taken where there are two; what is missing or no text is counted, in folders of their own too."""
    contents = {f"{key}.{ending}": f"{ending} {key}" for key, ending in (*SIDECARS, ("3", "caption"), ("4", "text"))}
    for name, caption in (contents | {"5.txt": " ", "6.txt": "lost", "7.txt": b"\xff\xfe"}).items():
        put(tmp_path / "captions" / "0" / name, caption)
    for name in (*(f"{n}.JPG" for n in range(5)), "5.png", "7.png"):
        put(tmp_path / "pictures" / "0" / name, RAW)
    cfg = Data(source="img2dataset", path=str(tmp_path / "captions"), images=str(tmp_path / "pictures"))
    samples, counts = reading.read_source(img2dataset, cfg)
    assert [(s.id, s.captions) for s in samples] == [
        ("0/0", ("TXT 0",)), ("0/1", ("caption 1",)), ("0/2", ("Caption 2",)), ("0/3", ("txt 3",))
    ]  # fmt: skip
    assert (counts["images"], counts["samples"], counts["no_caption"], counts["missing_image"]) == (8, 4, 3, 1)
    assert (counts["empty_captions"], counts["invalid_utf8_captions"]) == (1, 1)


def test_captions_that_are_no_files(tmp_path):
    """A pipe would wait for ever, a device never ends; both are counted, and so are links in a circle and folders."""
    put(tmp_path / "0" / "1.jpg", RAW)
    put(tmp_path / "0" / "1.txt", "A dog.")
    os.mkfifo(tmp_path / "0" / "2.txt")
    (tmp_path / "0" / "3.txt").symlink_to("/dev/zero")
    (tmp_path / "0" / "4.txt").symlink_to("4.txt")
    (tmp_path / "0" / "5.txt").mkdir()
    (tmp_path / "none").mkdir()
    samples, counts = reading.read_source(img2dataset, Data("img2dataset", str(tmp_path), str(tmp_path)))
    assert [s.id for s in samples] == ["0/1"]
    assert (counts["unreadable_captions"], counts["captions_outside"]) == (3, 1)
    with pytest.raises(UserError, match="no picture has a .txt or .json beside it"):
        reading.read_source(img2dataset, Data("img2dataset", str(tmp_path / "none"), str(tmp_path / "none")))
