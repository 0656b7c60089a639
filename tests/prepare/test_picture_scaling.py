"""Small copies of large pictures: what they show, what stays as it is, one tar a shard, and what becomes of a kill."""

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compclip.base.files import read_json
from compclip.config.sections import Data
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare import annotate_shards, shard_work
from tests.data import reading, tar_files
from tests.data.reading import prepare

ROTATED = 6  # EXIF: shown a quarter turned


def jpeg(width: int, height: int, orientation: int = 0, seed: int = 0) -> bytes:
    """A smooth picture's bytes, without any structure that a kernel could lose."""
    noise = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    exif, raw = Image.Exif(), io.BytesIO()
    if orientation:
        exif[0x0112] = orientation
    picture = Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)
    picture.save(raw, "JPEG", exif=exif, comment=b"words of a camera", quality=95)
    return raw.getvalue()


PICTURES = {"large": jpeg(640, 480), "turned": jpeg(640, 480, ROTATED, seed=1), "fits": jpeg(300, 64, seed=2)}
PICTURES["broken"] = jpeg(640, 480, seed=3)[:2000]


@pytest.fixture
def files(tmp_path, monkeypatch) -> Data:
    """The pictures as files with a caption each, in the current folder."""
    monkeypatch.chdir(tmp_path)
    reading.put_karpathy(Path("d.json"), {f"{name}.jpg": [f"A {name} dog."] for name in PICTURES})
    for name, content in PICTURES.items():
        reading.put(Path(f"photos/{name}.jpg"), content)
    return Data("karpathy", "d.json", "photos", captioner="none", short_side=64)


@pytest.fixture
def tars(tmp_path, monkeypatch) -> Data:
    """The same pictures in one tar."""
    monkeypatch.chdir(tmp_path)
    members = [m for name, content in PICTURES.items() for m in tar_files.sample(name, f"A {name} dog.", content)]
    tar_files.write(Path("web/00000.tar"), members)
    return Data("webdataset", "web", "web", captioner="none", short_side=64)


@pytest.mark.parametrize("source", ["files", "tars"])
def test_large_pictures_are_scaled_once_and_others_stay(source, request):
    """Training reads copies that are upright; what is small or unreadable is read where it was."""
    data = request.getfixturevalue(source)
    full, _ = prepare(replace(data, short_side=0))
    originals = [full.sample(i) for i in range(4)]
    small, counts = prepare(data)
    samples = [small.sample(i) for i in range(4)]
    assert [s.id for s in samples] == [s.id for s in originals]
    assert [(s.width, s.height) for s in samples] == [(85, 64), (64, 85), (300, 64), (640, 480)]
    assert [s.picture == o.picture for s, o in zip(samples, originals, strict=True)] == [False, False, True, True]
    assert {name.removeprefix("short_side_"): n for name, n in counts.items() if name.startswith("short_side")} == {
        "scaled": 2, "fits": 1, "unreadable": 1, "bytes_before": len(PICTURES["large"]) + len(PICTURES["turned"]),
        "bytes_after": samples[0].length + samples[1].length,
    }  # fmt: skip
    assert read_json("data/x/annotation_counts.json") == counts
    for sample, original in zip(samples[:2], originals[:2], strict=True):
        copy, picture = images.load_image(sample.picture), images.load_image(original.picture)
        assert copy.size == (sample.width, sample.height)
        expected = np.asarray(picture.resize(copy.size, Image.Resampling.LANCZOS), np.float64)
        assert np.abs(np.asarray(copy, np.float64) - expected).mean() < 2
        assert "exif" not in copy.info and "comment" not in copy.info


def test_a_tar_is_named_after_its_content_and_anybody_can_read_it(files):
    data, _ = prepare(files)
    [tar] = Path("data/x/shards").glob("*.tar")
    assert data.sample(0).image == str(tar)
    assert tar.stem == hashlib.sha256(tar.read_bytes()).hexdigest()[:32]
    with tarfile.open(tar) as opened:
        members = {m.name: opened.extractfile(m).read() for m in opened}
    assert list(members) == ["large.jpg", "turned.jpg"]
    assert members["turned.jpg"] == images.read_bytes(data.sample(1).picture)


def test_the_side_is_part_of_the_data_and_equal_sides_give_equal_bytes(files):
    """And a smaller set leaves no tar of the larger one behind."""
    fingerprints = []
    for side in (0, 64, 32, 64):
        data, _ = prepare(replace(files, short_side=side))
        fingerprints.append(data.manifest.fingerprint)
        assert len(list(Path("data/x/shards").glob("*.tar"))) == (side > 0)
        assert len(list(Path(".work/shards/annotate/x").glob("*.tar"))) == (side > 0)
    assert fingerprints[1] == fingerprints[3] and len(set(fingerprints)) == 3
    same, counts = prepare(replace(files, short_side=480))  # without a large picture: no tar and the same data
    assert counts["short_side_fits"] == 4 and "short_side_scaled" not in counts
    assert fingerprints[0] == same.manifest.fingerprint
    assert not list(Path("data/x/shards").glob("*.tar"))


def test_negative_images_are_scaled_too(files):
    """By the same rule, into the same tar; a picture that stands in two places is stored once."""
    rows = [{"image": "large.jpg", "negative": "turned.jpg"}, {"image": "turned.jpg", "negative": "fits.jpg"}]
    reading.put_lines(Path("list.jsonl"), rows)
    negatives = {"file": "list.jsonl", "images": "photos", "on": "image", "column": "negative"}
    data, counts = prepare(replace(files, negative_images=negatives))
    assert data.negative_images(0) == (data.sample(1).picture,)
    assert data.negative_images(1) == (data.sample(2).picture,)
    assert counts["short_side_scaled"] == 2


def test_a_shard_whose_writer_was_killed_is_whole_after_the_next_one(files, monkeypatch):
    """The tar is there and the shard is not: both are written again, with the same bytes."""
    expected = prepare(files)[0].manifest.fingerprint
    [tar] = Path(".work/shards/annotate/x").glob("*.tar")
    for path in (*Path(".work/shards/annotate/x").glob("*.arrow"), *Path(".work/shards/annotate/x").glob("*.json")):
        path.unlink()
    tar.write_bytes(b"half a tar")
    assert prepare(files)[0].manifest.fingerprint == expected
    writes = []
    monkeypatch.setattr(shard_work, "_write", lambda *args: writes.append(args))
    prepare(files)
    assert not writes


def test_very_large_jpegs_are_compared_as_reading_gives_them(tmp_path):
    """Decoded at half of its size a picture has 1,100 rows, fewer than are allowed: it stays."""
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(2200, 2200))
    assert annotate_shards.scale_picture(ImageLocation(str(path)), 1500) == "fits"
    small = annotate_shards.scale_picture(ImageLocation(str(path)), 1000)
    assert isinstance(small, annotate_shards.SmallPicture) and (small.width, small.height) == (1000, 1000)
