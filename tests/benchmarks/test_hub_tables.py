"""The hub's tables of the benchmarks that have no other release: the same records as from files, pictures inside."""

import pyarrow as pa
import pytest

from compclip.base import plugins
from compclip.benchmarks import _tables
from compclip.config.sections import BenchmarkSection as Section
from compclip.data import images
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import parse_reference
from tests.benchmarks import picture_tables

ROWS = {  # of each module: its table, the columns of pictures, the others
    "bivlc": ("test", ("image", "negative_image"), {"caption": "x", "negative_caption": "y", "type": "swap", "subtype": "att"}),
    "colorswap": ("test", ("image_1", "image_2"), {"id": 3, "caption_1": "x", "caption_2": "y", "caption_source": "human"}),
    "half_truths": ("coco_qwen", ("image",), {"id": "q", "anchor": "x", "half_truth": "y", "full_truth": "z", "triplet_type": "entity"}),
    "vismin": ("test", ("image_0", "image_1"), {"id": "0", "text_0": "x", "text_1": "y", "category": "object"}),
}  # fmt: skip


def write_table(module, folder):
    """The module's table of one row, whose pictures are red and blue."""
    stem, columns, fields = ROWS[module]
    row = {name: picture_tables.cell(colour) for name, colour in zip(columns, ("red", "blue"), strict=False)} | fields
    if module == "vismin":  # as the package datasets saves it
        (folder / "test").mkdir(parents=True)
        table = picture_tables.make([row])
        with pa.ipc.new_stream(folder / "test/data-00000-of-00001.arrow", table.schema) as stream:
            stream.write_table(table)
    else:
        name = f"{stem}.parquet" if module == "half_truths" else f"{stem}-00000-of-00001.parquet"
        picture_tables.write(folder / name, [row])


@pytest.mark.parametrize("module", ROWS)
def test_the_same_records_as_from_files_with_pictures_inside(module, dump, picture, tmp_path):
    write_table(module, tmp_path / "h/data")
    section = Section(benchmark=module, path=str(tmp_path / "h"), images=str(tmp_path / "unpacked"))
    (ours,) = benchmark_module.load_benchmark(module, section).records
    colours = [images.load_image(parse_reference(ref)[0]).getpixel((4, 4)) for ref in ours.images]
    assert colours == [(255, 0, 0), (0, 0, 255)][: len(colours)] and ours.texts[:2] == ("x", "y")
    stem, columns, fields = ROWS[module]
    names = dict(zip(columns, ("r.png", "b.png"), strict=False))
    files = [str(picture(f"f/images/{name}")) for name in names.values()]
    folder = dump(f"f/{stem}.json", [names | fields]).parent
    (theirs,) = plugins.load_plugin(plugins.BENCHMARKS, module).load(folder).records
    assert (ours.subset, ours.id, ours.texts) == (theirs.subset, theirs.id, theirs.texts)
    assert theirs.images == tuple(files)


def test_a_picture_of_a_file_is_found_at_the_end_of_its_path(picture, tmp_path):
    at = picture("p/val2017/1.jpg").parent.parent
    for name in ("val2017/1.jpg", "data/coco/val2017/1.jpg", "/a/val2017/1.jpg"):
        assert _tables.find_picture(at, name) == str(at / "val2017/1.jpg")
    assert _tables.find_picture(at, "nowhere/2.jpg") == str(at / "2.jpg")
    assert _tables.find_picture(at, "../p/val2017/1.jpg") == str(at / "../p/val2017/1.jpg")  # is judged where it enters
    assert _tables.find_picture(at, "a\0b") == str(at / "a\0b") and _tables.find_picture(at, "") == str(at)
