"""Web data in tars: read where they lie, whatever they hold."""

import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.config.validation import load_section
from compclip.data import images
from compclip.data.images import MAX_BYTES
from compclip.prepare import shard_stages, shard_writer
from compclip.prepare.sources import webdataset
from tests.data import reading
from tests.data.tar_files import picture, sample, write


def data(folder, **options) -> Data:
    return Data("webdataset", str(folder), str(folder), captioner="none", **options)


def read_folder(folder, **options):
    return reading.read_source(webdataset, data(folder, **options))


def test_tars_in_order_each_a_shard(tmp_path):
    """Keys, captions, sizes, addresses and places; a picture is read from where it lies."""
    wide, tall = picture(20, 10, colour=250), picture(10, 20)
    write(tmp_path / "00001.tar", sample("000010000", "A train.  On a bridge.\n", tall))
    facts = {"url": "http://x/a.jpg", "sha256": "ab" * 32}
    write(tmp_path / "00000.tar", [*sample("000000001", "A dog.", wide, **facts), *sample("000000002", "A cat.")])
    samples, counts = read_folder(tmp_path)
    assert [(s.id, s.captions, s.width, s.height) for s in samples] == [
        ("00000/000000001", ("A dog.",), 20, 10),
        ("00000/000000002", ("A cat.",), 20, 10),
        ("00001/000010000", ("A train. On a bridge.",), 10, 20),
    ]
    assert (samples[0].url, samples[0].sha256, samples[1].url) == ("http://x/a.jpg", "ab" * 32, "")
    assert counts == {"images": 3, "samples": 3, "openings_dropped": 0}
    assert images.read_bytes(samples[0].picture) == wide
    assert np.asarray(images.load_image(samples[0].picture))[0, 0, 0] > 240
    shard_stages.run_stage("recaption", SafeName("x", "data"), data(tmp_path), tmp_path / "out")
    assert [p.name for p in sorted((tmp_path / "out/data/x/samples").glob("*.arrow"))] == ["00000.arrow", "00001.arrow"]


def test_the_hub_s_layout(tmp_path):
    """pixparse/cc12m-wds: cc12m-train-0000.tar, a png among jpgs, capitals in a suffix, a caption in the JSON alone."""
    members = [("a.JPG", picture()), ("a.txt", b"A dog."), ("d/b.c.png", picture(kind="PNG")), ("d/b.txt", b"other")]
    members += [("e.png", picture(kind="PNG")), ("e.json", b'{"caption": "A fox."}')]
    members += [("f.png", picture(kind="PNG")), ("f.json", b'{"caption": ["A cow.", "It eats.", 7]}')]
    write(tmp_path / "cc12m-train-0000.tar", members)
    samples, counts = read_folder(tmp_path)
    assert [(s.id, s.captions) for s in samples] == [
        ("cc12m-train-0000/a", ("A dog.",)),
        ("cc12m-train-0000/e", ("A fox.",)),
        ("cc12m-train-0000/f", ("A cow.", "It eats.")),  # as a folder reads it
    ]
    assert counts["no_picture"] == 1  # b.c.png is of the suffix "c.png", as webdataset's own reader has it


def test_what_cannot_be_used_is_counted(tmp_path):
    """Keys without a picture or a caption, captions that are no text, keys twice, pictures that are none or empty."""
    members = [
        *sample("1", "A dog."), ("2.txt", b"no picture"), ("3.jpg", picture()), ("4.jpg", picture()), ("4.txt", b"\xff\xfe"),
        *sample("1", "again"), ("5.jpg", b"no"), ("5.txt", b"A cat."), ("6.jpg", b""), ("6.txt", b"A cat."),
        ("7.jpg", picture()), ("7.jpg", picture(30, 30)), ("7.txt", b"A fox."),
        ("8.jpg", picture()), ("8.txt", b"x" * (webdataset.MAX_TEXT_BYTES + 1)), ("9.jpg", picture()), ("9.json", b"[1"),
    ]  # fmt: skip
    write(tmp_path / "0.tar", members)
    samples, counts = read_folder(tmp_path)
    assert [(s.id, s.width) for s in samples] == [("0/1", 20), ("0/7", 20)]
    expected = {"no_picture": 1, "no_caption": 4, "invalid_utf8_captions": 1, "duplicate_keys": 2, "unreadable_captions": 1,
                "unreadable_image": 2, "samples": 2}  # fmt: skip
    assert counts.items() >= expected.items()


