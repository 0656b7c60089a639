"""Tables with pictures inside: read in place, opened by reference, damaged ones in one line."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.benchmarks import _tables, coco_counterfactuals, winoground
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark, benchmark_module, result_store
from compclip.evaluate.benchmark import parse_reference

PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def picture(colour: str) -> dict:
    raw = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(raw, "PNG")
    return {"bytes": raw.getvalue(), "path": f"{colour}.png"}


def row(key: int, colour_0: str = "red", colour_1: str = "blue") -> dict:
    return {"id": key, "image_0": picture(colour_0), "image_1": picture(colour_1), "caption_0": f"x{key}", "caption_1": "y",
            "tag": "Adjective"}  # fmt: skip


SCHEMA = pa.schema([("id", pa.int32()), ("image_0", PICTURE), ("image_1", PICTURE), ("caption_0", pa.string()),
                    ("caption_1", pa.string()), ("tag", pa.string())])  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "w/data/test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row(7), row(8, "green", "red")], SCHEMA), path, row_group_size=1)
    return path


def colour(ref: str) -> tuple:
    return images.load_image(parse_reference(ref)[0]).getpixel((4, 4))


def test_rows_have_references_to_pictures_inside_of_the_table(table):
    result = _tables.read_rows(table)
    assert [(r["id"], r["caption_0"]) for r in result] == [(7, "x7"), (8, "x8")]
    assert [colour(r["image_0"]) for r in result] == [(255, 0, 0), (0, 128, 0)]
    assert colour(result[1]["image_1"]) == (255, 0, 0)
    assert all(benchmark.BYTES in r["image_0"] for r in result)
    assert list(table.parent.iterdir()) == [table]


def test_a_row_may_only_name_its_picture_or_have_none(tmp_path):
    path = tmp_path / "t.parquet"
    rows = [row(0), row(1), {**row(2), "image_1": None}]
    rows[0]["image_0"] = {"bytes": None, "path": "a.png"}
    rows[1]["image_0"] = {"bytes": b"", "path": None}
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    result = _tables.read_rows(path)
    assert _tables.named_picture(Path("images"), result[0]["image_0"], ".png") == "images/a.png"
    for name in (result[1]["image_0"], result[2]["image_1"]):
        with pytest.raises(images.ImageError) as error:
            images.load_image(_tables.named_picture(tmp_path, name, ".png"))
        assert error.value.reason == "missing"


def test_winoground_and_counterfactuals_in_tables(table, tmp_path, embeddings):
    """Through the door of all benchmarks: pictures lie within `images`, and are counted as there."""
    for module, size in (("winoground", 2), ("coco_counterfactuals", 4)):
        section = Section(module, str(table.parent.parent), str(tmp_path / "images"))
        benchmark = benchmark_module.load_benchmark("x", section)
        assert len(benchmark) == size and benchmark.files == (table,)
        assert benchmark_module.count_benchmark(benchmark)["missing_images"] == 0
    both = winoground.load(table, tmp_path / "images").records[0]
    assert (both.id, both.texts, [colour(ref) for ref in both.images]) == ("7", ("x7", "y"), [(255, 0, 0), (0, 0, 255)])
    assert coco_counterfactuals.load(table.parent, tmp_path / "images", "1").dropped == {"not_drawn": 2}


def test_what_a_training_set_shares_with_pictures_in_a_table(table, tmp_path, monkeypatch):
    """They are known by their bytes."""
    from compclip.base.safe_names import SafeName
    from compclip.prepare import benchmark_overlap

    monkeypatch.chdir(tmp_path)
    result_store.write_census(SafeName("w", "benchmark"), Section("winoground", str(table.parent), "images"))
    benchmark_images = benchmark_overlap.read_benchmark_images(Path("data/benchmarks/w.arrow"))
    alone = tmp_path / "red.png"
    alone.write_bytes(picture("red")["bytes"])
    assert (
        benchmark_overlap._read_identity(str(alone)).sha256 in benchmark_images.sha256s
        and len(benchmark_images.sha256s) == 3
    )
    assert (
        benchmark_overlap._read_identity(str(alone)).bytes in benchmark_images.bytes and not benchmark_images.coco_ids
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-9], r"test-.*.parquet: cannot be read as parquet"),
        (lambda raw: raw[:60] + b"\xff" * 40 + raw[100:], r"test-.*.parquet: cannot be read as parquet"),
        (lambda raw: b"", r"test-.*.parquet: cannot be read as parquet"),
    ],
)
def test_damaged_tables(table, tmp_path, damage, message):
    table.write_bytes(damage(table.read_bytes()))
    with pytest.raises(UserError, match=message) as error:
        _tables.read_rows(table)
    assert "\n" not in str(error.value)
