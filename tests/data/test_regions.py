"""Regions: read from lists in others' forms, joined, placed in shares of the picture, counted, and shown by training."""

import json
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.config.released_lists import Regions
from compclip.config.sections import Data, World
from compclip.data import shard_files
from compclip.data.sample import Region, Sample
from compclip.interface.views import Regions as AskedRegions
from compclip.interface.views import Views
from compclip.prepare import region_lists
from compclip.scenes import generate, layout, render
from compclip.train import picture_views
from compclip.train.view_maker import RandomResizedCrop, ViewMaker
from tests.data import reading
from tests.data.reading import put_karpathy, put_lines

WIDTH, HEIGHT = 80, 40


@pytest.fixture
def photos(tmp_path, monkeypatch) -> Path:
    """Three captioned pictures of 80 x 40 pixels as the current folder; a quarter of each is red."""
    monkeypatch.chdir(tmp_path)
    put_karpathy(Path("all.json"), {"0.png": ["A red dog runs."], "1.png": ["A cat sits."], "2.png": ["A bird sings."]})
    Path("own").mkdir()
    picture_HW3 = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture_HW3[20:, 40:60] = (255, 0, 0)
    for n in range(3):
        Image.fromarray(picture_HW3).save(f"own/{n}.png")
    return tmp_path


def section(**options) -> Data:
    return Data("karpathy", "all.json", "own", captioner="none", regions=options)


def recaptioned(data: Data) -> tuple[list[Sample], dict]:
    samples, counts = reading.recaption(data)
    return samples, {name.removeprefix("regions_"): n for name, n in counts.items() if name.startswith("regions_")}


RED = Region(0.5, 0.5, 0.75, 1.0, ("a red square", "the red square below"), ("a blue square",))
OTHER = Region(0.0, 0.0, 0.25, 0.5, ("nothing",))


def finehard(path: Path) -> dict:
    """FG-CLIP's form: one list, a row a picture, boxes in shares, false texts by number."""
    info = [
        {"bbox": [0.5, 0.5, 0.75, 1.0, 0.9], "short_expr": "a red square", "long_expr": "the red square below",
         "flag_short_neg": 1, "short_expr_negs": {"0": "a blue square"}},
        {"bbox": [0.0, 0.0, 0.25, 0.5], "short_expr": "nothing", "long_expr": "nothing", "flag_short_neg": 0},
    ]  # fmt: skip
    rows = [{"f_path": "some/0.png", "caption": "…", "bbox_info": info}, {"f_path": "1.png", "bbox_info": []}]
    path.with_suffix(".json").write_text(json.dumps(rows))
    return {"file": "list.json", "on": "image", "key_column": "f_path", "column": "bbox_info", "box": "bbox",
            "caption": ["short_expr", "long_expr"], "negatives": "short_expr_negs"}  # fmt: skip


def visual_genome(path: Path) -> dict:
    """Visual Genome's form: a row a picture, boxes in pixels by four names."""
    rows = [{"image": "0.png", "regions": [
        {"x": 40, "y": 20, "width": 20, "height": 20, "phrase": "a red square", "more": "the red square below",
         "false": "a blue square"},
        {"x": 0, "y": 0, "width": 20, "height": 20, "phrase": " nothing "},
    ]}]  # fmt: skip
    put_lines(path.with_suffix(".jsonl"), rows)
    return {"file": "list.jsonl", "on": "image", "column": "regions", "box": ["x", "y", "width", "height"],
            "form": "size", "unit": "pixels", "caption": ["phrase", "more"], "negatives": "false"}  # fmt: skip