def test_a_tar_that_ends_too_early(tmp_path):
    """What was before the damage is kept, and the tar is counted; the others are whole. A header that is none, too."""
    write(tmp_path / "1.tar", sample("x", "A dog."))
    path = write(tmp_path / "0.tar", [m for i in range(9) for m in sample(f"{i}", "A cat.")])
    (tmp_path / "0.tar").write_bytes(path.read_bytes()[:1500])
    samples, counts = read_folder(tmp_path)
    assert counts["damaged_tars"] == 1
    assert samples[-1].captions == ("A dog.",)
    assert all(s.captions == ("A cat.",) for s in samples[:-1])
    path = write(tmp_path / "odd" / "0.tar", [*sample("1", "A dog."), *sample("2", "A cat.")])
    with tarfile.open(path) as tar:
        header_offset = tar.getmembers()[3].offset
    raw = bytearray(path.read_bytes())
    raw[header_offset : header_offset + 100] = b"\x07" * 100  # which tarfile takes for the end of the tar
    path.write_bytes(raw)
    samples, counts = read_folder(path.parent)
    assert ([s.id for s in samples], counts["damaged_tars"]) == (["0/1"], 1)


def test_members_that_are_no_files(tmp_path):
    """Links, folders and devices are passed over; a link out of the folder is refused, unless it may be there."""
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for name, kind in (("1.jpg", tarfile.SYMTYPE), ("2.jpg", tarfile.LNKTYPE), ("d", tarfile.DIRTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        info = tarfile.TarInfo("1.txt")
        tar.addfile(info)
    write(tmp_path / "1.tar", sample("x", "A dog."))
    samples, counts = read_folder(tmp_path)
    assert ([s.id for s in samples], counts["no_picture"]) == (["1/x"], 1)
    shard_stages.run_stage("recaption", SafeName("x", "data"), data(tmp_path), tmp_path / "out")
    lines = (tmp_path / "out/data/x/samples/counts.jsonl").read_text().splitlines()
    assert [json.loads(line).get("no_picture", 0) for line in lines] == [1, 0]
    write(tmp_path / "other" / "0.tar", sample("1", "A dog."))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "0.tar").symlink_to("../other/0.tar")
    with pytest.raises(UserError, match="lies outside of images"):
        read_folder(tmp_path / "mine")
    assert len(read_folder(tmp_path / "mine", images_outside=True)[0]) == 1


def test_tars_of_several_disks(tmp_path):
    """Numbers in braces, a list in YAML, folders beside tars: in this order, each tar once, links in each folder kept."""
    for number, disk in (("08", "a"), ("09", "a"), ("10", "b")):
        write(tmp_path / disk / f"{number}.tar", sample(number, f"Number {number}."))
    write(tmp_path / "c" / "other.tar", sample("1", "Another."))
    braces = [str(tmp_path / "a/{08..09}.tar"), str(tmp_path / "{b,c}")]
    values = {"source": "webdataset", "path": braces, "images": braces, "captioner": "none"}
    section = load_section(Data, values, "data.x")
    samples, _ = reading.read_source(webdataset, section)
    assert [s.captions[0] for s in samples] == ["Number 08.", "Number 09.", "Number 10.", "Another."]
    (tmp_path / "b" / "away.tar").symlink_to("../c/other.tar")
    with pytest.raises(UserError, match="lies outside of images"):
        reading.read_source(webdataset, replace(section, path=str(tmp_path / "b"), images=str(tmp_path / "b")))
    with pytest.raises(UserError, match=r"a/12.tar: no \*.tar there"):
        read_folder(f"{tmp_path}/a/{{08..09}}.tar::{tmp_path}/a/12.tar")


def test_a_place_beyond_the_archive(tmp_path):
    """As after a tar was replaced by a shorter one: an unreadable picture, which training passes over."""
    write(tmp_path / "0.tar", sample("1", "A dog."))
    (record,), _ = read_folder(tmp_path)
    with pytest.raises(images.ImageError, match="the archive ends within this picture"):
        images.load_image(replace(record, offset=10**9).picture)
    with pytest.raises(images.ImageError, match="bytes are more than"):
        images.load_image(replace(record, length=MAX_BYTES + 1).picture)
    with pytest.raises(images.ImageError, match="no such picture"):
        images.load_image(replace(record, image=str(tmp_path / "gone.tar")).picture)


def test_half_a_surrogate_pair_in_what_is_said_of_a_picture_costs_no_other(tmp_path):
    """JSON can write one, as a checksum too, and no shard can hold it."""
    members = [*sample("a", "A dog."), ("b.jpg", picture()), ("b.txt", b"A cat."), ("b.json", b'{"sha256": "\\ud800"}')]
    write(tmp_path / "0.tar", members)
    shard_stages.run_stage("recaption", SafeName("x", "data"), data(tmp_path), tmp_path)
    (shard,) = (tmp_path / "data/x/samples").glob("*.arrow")
    assert [(s.id, s.sha256) for s in shard_writer.load_samples(shard)] == [("0/a", ""), ("0/b", "\ufffd")]
