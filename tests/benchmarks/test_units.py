"""What an interval draws at once: records that show one picture, from the benchmark's files to the report."""

import json

import numpy as np
import pytest

from compclip.base import plugins
from compclip.benchmarks import eqben, imagecode, sugarcrepe, sugarcrepe_pp, svo_probes
from compclip.config.sections import DEFAULT_SCORING
from compclip.evaluate import benchmark_module, result_store
from compclip.evaluate.benchmark import Benchmark, Record, bytes_of_file, number_picture, number_units, with_box
from compclip.runs import result_files
from compclip.runs.item_outcomes import COMPOSITION, Items
from tests.benchmarks.official_files import STRICT, TO_THE_FIRST, alike


def records(*images, subset="s"):
    return tuple(Record(subset, str(key), record_images, ("x", "y")) for key, record_images in enumerate(images))


def numbers(*images, **options):
    return list(number_units(records(*images), **options).values())


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([("a",), ("b",), ("a",)], [0, 1, 0]),
        ([("a",), ("b",)], [0, 1]),  # each a unit by itself
        ([("a", "b"), ("c", "d"), ("b", "c"), ("e", "f")], [0, 0, 0, 1]),  # joined by the third
        ([(with_box("a", (0, 0, 1, 1)),), (with_box("a", (1, 1, 2, 2)),), ("b",)], [0, 0, 1]),
        ([(bytes_of_file("t.tar", offset, 9),) for offset in (512, 1024, 512)], [0, 1, 0]),
        ([(), (), ("a",), ("a",)], [0, 1, 2, 2]),  # without a picture
    ],
)
def test_records_that_show_a_picture_in_common_are_one_unit(images, expected):
    assert numbers(*images) == expected


def test_the_real_files_show_a_fifth_as_many_pictures_which_two_benchmarks_share(shared_data):
    """7,511 and 4,757 records. A mean over SugarCrepe and SugarCrepe++ draws a picture of both once."""
    both = [sugarcrepe.load(shared_data / "sugarcrepe"), sugarcrepe_pp.load(shared_data / "sugarcrepe_pp")]
    for benchmark, pictures in zip(both, (1560, 1542), strict=True):
        assert len(set(benchmark.units.values())) == pictures == len(benchmark.images)
        units = {(record.images, benchmark.units[record.subset, record.id]) for record in benchmark.records}
        assert len(units) == pictures
    assert len(set(both[0].unit_pictures) & set(both[1].unit_pictures)) > 1500


TWO = {"0": {"filename": "a.png", "caption": "x", "negative_caption": "y"}}
TWO = TWO | {"1": TWO["0"] | {"caption": "z"}, "2": TWO["0"] | {"filename": "b.png"}}


def test_every_metric_of_the_records_has_their_units(tmp_path):
    """Also where subsets are joined, and in a group; equal numbers across subsets are one picture."""
    for name in sugarcrepe.KINDS["swap"]:
        (tmp_path / f"{name}.json").write_text(json.dumps(TWO if name == "swap_att" else {"7": TWO["2"]}))
    (tmp_path / "groups.json").write_text(json.dumps({"swap_att": {"rare": ["1", "2"]}}))
    benchmark = sugarcrepe.load(tmp_path, split="swap_att,swap_obj")
    items = benchmark.score(alike(benchmark)).items
    assert {name: i.units for name, i in items.items()} == {
        "swap_att": (0, 0, 1), "swap_obj": (1,), "swap_pooled": (0, 0, 1, 1), "swap_att/rare": (0, 1)
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(STRICT | TO_THE_FIRST))
def test_no_benchmark_s_items_lack_their_record_s_unit(name, dump, tmp_path):
    """Each metric of records has one of them behind each id; the others are of pairs of pictures, or of classes."""
    files, split = (STRICT | TO_THE_FIRST)[name][:2]
    for file, content in files.items():
        dump(file, content)
    benchmark = plugins.load_plugin(plugins.BENCHMARKS, name).load(tmp_path, split=split)
    vars(benchmark)["units"] = {(record.subset, record.id): n for n, record in enumerate(benchmark.records)}
    subsets = {record.subset for record in benchmark.records}
    result = benchmark.score(alike(benchmark)).items
    assert result and all(items.units for items in result.values() if items.subset in subsets)
    assert any(items.units for items in result.values())


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [("val2017/000000000139.jpg", "val2014/COCO_val2014_000000000139.jpg", True), ("a/1.png", "b/1.png", True),
     ("a/1.png", "a/2.png", False), ("1.png", with_box("1.png", (0, 0, 1, 1)), True),
     (bytes_of_file("t.tar", 0, 9), bytes_of_file("t.tar", 512, 9), False)],
)  # fmt: skip
def test_a_picture_has_one_number_in_all_benchmarks(left, right, same):
    assert (number_picture(left) == number_picture(right)) is same


def test_names_that_begin_anew_in_each_folder(tmp_path):
    """ImageCoDe's sets, EqBen's videos and scenes: 30 of them are 30 units, of as many pictures, wherever they lie."""
    sets = {f"video-{n}": {"0": f"x{n}", "3": f"y{n}"} for n in range(30)}
    (tmp_path / "valid_data.json").write_text(json.dumps(sets))
    folders = [f"eqben{kind}/{n}" for kind in ("kubric_cnt", "kubric_loc", "ag") for n in range(10)]
    frames = [{"image0": f"{folder}/1.png", "image1": f"{folder}/2.png", "caption0": "x", "caption1": "y"}
              for folder in folders]  # fmt: skip
    (tmp_path / "eqben.json").write_text(json.dumps(frames))
    for load in (imagecode.load, lambda *paths: eqben.load(tmp_path / "eqben.json", *paths[1:])):
        here, elsewhere = load(tmp_path, "a/b"), load(tmp_path, "c")
        assert len(set(here.unit_pictures)) == 30 and here.unit_pictures == elsewhere.unit_pictures


def test_svo_s_wrong_pictures_join_nothing(dump, tmp_path):
    rows = ["sentence,pos_image_id,neg_image_id,subj_neg,verb_neg,obj_neg"]
    rows += [f"x,{a},{b},True,False,False" for a, b in ((1, 2), (2, 3), (1, 3))]
    dump("svo_probes.csv", "\n".join(rows))
    assert list(svo_probes.load(tmp_path, split="subj_neg").units.values()) == [0, 1, 0]


def test_captions_of_a_record_have_its_unit():
    two = records(("a",), ("a",), ("b",))
    captions = Items(("0#0", "0#1", "1#0", "2#0"), np.ones(4), "s")
    pair_items = Items(("left", "right"), np.ones(2), "pairs")
    benchmark = Benchmark(two, (), lambda *_: {"t2i": captions, "pairs": pair_items}, kind=COMPOSITION)
    items = benchmark.score(alike(benchmark)).items
    assert items["t2i"].units == (0, 0, 0, 1) and items["pairs"].units == ()


def test_results_keep_the_units(tmp_path, dump):
    dump("swap_att.json", TWO)
    benchmark = sugarcrepe.load(tmp_path, split="swap_att")
    loaded = benchmark_module.LoadedBenchmarks({"sugarcrepe": benchmark}, {"sugarcrepe": "sugarcrepe"}, DEFAULT_SCORING)
    scored = {"sugarcrepe": benchmark.score(alike(benchmark))}
    result_store.write_documents(benchmark_module.result_documents(scored, loaded, {}, 0.0), tmp_path)
    result = result_files.read_result(tmp_path / "sugarcrepe.json")
    assert result.items["swap_att"].units == tuple(map(number_picture, ("a.png", "a.png", "b.png")))