def row_each(path: Path) -> dict:
    """A row a region, as parquet."""
    rows = [
        {"key": "0", "box": [40, 20, 60, 40], "caption": ["a red square", "the red square below"],
         "negatives": ["a blue square"]},
        {"key": "0", "box": [0, 0, 20, 20], "caption": ["nothing"], "negatives": []},
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
    return {"file": "list.parquet", "on": "key", "unit": "pixels", "negatives": "negatives"}


@pytest.mark.parametrize("write", [finehard, visual_genome, row_each])
def test_lists_in_others_forms_are_joined(photos, write):
    samples, counts = recaptioned(section(**write(Path("list.txt"))))
    assert [s.regions for s in samples] == [(RED, OTHER), (), ()]
    assert [counts[name] for name in ("listed", "samples", "without")] == [2, 1, 2]


def test_what_cannot_be_used_is_counted(photos, monkeypatch):
    """No box, no text, no key; outside of the picture, too small, and more than may be."""
    boxes = [[0.9, 0.5, 2.0, 1.0], [1.0, 0.0, 1.2, 1.0], [0.5, 0.5, 0.5, 1.0], [0.0, 0.0, 0.01, 0.02]]
    boxes += [[0, 0, 1, 1], [0, 0, 1, 0.5]]
    regions = [{"box": box, "caption": str(n)} for n, box in enumerate(boxes)]
    damaged = [{"box": [0, 0, 1], "caption": "a"}, {"box": [0, 0, "1", 1], "caption": "a"}, {"box": [0, 0, 1, 1]},
               {"box": [0, 0, float("nan"), 1], "caption": "a"}, 7]  # fmt: skip
    rows = [{"image": "0.png", "regions": regions + damaged}, {"image": "", "regions": regions}]
    rows += [[1], {"image": "1.png", "regions": "x"}]
    with put_lines(Path("list.jsonl"), rows).open("a") as file:
        file.write("{broken\n")
    monkeypatch.setattr(Regions, "most", 2)
    samples, counts = recaptioned(section(file="list.jsonl", on="image", column="regions", least_side=5))
    cut, full_region = samples[0].regions
    assert cut.box == (0.9, 0.5, 1.0, 1.0) and full_region.box == (0.0, 0.0, 1.0, 1.0)
    assert counts == {"rows": 5, "listed": 12, "damaged": 8, "without_key": 1, "outside": 2, "of_other_size": 1,
                      "beyond": 1, "samples": 1, "without": 2}  # fmt: skip


def test_rows_of_one_picture_are_no_duplicate_captions_and_false_texts_differ_by_more_than_case(photos):
    rows = [
        {"key": "0", "box": [0, 0, 0.5, 1], "caption": "a red dog", "negatives": ["A red Dog", "a blue dog"]},
        {"key": "0", "box": [0.5, 0, 1, 1], "caption": "nothing"},
    ]
    put_lines(Path("list.jsonl"), rows)
    samples, counts = reading.recaption(section(file="list.jsonl", on="key", negatives="negatives"))
    assert [region.negatives for region in samples[0].regions] == [("a blue dog",), ()]
    assert counts["regions_listed"] == 2 and "captions_duplicate" not in counts


@pytest.mark.parametrize("options,says", [
    ({"file": "no.jsonl"}, "no.jsonl: no list of regions"),
    ({"file": "all.txt"}, "all.txt: no list of regions"),
    ({"file": "object.json"}, "object.json: holds no list of rows"),
    ({"file": "cut.json"}, "cut.json: not JSON: .*; fix or fetch the file again"),
    ({"file": "bytes.json"}, "bytes.json: not JSON: .*; fix or fetch the file again"),
    ({"file": "other.jsonl"}, "set regions.key_column to one of"),
    ({"file": "list.jsonl", "column": "regoins"}, "unknown field 'regoins'; did you mean 'regions'"),
    ({"file": "list.jsonl", "column": "", "caption": ["x"]}, "no row holds a key and a region"),
])  # fmt: skip
def test_a_list_that_cannot_be(photos, options, says):
    contents = {"all.txt": "x", "object.json": "{}", "cut.json": '[{"image": "0.png", "regions": []}, {"ima',
                "bytes.json": b'[{"image": "\xff.png"}]', "other.jsonl": '{"a": 1}\n',
                "list.jsonl": '{"image": "0.png", "regions": [], "box": [0, 0, 1, 1], "caption": "a"}\n'}  # fmt: skip
    for name, content in contents.items():
        reading.put(Path(name), content)
    with pytest.raises(UserError, match=says):
        recaptioned(section(on="image", **options))


def test_a_json_list_is_read_a_row_at_a_time(tmp_path):
    """Rows come before the end of the file is read, where it is damaged."""
    row = {"image": "0.png", "regions": [{"box": [0, 0, 1, 1.5], "caption": "a"}] * 100}
    (tmp_path / "long.json").write_text("[" + f"{json.dumps(row)}, " * 1000 + "{broken")
    rows = region_lists.read_rows(Regions(str(tmp_path / "long.json"), on="image", column="regions"), Counter())
    assert next(rows) == ("0.png", ['[[0, 0, 1, 1.5], ["a"], []]'] * 100)
    with pytest.raises(UserError, match="not JSON"):
        list(rows)


TEXT = '{"a": "[[[\\\\", "b": "\\"[[["}, '


@pytest.mark.parametrize(("text", "is_refused"), [
    ("[" * 40_000, True), ('[{"a":' * 101, True), ("[" + TEXT * 50_000, False), ("[" + TEXT * 50_000 + "[" * 101, True),
    ("[" + "[], " * 50_000, False), ("[" + "[" * 90 + "]" * 90 + ", " + "[" * 99 + "]" * 99, False),
])  # fmt: skip
def test_a_list_of_nested_brackets_takes_no_memory(tmp_path, text, is_refused):
    """Those within texts count for nothing, wherever a block ends; every text here ends before its list does."""
    (tmp_path / "nested.json").write_text(text)
    tracemalloc.start()
    with pytest.raises(UserError, match="more than 100 brackets" if is_refused else "not JSON"):
        for _ in region_lists._read_json(tmp_path / "nested.json"):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_the_whole_way_to_a_view(photos):
    """Recaption, annotate, and a view; a data set without a section has none, and the bytes that it had."""
    data_set, _ = reading.prepare(section(**finehard(Path("list.txt"))))
    assert [data_set.regions(n) for n in range(3)] == [(RED, OTHER), (), ()]
    views = Views(regions=AskedRegions(3, negatives=2, crops=1.0), squash=True, caption="full")
    view = ViewMaker(data_set, 0, 8).view(0, 0, views)
    drawn = {region.box: region for region in view.regions if region}
    assert view.image.size == (8, 8) and set(drawn) == {RED.box, OTHER.box} and view.regions[2] is None
    caption, *further = drawn[RED.box].texts
    assert caption in RED.captions and further == ["a red square", "a blue square", None]
    assert (np.asarray(drawn[RED.box].crop) == (255, 0, 0)).all() and not np.asarray(drawn[OTHER.box].crop).any()
    plain = Views(caption="full")
    without = ViewMaker(data_set, 0, 8).view(0, 0, plain)
    data_set, _ = reading.prepare(section())
    assert data_set.regions(0) == ()
    assert "regions" not in shard_files.read_batch(Path("data/x/shards/00000.arrow"), "x").schema.names
    again = ViewMaker(data_set, 0, 8).view(0, 0, plain)
    assert (again.caption, again.regions) == (without.caption, ()) and again.image.tobytes() == without.image.tobytes()


def test_boxes_are_where_their_things_are_in_what_is_shown(photos):
    """Red fills its box, and no red is beside it: of a random part, and of the middle that a shorter side leaves."""
    data_set, _ = reading.prepare(section(**finehard(Path("list.txt"))))
    for crop in (RandomResizedCrop(0.3, 0.6), None):
        maker = ViewMaker(data_set, 0, 64, crop=crop)
        for epoch in range(6 if crop else 1):
            view = maker.view(0, epoch, Views(regions=AskedRegions(2)))
            picture = view.image if crop else view.image.crop((20, 0, 60, 40)).resize((64, 64))  # the middle of 80 x 40
            red_HW = np.asarray(picture)[..., 0] > 128
            boxes = [region.box for region in view.regions if region]
            red_boxes = [box for box in boxes if red_HW[tuple(_slices(box))].mean() > 0.9]
            assert len(boxes) + view.faults["region_left"] == 2
            assert red_boxes or crop
            for box in red_boxes:
                beside_HW = red_HW.copy()
                beside_HW[tuple(_slices(box, margin=2))] = False
                assert not beside_HW.any()


def _slices(box, margin: int = -1) -> list[slice]:
    """Rows and columns of a box in 64 x 64 pixels, wider by a margin."""
    left, upper, right, lower = (64 * edge for edge in box)
    return [slice(max(0, round(low) - margin), round(high) + margin) for low, high in ((upper, lower), (left, right))]


@pytest.mark.parametrize("box,crop,expected", [
    ((0.5, 0.5, 1.0, 1.0), (0.0, 0.0, 1.0, 1.0), (0.5, 0.5, 1.0, 1.0)),
    ((0.5, 0.25, 0.75, 0.75), (0.5, 0.0, 1.0, 1.0), (0.0, 0.25, 0.5, 0.75)),
    ((0.25, 0.0, 0.75, 1.0), (0.5, 0.0, 1.0, 1.0), (0.0, 0.0, 0.5, 1.0)),  # half of it is seen
    ((0.0, 0.0, 0.75, 1.0), (0.5, 0.0, 1.0, 1.0), None),  # a third
    ((0.0, 0.0, 0.25, 1.0), (0.5, 0.0, 1.0, 1.0), None),
    ((0.0, 0.0, 1.0, 1.0), (0.0, -0.5, 1.0, 1.5), (0.0, 0.25, 1.0, 0.75)),  # a margin is added
])  # fmt: skip
def test_a_box_in_a_part_of_the_picture(box, crop, expected):
    assert picture_views.place_box(box, crop) == expected


def test_regions_are_drawn_evenly_and_by_their_own_stream():
    regions = [replace(OTHER, captions=(str(n),)) for n in range(4)]
    asked, seen = AskedRegions(2), Counter()
    for seed in range(400):
        rng = np.random.default_rng(seed)
        drawn, regions_left = picture_views.draw_regions(regions, picture_views.WHOLE, asked, rng)
        assert len(drawn) == 2 and regions_left == 0
        seen.update(texts[0] for _, texts, _ in drawn)
    assert min(seen.values()) > 160 and sum(seen.values()) == 800


def test_a_region_as_a_picture_is_wider_than_its_box():
    """Half as much again on each axis, cut at the picture's edge."""
    picture_HW3 = np.zeros((40, 40, 3), np.uint8)
    picture_HW3[10:20, 30:40, 0] = 255
    cut = picture_views.cut_region(Image.fromarray(picture_HW3), (0.75, 0.25, 1.0, 0.5), 2.0, 20, lambda p, _: p)
    assert cut.size == (15, 20)
    assert (np.asarray(cut)[..., 0] == 255).sum() == 100
    assert picture_views.cut_region(Image.fromarray(picture_HW3), (0, 0, 1, 1), 0.0, 20, lambda p, _: p) is None


@pytest.mark.parametrize("left,across", [(6, 29), (31, 7), (0, 1), (41, 48), (77, 12)])
def test_a_crop_ends_at_the_nearest_pixels(left, across):
    """As FineCLIP's program cuts: Pillow rounds the edges that three quarters of a side from the centre give."""
    row_W = np.arange(89, dtype=np.uint8)
    picture = Image.fromarray(np.repeat(row_W[None], 89, axis=0))
    box = (left / 89, 0.0, (left + across) / 89, 1.0)
    centre, half = left + across / 2, 0.75 * across
    expected = np.array(picture.crop((max(centre - half, 0), 0, min(centre + half, 89), 89)))[0]
    cut = picture_views.cut_region(picture, box, 1.5, 20, lambda p, _: p)
    assert np.array(cut)[0].tolist() == (expected.tolist() or [left])


def test_the_scenes_know_where_their_things_are(tmp_path):
    """All that differs from the picture's ground lies in a box; the long text is true, and false texts differ by a word."""
    rng = np.random.default_rng(4)
    for number in range(6):
        scene = layout.sample(rng, 1 + number % 4, test=False)
        name = f"{number:06d}"
        empty_HW3 = render.render_named(f"{name}.png", replace(scene, things=())).astype(int)
        shown_HW = np.abs(render.render_named(f"{name}.png", scene) - empty_HW3).sum(-1) > 30
        for thing, row in zip(scene.things, generate.make_regions(rng, name, scene), strict=True):
            left, upper, right, lower = row["box"]
            assert shown_HW[upper:lower, left:right].mean() > 0.1
            shown_HW[upper:lower, left:right] = False
            words = row["caption"].split()
            assert words[1:] == [thing.size, thing.texture, thing.colour, thing.symbol]
            changed = [[a != b for a, b in zip(words[1:], text.split()[1:], strict=True)] for text in row["negatives"]]
            assert len(row["negatives"]) == 4 and all(sum(places) == 1 for places in changed)
            assert len({tuple(places) for places in changed}) == 4
        assert not shown_HW.any()
    world = World(seed=0, train=4, retrieval=2, records=2, per_class=1, processes=1, beside=True)
    generate.generate(world, tmp_path / "world")
    rows = [json.loads(line) for line in (tmp_path / "world/train_regions.jsonl").read_text().splitlines()]
    assert [row["image"] for row in rows] == [f"{n:06d}.png" for n in range(4)]


def test_numbers_and_texts_of_a_region_are_bounded(tmp_path):
    """Captions and negatives as all texts are; a box of 8 x 4 pixels has a side of the root of 32."""
    cfg = Regions(str(tmp_path / "r.jsonl"), on="image", negatives=["negatives"])
    for box, caption, expected in (
        ([0, 0, 10**4000, 1], "a", None), ([True, 0, 1, 1], "a", None), ([0, 0, 1, 1], ["a", "a", ""], ([0, 0, 1, 1], ["a"], [])),
    ):  # fmt: skip
        assert region_lists.parse_region({"box": box, "caption": caption}, cfg) == expected
    region = {"image": "a", "box": [0, 0, 1, 1], "caption": ["a " * 9000, "(" * 2000], "negatives": ["b " * 9000]}
    put_lines(tmp_path / "r.jsonl", [region])
    counts = Counter()
    ((_, (written,)),) = region_lists.read_rows(cfg, counts)
    assert counts["regions_cut_texts"] == 3
    assert max(map(len, json.loads(written)[1])) <= 1 << 14
    sample = Sample("a", "a.png", (), width=WIDTH, height=HEIGHT)
    for least, is_kept in ((5.6, True), (5.7, False)):
        region = region_lists.place_region(replace(cfg, least_side=least), sample, ([0.0, 0.0, 0.1, 0.1], ["a"], []))
        assert (region != "of_other_size") == is_kept
