"""The hub's tables of the benchmarks that have no other release: the same records as from files, pictures inside."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base import plugins
from compclip.benchmarks import _tables
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import parse_reference

PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ROWS = {  # of each module: its table, the columns of pictures, the others
    "bivlc": ("test", ("image", "negative_image"), {"caption": "x", "negative_caption": "y", "type": "swap", "subtype": "att"}),
    "colorswap": ("test", ("image_1", "image_2"), {"id": 3, "caption_1": "x", "caption_2": "y", "caption_source": "human"}),
    "half_truths": ("coco_qwen", ("image",), {"id": "q", "anchor": "x", "half_truth": "y", "full_truth": "z", "triplet_type": "entity"}),
    "vismin": ("test", ("image_0", "image_1"), {"id": "0", "text_0": "x", "text_1": "y", "category": "object"}),
}  # fmt: skip
COLOURS = ("red", "blue")


def picture(colour: str) -> dict:
    raw = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(raw, "PNG")
    return {"bytes": raw.getvalue(), "path": None}


@pytest.fixture(params=ROWS)
def module(request):
    return request.param


@pytest.fixture
def table_folder(tmp_path, module):
    """A folder with the table in `data`."""
    stem, columns, fields = ROWS[module]
    row = {name: picture(colour) for name, colour in zip(columns, COLOURS, strict=False)} | fields
    schema = pa.schema([(name, PICTURE if name in columns else pa.infer_type([row[name]])) for name in row])
    (tmp_path / "h/data").mkdir(parents=True)
    table = pa.Table.from_pylist([row], schema)
    if module == "vismin":  # as the package datasets saves it
        (tmp_path / "h/data/test").mkdir()
        with pa.ipc.new_stream(tmp_path / "h/data/test/data-00000-of-00001.arrow", schema) as stream:
            stream.write_table(table)
    else:
        name = f"{stem}.parquet" if module == "half_truths" else f"{stem}-00000-of-00001.parquet"
        pq.write_table(table, tmp_path / "h/data" / name)
    return tmp_path / "h"


def test_the_records_of_a_table_with_pictures_inside(table_folder, module, tmp_path):
    section = Section(benchmark=module, path=str(table_folder), images=str(tmp_path / "unpacked"))
    (record,) = benchmark_module.load_benchmark(module, section).records
    colours = [images.load_image(parse_reference(ref)[0]).getpixel((4, 4)) for ref in record.images]
    assert colours == [(255, 0, 0), (0, 0, 255)][: len(colours)] and record.texts[:2] == ("x", "y")


def test_the_same_as_from_files(table_folder, module, picture, tmp_path):
    """But for the pictures' places."""
    stem, columns, fields = ROWS[module]
    names = dict(zip(columns, ("r.png", "b.png"), strict=False))
    for name in names.values():
        picture(f"f/images/{name}")
    (tmp_path / f"f/{stem}.json").write_text(json.dumps([names | fields]))
    load = plugins.load_plugin(plugins.BENCHMARKS, module).load
    ours, theirs = load(table_folder, tmp_path / "unpacked").records, load(tmp_path / "f").records
    assert [(r.subset, r.id, r.texts) for r in ours] == [(r.subset, r.id, r.texts) for r in theirs]
    assert theirs[0].images[0] == str(tmp_path / "f/images/r.png")


def test_a_picture_of_a_file_is_found_at_the_end_of_its_path(picture, tmp_path):
    at = picture("p/val2017/1.jpg").parent.parent
    result = str(at / "val2017/1.jpg")
    assert [
        _tables.find_picture(at, name) for name in ("val2017/1.jpg", "data/coco/val2017/1.jpg", "/a/val2017/1.jpg")
    ] == [result] * 3
    assert _tables.find_picture(at, "nowhere/2.jpg") == str(at / "2.jpg")
    assert _tables.find_picture(at, "../p/val2017/1.jpg") == str(at / "../p/val2017/1.jpg")  # is judged where it enters
    assert _tables.find_picture(at, "a\0b") == str(at / "a\0b") and _tables.find_picture(at, "") == str(at)
