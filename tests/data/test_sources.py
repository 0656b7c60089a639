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
from tests.data.reading import put, put_coco, put_karpathy, read_source


@pytest.fixture
def folder(tmp_path):
    """Two good pictures, one wide and one tall, and a broken one."""
    Image.new("RGB", (20, 10)).save(tmp_path / "a.jpg")
    Image.new("RGB", (10, 20)).save(tmp_path / "b.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no")
    return tmp_path


def data(source, path, folder, **options):
    return Data(source=source, path=str(path), images=str(folder), **options)


def image(name, split="train", *texts):
    return {"filename": name, "split": split, "sentences": [{"raw": t} for t in texts]}


def test_karpathy(folder):
    """restval counts as train; missing, broken and captionless pictures are dropped and counted, what stands twice stays."""
    images = [
        image("a.jpg", "train", "A  dog.\n", "A dog."), image("b.jpg", "restval", "A cat.", " "), image("gone.jpg", "train", "x"),
        image("broken.jpg", "train", "x"), image("a.jpg", "train"), image("a.jpg", "test", "not mine"),
        image("b.jpg", "train", "word " * 1001),
    ]  # fmt: skip
    path = put(folder / "d.json", json.dumps({"images": images}))
    samples, counts = read_source(karpathy, data("karpathy", path, folder))
    assert [(s.id, s.captions[0][:8], s.width, s.height) for s in samples] == [
        ("a", "A dog.", 20, 10), ("b", "A cat.", 10, 20), ("b", "word wor", 10, 20)
    ]  # fmt: skip
    once = ("missing_image", "unreadable_image", "no_caption", "empty_captions", "duplicate_captions", "long_captions")
    assert +counts == {"images": 6, "samples": 3, "duplicate_images": 2} | dict.fromkeys(once, 1)


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
    path = put(folder / "d.json", json.dumps(value))
    with pytest.raises(UserError, match=f"d.json.*{names}"):
        read_source(source, data("x", path, folder))


def write_source_file(source, folder, name):
    """A file in which a source's only picture has this name; its caption has half a surrogate pair where JSON can."""
    if source is karpathy:
        return put(folder / "d.json", json.dumps({"images": [image(name, "train", "\ud800 A dog.")]}))
    if source is coco:
        return put_coco(folder / "d.json", {name: ["\ud800 A dog."]})
    return put(folder / "captions.txt", f"image,caption\n{name},A dog.\n")


@pytest.mark.parametrize("source", [karpathy, coco, flickr8k])
@pytest.mark.parametrize("name", ["../other/a.jpg", "link.jpg", "{}/other/a.jpg", "../other/gone.jpg"])
def test_a_picture_outside_is_refused(tmp_path, monkeypatch, source, name):
    """Before it is opened, unless the section says that it may be there."""
    for folder in ("images", "other"):
        (tmp_path / folder).mkdir()
    Image.new("RGB", (20, 10)).save(tmp_path / "other" / "a.jpg")
    (tmp_path / "images" / "link.jpg").symlink_to("../other/a.jpg")
    cfg = data("x", write_source_file(source, tmp_path, name.format(tmp_path)), tmp_path / "images")
    outside = r"record '\w+': picture .* lies outside of images"
    with monkeypatch.context() as patch, pytest.raises(UserError, match=outside):
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
    path = put_karpathy(folder / "d.json", {"\udcff.jpg": ["x"], "a\0.jpg": ["x"], "b.jpg": ["y"]})
    samples, counts = read_source(karpathy, data("karpathy", path, folder))
    assert ([s.id for s in samples], counts["unreadable_image"], counts["missing_image"]) == (["b"], 1, 1)


def test_real_coco_and_flickr8k(shared_data):
    """154 photographs of COCO with 770 captions; 1,000 of Flickr8k with five each, of which a limit takes the first."""
    cfg = data("coco", shared_data / "coco/annotations/captions_val2017.json", shared_data / "coco/val2017")
    samples, counts = read_source(coco, cfg)
    assert (len(samples), sum(len(s.captions) for s in samples)) == (154, 770)
    assert counts["missing_image"] == counts["unreadable_image"] == 0
    cfg = data("flickr8k", shared_data / "flickr8k/captions.txt", shared_data / "flickr8k/Images")
    samples, _ = read_source(flickr8k, cfg)
    assert (len(samples), {len(s.captions) for s in samples}) == (1000, {5})
    few, _ = read_source(flickr8k, data("flickr8k", cfg.path, cfg.images, limit=3))
    assert few == samples[:3]
