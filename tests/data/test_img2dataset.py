"""Web data as img2dataset leaves it: shards of pictures with captions beside them."""

import os

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.sections import Data
from compclip.prepare.sources import img2dataset
from tests.data import reading


def sample(folder, name, caption, picture=True):
    """A picture, its caption and the JSON that img2dataset writes beside them."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".txt").write_bytes(caption)
    path.with_suffix(".json").write_text("{}")
    if picture:
        Image.new("RGB", (20, 10)).save(path)


def read_folder(folder, **options):
    return reading.read_source(img2dataset, Data(source="img2dataset", path=str(folder), images=str(folder), **options))


def test_shards_in_order_and_counts(tmp_path):
    sample(tmp_path, "00001/000010000.png", b"A train.  On a bridge.\n")
    sample(tmp_path, "00000/000000001.jpg", b"A dog.")
    sample(tmp_path, "00000/000000002.jpg", b"lost", picture=False)
    sample(tmp_path, "00000/000000003.jpg", b" ")
    sample(tmp_path, "00000/000000004.jpg", b"\xff\xfe")
    samples, counts = read_folder(tmp_path)
    assert [(s.id, s.captions, s.width, s.height) for s in samples] == [
        ("00000/000000001", ("A dog.",), 20, 10),
        ("00001/000010000", ("A train. On a bridge.",), 20, 10),
    ]
    assert {k: v for k, v in counts.items() if v} == {
        "images": 5,
        "samples": 2,
        "missing_image": 1,
        "empty_captions": 1,
        "no_caption": 2,
        "invalid_utf8_captions": 1,
    }


def test_captions_that_are_no_files(tmp_path):
    """A pipe would wait for ever, a device never ends; both are counted, and so are links in a circle and folders."""
    sample(tmp_path, "0/1.jpg", b"A dog.")
    os.mkfifo(tmp_path / "0" / "2.txt")
    (tmp_path / "0" / "3.txt").symlink_to("/dev/zero")
    (tmp_path / "0" / "4.txt").symlink_to("4.txt")
    (tmp_path / "0" / "5.txt").mkdir()
    samples, counts = read_folder(tmp_path)
    assert [s.id for s in samples] == ["0/1"]
    assert counts["unreadable_captions"] == 4


def test_a_folder_without_captions_is_named(tmp_path):
    with pytest.raises(UserError, match="no picture has a .txt or .json beside it"):
        read_folder(tmp_path)
