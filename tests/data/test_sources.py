"""Sources read the official layouts, and count what they drop."""

import json
import os
from dataclasses import replace

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.sections import Data
from compclip.data import images
from compclip.prepare.sources import coco, flickr8k, karpathy
from tests.data.reading import read_source


@pytest.fixture
def folder(tmp_path):
    """Two good pictures, one wide and one tall, and a broken one."""
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg")
    Image.new("RGB", (10, 20)).save(tmp_path / "b.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no")
    return tmp_path


def data(source, path, folder, **options):
    """A Data section."""
    return Data(source=source, path=str(path), images=str(folder), **options)


def write(path, value):
    """A JSON file."""
    path.write_text(json.dumps(value))
    return path


def image(name, split="train", *texts):
    """A Karpathy record."""
    return {"filename": name, "split": split, "sentences": [{"raw": t} for t in texts]}


def test_karpathy(folder):
    """restval counts as train; missing, broken and captionless pictures are dropped and counted."""
    path = write(
        folder / "d.json",
        {
            "images": [
                image("a.jpg", "train", "A  dog.\n"),
                image("b.jpg", "restval", "A cat.", " "),
                image("gone.jpg", "train", "x"),
                image("broken.jpg", "train", "x"),
                image("a.jpg", "train"),
                image("a.jpg", "test", "not mine"),
            ]
        },
    )
    samples, counts = read_source(karpathy, data("karpathy", path, folder))
    assert [(s.id, s.captions, s.width, s.height) for s in samples] == [
        ("a", ("A dog.",), 20, 10),
        ("b", ("A cat.",), 10, 20),
    ]
    assert {k: v for k, v in counts.items() if v} == {
        "images": 5,
        "samples": 2,
        "missing_image": 1,
        "unreadable_image": 1,
        "no_caption": 1,
        "empty_captions": 1,
        "duplicate_images": 1,
    }


def test_what_stands_twice(folder):
    """Equal captions of a picture and equal pictures are counted."""
    path = write(
        folder / "d.json", {"images": [image("a.jpg", "train", "A dog.", "A  dog."), image("a.jpg", "train", "A cat.")]}
    )
    samples, counts = read_source(karpathy, data("karpathy", path, folder))
    assert [s.captions for s in samples] == [("A dog.", "A dog."), ("A cat.",)]
    assert (counts["duplicate_captions"], counts["duplicate_images"]) == (1, 1)


def test_invalid_utf8_lines_and_long_captions_are_counted(folder):
    """One broken line is dropped; a caption of 10,000 words is kept and counted."""
    long = b"word " * 10_000
    (folder / "captions.txt").write_bytes(b"image,caption\na.jpg,A dog\nb.jpg,\xff\xfe\nb.jpg," + long + b"\n")
    samples, counts = read_source(flickr8k, data("flickr8k", folder / "captions.txt", folder))
    assert counts["invalid_utf8_lines"] == 1
    assert counts["long_captions"] == 1
    assert len(samples[1].captions[0].split()) == 10_000


OF_TRAIN = {"split": "train", "sentences": []}
MALFORMED = [  # what the error must name: the record, the field, its value
    (karpathy, {}, "'images'"),
    (karpathy, {"images": [OF_TRAIN]}, "record 0: .*'filename'"),
    (karpathy, {"images": [{"split": "train", "filename": "a.jpg", "sentences": [{}]}]}, "'raw'"),
    (karpathy, {"images": [{"split": "val"}]}, "'train'.*val"),
    (karpathy, {"images": 3}, "'images'.*3"),
    (karpathy, {"images": [1]}, "record 0: .*int"),
    (karpathy, {"images": [OF_TRAIN | {"filename": 3}]}, "record 0: .*'filename'.*3"),
    (karpathy, {"images": [image("a.jpg", "train", None)]}, "record a.jpg: .*'raw'.*None"),
    (coco, {"images": [], "annotations": [{}]}, "annotation 0: .*'image_id'"),
    (coco, {"images": [], "annotations": [{"image_id": [1], "caption": "x"}]}, "'image_id'.*\\[1\\]"),
    (coco, {"images": [], "annotations": [{"image_id": 1, "caption": None}]}, "'caption'.*None"),
]


