"""The endpoint captioner, and the stage recaption with it."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare import shard_stages
from compclip.prepare.captioners import endpoint
from tests.captioned import captioned
from tests.chat_server import completion_body, prompt, serve
from tests.data.reading import in_folder


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
    assert {s.id: s.captions for s in samples} == {
        "wide.png": ("A picture 200 wide. It is 50 high.",),
        "tall.jpg": ("A picture 30 wide. It is 60 high.",),
    }
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


def test_the_recaption_stage(server, tmp_path, pictures):
    """From params.yaml's words to a shard and counts.json."""
    records = [{"filename": s.id, "split": "train", "sentences": [{"raw": "old"}]} for s in pictures]
    (tmp_path / "d.json").write_text(json.dumps({"images": records}))
    with serve(described) as at:
        options = {"url": at.url, "model": "m", "cache": str(tmp_path / "c.sqlite")}
        data = Data("karpathy", str(tmp_path / "d.json"), str(tmp_path), captioner="endpoint", options=options)
        counts = shard_stages.run_stage("recaption", SafeName("x", "data"), data, tmp_path)
    assert sorted(s.captions[0] for s in in_folder(tmp_path / "data" / "x")) == [
        "A picture 30 wide. It is 60 high.",
        "A picture 400 wide. It is 100 high.",
    ]
    assert counts["answered"] == 2
    assert json.loads((tmp_path / "data" / "x" / "counts.json").read_text()) == counts


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
    assert sorted(sorted(file.name for file in folder.iterdir()) for folder in folders) == [
        ["00000.sqlite", "00001.sqlite"],
        ["00001.sqlite"],
    ]


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
