"""Tables with pictures inside: read in place, opened by reference, damaged ones in one line."""

from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import _tables, coco_counterfactuals, winoground
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark, benchmark_module, result_store
from compclip.evaluate.benchmark import parse_reference
from tests.benchmarks import picture_tables


def row(key: int, *colours: str) -> dict:
    cells = {f"image_{i}": picture_tables.cell(colour, f"{colour}.png") for i, colour in enumerate(colours)}
    return {"id": key, **cells, "caption_0": f"x{key}", "caption_1": "y", "tag": "Adjective"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [row(7, "red", "blue"), row(8, "green", "red")]
    return picture_tables.write(tmp_path / "w/data/test-00000-of-00001.parquet", rows, row_group_size=1)


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
    red_row = row(0, "red", "blue")
    only_name, no_bytes = {"bytes": None, "path": "a.png"}, {"bytes": b"", "path": None}
    rows = [red_row | {"image_0": only_name}, red_row | {"image_0": no_bytes}, red_row | {"image_1": None}]
    result = _tables.read_rows(picture_tables.write(tmp_path / "t.parquet", rows))
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
    alone.write_bytes(picture_tables.cell("red")["bytes"])
    identity = benchmark_overlap._read_identity(str(alone))
    assert identity.sha256 in benchmark_images.sha256s and len(benchmark_images.sha256s) == 3
    assert identity.bytes in benchmark_images.bytes and not benchmark_images.coco_ids


def test_damaged_tables(table):
    """Cut short, with bytes changed, and empty."""
    raw = table.read_bytes()
    for damaged in (raw[:-9], raw[:60] + b"\xff" * 40 + raw[100:], b""):
        table.write_bytes(damaged)
        with pytest.raises(UserError, match=r"test-.*.parquet: cannot be read as parquet") as error:
            _tables.read_rows(table)
        assert "\n" not in str(error.value)
