"""The endpoint captioner: what it sends, and what it keeps of the answers."""

import base64
import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare.captioners import endpoint
from tests.captioned import captioned
from tests.chat_server import completion_body, prompt, serve


def described(body):
    """A caption that tells the size of the picture as received."""
    head, _, data = body["messages"][0]["content"][1]["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        return completion_body(f"A picture {picture.width} wide.\n\nIt is {picture.height} high.")


@pytest.fixture
def pictures(tmp_path):
    """A wide and a tall picture and one that cannot be decoded."""
    Image.new("RGB", (400, 100), "red").save(tmp_path / "wide.png")
    Image.new("RGB", (30, 60), "blue").save(tmp_path / "tall.jpg")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    return [Sample(n, str(tmp_path / n), ("old", "older")) for n in ("wide.png", "broken.jpg", "tall.jpg")]


def test_captions_replace_those_of_the_data(server, pictures, monkeypatch):
    """The query of Figure 3 and the picture are sent; answers become one paragraph; a broken picture is counted."""
    monkeypatch.setattr(endpoint, "IMAGE_SIDE", 200)
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)))
        samples, counts = captioned(endpoint, pictures, cfg)
        again, repeated_counts = captioned(endpoint, pictures, cfg)
    wide, tall = samples
    assert (wide.id, wide.captions) == ("wide.png", ("A picture 200 wide. It is 50 high.",))
    assert (tall.id, tall.captions) == ("tall.jpg", ("A picture 30 wide. It is 60 high.",))
    assert counts["failed_unreadable_picture"] == 1
    assert prompt(at.requests[0]).startswith("Can you please describe this image in a long and detailed paragraph?")
    assert len(at.requests) == 2
    assert again == samples
    assert repeated_counts["cached"] == 2


def test_another_picture_of_the_same_name_is_asked_anew(server, pictures):
    """The cache knows pictures by their bytes."""
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)))
        captioned(endpoint, pictures[:1], cfg)
        Image.new("RGB", (44, 55)).save(pictures[0].image)
        samples, _ = captioned(endpoint, pictures[:1], cfg)
    assert samples[0].captions == ("A picture 44 wide. It is 55 high.",)


def test_each_shard_keeps_its_own_answers(server, pictures, tmp_path):
    """In a file of its own beside `cache`, another data set's elsewhere."""
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)))
        for shard, samples in (("00000", pictures[:1]), ("00001", pictures[2:])):
            captioned_samples, counts = captioned(endpoint, samples, cfg, shard)
            assert (len(captioned_samples), counts["answered"]) == (1, 1)
        again, _ = captioned(endpoint, pictures[2:], cfg, "00001")
        captioned(endpoint, pictures[2:], cfg, "00001", data=Data("coco", "other.json", ".", captioner="endpoint"))
    assert again == captioned_samples
    assert len(at.requests) == 3
    folders = (tmp_path / "cache" / "answers.shards").iterdir()
    names = sorted(sorted(file.stem for file in folder.iterdir()) for folder in folders)
    assert names == [["00000", "00001"], ["00001"]]


def test_pictures_within_an_archive(server, pictures, tmp_path):
    """They are sent, and known again by their bytes, wherever those lie; one whose archive is cut short is counted."""
    raw = Path(pictures[0].image).read_bytes()
    (tmp_path / "a.tar").write_bytes(b"head" + raw)
    packed = replace(pictures[0], image=str(tmp_path / "a.tar"), offset=4, length=len(raw))
    with serve(described) as at:
        cfg = endpoint.Config(**vars(server(at.url)))
        samples, _ = captioned(endpoint, [packed], cfg)
        _, counts = captioned(endpoint, [pictures[0], replace(packed, length=len(raw) + 1)], cfg)
    assert samples[0].captions == ("A picture 400 wide. It is 100 high.",)
    assert (counts["cached"], counts["failed_unreadable_picture"], len(at.requests)) == (1, 1, 1)
