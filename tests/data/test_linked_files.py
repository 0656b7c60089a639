"""A folder from elsewhere holds links that lead out of it: no text of the file behind one becomes a caption."""

import json
from dataclasses import replace

import pytest

from compclip.base.errors import UserError
from compclip.config.released_lists import Captions, Regions
from compclip.config.sections import Data
from compclip.prepare import region_lists
from compclip.prepare.sources import folder, huggingface, table
from tests.data import reading, tar_files

SECRET = "the key of somebody"


@pytest.fixture
def pictures(tmp_path):
    """A folder with a picture that has a caption, one that has none yet, and a secret beside the folder."""
    for name in ("0.jpg", "1.jpg"):
        reading.put(tmp_path / "set" / name, tar_files.picture())
    reading.put(tmp_path / "set" / "0.txt", "A dog.")
    return tmp_path / "set"


def link(path, content):
    """A link to a file beside the folder."""
    path.symlink_to(reading.put(path.parent.parent / f"secret{path.suffix}", content))


@pytest.mark.parametrize(("name", "content"), [("1.txt", SECRET), ("1.JSON", json.dumps({"caption": SECRET}))])
def test_a_caption_behind_a_link_is_counted(pictures, name, content):
    """Unless the section says that files may lie outside; a link within the folder is as good as a file."""
    link(pictures / name, content)
    (pictures / "2.jpg").symlink_to("0.jpg")
    (pictures / "2.txt").symlink_to("0.txt")
    cfg = Data(path=str(pictures), images=str(pictures))
    samples, counts = reading.read_source(folder, cfg)
    assert {sample.captions for sample in samples} == {("A dog.",)}
    assert counts["captions_outside"] == counts["no_caption"] == 1
    samples, _ = reading.read_source(folder, replace(cfg, images_outside=True))
    assert (SECRET,) in {sample.captions for sample in samples}


@pytest.mark.parametrize(("source", "name"), [
    (folder, "metadata.jsonl"), (huggingface, "metadata.jsonl"), (huggingface, "train-0.jsonl"), (table, "t.jsonl"),
    (table, "*.jsonl"),
])  # fmt: skip
def test_a_table_behind_a_link_is_refused(pictures, source, name):
    """Listed or fitting a pattern; one that the section itself names is read."""
    link(pictures / name.replace("*", "t"), json.dumps({"file_name": "0.jpg", "text": SECRET}) + "\n")
    path = pictures / name if "*" in name else pictures
    with pytest.raises(UserError, match="lies outside, by `..` or through a link; copy it there, or say images_out"):
        reading.read_source(source, Data(path=str(path), images=str(pictures)))
    if name == "t.jsonl":
        samples, _ = reading.read_source(source, Data(path=str(pictures / name), images=str(pictures)))
        assert samples[0].captions == (SECRET,)


def test_released_lists_have_no_links(pictures, tmp_path, monkeypatch):
    """A folder of texts by key, and one of regions; a saved set names no files elsewhere."""
    monkeypatch.chdir(tmp_path)
    link(pictures / "1.txt", SECRET)
    captions, counts = reading.read_list(Captions(file=str(pictures), on="key"))
    assert (captions, counts["captions_outside"]) == ({"0": ("A dog.",)}, 1)
    (pictures / "regions").mkdir()
    link(pictures / "regions" / "1.jsonl", "{}")
    with pytest.raises(UserError, match="is a link out of"):
        region_lists.count_rows(Regions(file=str(pictures / "regions"), on="key"))
    secret = reading.put_lines(pictures.parent / "secret.jsonl", [{"image": "0.jpg", "caption": SECRET}])
    reading.put(pictures / "state.json", json.dumps({"_data_files": [{"filename": str(secret)}]}))
    with pytest.raises(UserError, match="lies outside"):
        reading.read_source(huggingface, Data(path=str(pictures), images=str(pictures)))
