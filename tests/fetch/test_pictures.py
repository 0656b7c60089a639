"""Lists of pictures: img2dataset is started with a list of words, and its own counts are told. A stand-in plays it."""

import json
import os
import stat
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compclip.base.errors import UserError
from compclip.fetch import __main__ as command
from compclip.fetch import offer_files
from compclip.fetch.catalogue import PictureList
from compclip.fetch.offer_files import PictureOptions

PROGRAM = """#!{python}
import json, sys
from pathlib import Path
words = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
out = Path(words["output_folder"])
Path("words.json").write_text(json.dumps(words))
for shard, lost in ((0, 1), (1, 2)):
    (out / f"{{shard:05}}.tar").write_bytes(b"")
    counts = {{"count": 10, "successes": 10 - lost, "failed_to_download": lost, "failed_to_resize": 0, "status_dict": {{}}}}
    (out / f"{{shard:05}}_stats.json").write_text(json.dumps(counts))
print("downloading")
sys.exit({code})
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, and img2dataset's stand-in on the PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(offer_files.sys, "executable", str(tmp_path / "bin" / "python"))

    def install(code=0):
        program = tmp_path / "bin" / "img2dataset"
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM.format(python=REAL, code=code))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    install()
    return install


REAL = sys.executable


def fetch_list(files, tmp_path, capfd, *words):
    files.bodies["/list.csv"] = b"Image Path,caption\nhttp://x/1.jpg,one\n"
    (tmp_path / "c.yaml").write_text(
        f"""
x:
  what: a list
  kind: captions
  folder: data/raw/captions/x
  http: {files.url}
  files: {{list.csv: {{}}}}
  pictures: {{list: list.csv, format: csv, url: Image Path, caption: caption, into: data/raw/y}}
"""
    )
    code = command.main(["--catalogue", "c.yaml", "x", *words])
    return code, *capfd.readouterr()


def test_a_list_becomes_shards(files, tmp_path, project, capfd):
    code, out, error = fetch_list(files, tmp_path, capfd, "--pixels", "224")
    assert code == 0
    summary = "17 of 20 pictures in data/raw/y (3 failed_to_download, 0 failed_to_resize)"
    assert out == f"x: 1 fetched (38 B) in data/raw/captions/x; {summary}\n"
    assert "downloading" in error
    assert json.loads((tmp_path / "words.json").read_text()) == {
        "url_list": str(tmp_path / "data/raw/captions/x/list.csv"),
        "input_format": "csv",
        "url_col": "Image Path",
        "caption_col": "caption",
        "output_folder": str(tmp_path / "data/raw/y"),
        "output_format": "webdataset",
        "processes_count": str(os.cpu_count()),
        "retries": "2",
        "image_size": "224",
        "resize_mode": "keep_ratio",
        "resize_only_if_bigger": "True",
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_not_there(tmp_path, project, kind):
    """The names that are there are told, before a million addresses are asked for."""
    if kind == "csv":
        (tmp_path / "list.csv").write_text("URL,TEXT\nhttp://x/1.jpg,one\n")
    else:
        pq.write_table(pa.table({"URL": ["http://x/1.jpg"], "TEXT": ["one"]}), tmp_path / "list.parquet")
    picture_list = PictureList(list=f"list.{kind}", format=kind, url="url", into="data/raw/y")
    with pytest.raises(UserError, match=rf"list\.{kind}: unknown column 'url'; (did you mean 'URL'|known: TEXT, URL)"):
        offer_files.fetch_pictures(picture_list, tmp_path, tmp_path, PictureOptions())
    assert not (tmp_path / "words.json").exists()


def test_a_folder_of_parts(tmp_path, project):
    """PixelProse is many parquet files; without one there is nothing to do."""
    (tmp_path / "data").mkdir()
    picture_list = PictureList(list="data", format="parquet", url="url", into="data/raw/y")
    with pytest.raises(UserError, match=r"data: no \.parquet file there"):
        offer_files.fetch_pictures(picture_list, tmp_path, tmp_path, PictureOptions())
    (tmp_path / "data" / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="cannot be read as parquet"):
        offer_files.fetch_pictures(picture_list, tmp_path, tmp_path, PictureOptions())
    pq.write_table(pa.table({"url": ["http://x/1.jpg"]}), tmp_path / "data" / "a.parquet")
    assert offer_files.fetch_pictures(picture_list, tmp_path, tmp_path, PictureOptions())["successes"] == 17