@pytest.mark.parametrize("source,value,names", MALFORMED)
def test_malformed_files(folder, source, value, names):
    """The file, the record and the field."""
    path = write(folder / "d.json", value)
    with pytest.raises(UserError, match=f"d.json.*{names}"):
        read_source(source, data("x", path, folder))


OUTSIDE = "../other/a.jpg"


def write_source_file(source, folder, name):
    """A file in which a source's only picture has this name; its caption has half a surrogate pair where JSON can."""
    if source is karpathy:
        return write(folder / "d.json", {"images": [image(name, "train", "\ud800 A dog.")]})
    if source is coco:
        document = {
            "images": [{"id": 7, "file_name": name}],
            "annotations": [{"image_id": 7, "caption": "\ud800 A dog."}],
        }
        return write(folder / "d.json", document)
    path = folder / "captions.txt"
    path.write_text(f"image,caption\n{name},A dog.\n")
    return path


@pytest.mark.parametrize("source", [karpathy, coco, flickr8k])
@pytest.mark.parametrize("name", [OUTSIDE, "link.jpg", "{}/other/a.jpg", "../other/gone.jpg"])
def test_a_picture_outside_is_refused(tmp_path, monkeypatch, source, name):
    """Before it is opened, unless the section says that it may be there."""
    for folder in ("images", "other"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (20, 10)).save(tmp_path / "other" / "a.jpg")
    (tmp_path / "images" / "link.jpg").symlink_to("../other/a.jpg")
    cfg = data("x", write_source_file(source, tmp_path, name.format(tmp_path)), tmp_path / "images")
    with (
        monkeypatch.context() as patch,
        pytest.raises(UserError, match=r"record '\w+': picture .* lies outside of images"),
    ):
        patch.setattr(images, "read_size", None)
        read_source(source, cfg)
    if "gone" not in name:
        samples, _ = read_source(source, replace(cfg, images_outside=True))
        assert len(samples) == 1


@pytest.mark.parametrize("source", [karpathy, coco])
def test_halves_of_surrogate_pairs_are_repaired_and_counted(folder, source):
    """Where captions enter data/<name>, whoever wrote them."""
    cfg = data(source.__name__.rpartition(".")[2], write_source_file(source, folder, "a.jpg"), folder, captioner="none")
    (sample,), counts = read_source(source, cfg)
    assert counts["repaired_captions"] == 1
    assert sample.captions == ("\ufffd A dog.",)


def test_a_name_that_no_table_takes_is_unreadable(folder):
    """A byte that is no UTF-8 in a file's name; JSON can say it."""
    os.link(folder / "a.jpg", os.fsencode(folder) + b"/\xff.jpg")
    path = write(
        folder / "d.json",
        {"images": [image("\udcff.jpg", "train", "x"), image("a\0.jpg", "train", "x"), image("b.jpg", "train", "y")]},
    )
    samples, counts = read_source(karpathy, data("karpathy", path, folder))
    assert ([s.id for s in samples], counts["unreadable_image"], counts["missing_image"]) == (["b"], 1, 1)


def test_real_coco(shared_data):
    """154 photographs, 770 captions."""
    cfg = data("coco", shared_data / "coco/annotations/captions_val2017.json", shared_data / "coco/val2017")
    samples, counts = read_source(coco, cfg)
    assert (len(samples), sum(len(s.captions) for s in samples)) == (154, 770)
    assert counts["missing_image"] == counts["unreadable_image"] == 0


def test_real_flickr8k(shared_data):
    """1,000 photographs with five captions each; a limit takes the first ones."""
    cfg = data("flickr8k", shared_data / "flickr8k/captions.txt", shared_data / "flickr8k/Images")
    samples, _ = read_source(flickr8k, cfg)
    assert (len(samples), {len(s.captions) for s in samples}) == (1000, {5})
    few, _ = read_source(flickr8k, data("flickr8k", cfg.path, cfg.images, limit=3))
    assert few == samples[:3]
