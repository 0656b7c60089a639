"""sDCI: parts with their summaries, in batches of eight, against wrong summaries."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.benchmarks import sdci
from compclip.evaluate.benchmark import Record, parse_reference
from compclip.evaluate.embeddings import Embeddings


def mask_of(width: int, height: int) -> str:
    raw = io.BytesIO()
    Image.new("1", (width, height)).save(raw, "PNG")
    return base64.b64encode(raw.getvalue()).decode()


def mask(idx, left, top, right, bottom, **fields):
    corners = {"topLeft": {"x": left, "y": top}, "bottomRight": {"x": right, "y": bottom}}
    return {"idx": idx, "outer_mask": mask_of(1000, 600), "bounds": corners, "label": "a", "caption": "b"} | fields


def described(name: str, **fields):
    part_key = f"m-{name}-sc"
    base_negatives = {"swaps": [f"nb{name}"], "layout": [f"l{name}"]}
    return {
        "image": f"sa_{name}.jpg",
        "mask_data": {name: mask(int(name), 100, 10, 400, 310), "9": mask(9, 0, 0, 223, 600)},
        "summaries": {"base": [f"b{name}{i}" for i in range(5)], part_key: [f"p{name}"]},
        "negatives": {"base": base_negatives, part_key: {"swaps": [f"np{name}", "x"]}},
        "clip_scores": {"base": {"swaps_0": 1.0, "layout_0": 2.0}, part_key: {"swaps_0": 3.0, "swaps_1": 3.0}},
    } | fields


@pytest.fixture
def write(dump):
    def write_pictures(*rows):
        names = [f"{place}.json" for place in range(len(rows))]
        dump("d/splits.json", {"train": [], "valid": [], "test": names})
        for name, row in zip(names, rows, strict=True):
            dump(f"d/complete/{name}", row)
        return dump("d/photos/none.txt", "").parent.parent

    return write_pictures


def texts(folder, test):
    return {record.id: record.texts for record in sdci.load(folder, split=test).records}


def test_parts_and_texts_of_each_test(write):
    """The second mask is too narrow by a pixel; of equally hard texts the last is taken."""
    folder = write(described("1"))
    assert texts(folder, "all_swaps") == {"0/base": ("b10", "nb1"), "0/m-1-sc": ("p1", "np1")}
    assert texts(folder, "base_swaps") == {"0/base": ("b10", "nb1")}
    assert texts(folder, "all_swaps_pick5") == {"0/base": ("b10", "b11", "b12", "b13", "b14", "nb1")}
    assert texts(folder, "all_hardest") == {"0/base": ("b10", "l1"), "0/m-1-sc": ("p1", "x")}


def test_a_part_is_cut_with_room_around_it_within_the_picture(write):
    """300 x 300 pixels and 45 more on each side, but 10 above it."""
    picture_record, part_record = sdci.load(write(described("1")), split="all_swaps").records
    assert parse_reference(picture_record.images[0])[1] is None
    assert parse_reference(part_record.images[0])[1] == (55, 0, 390, 355)
    row = described("1", mask_data={"1": mask(1, 700, 300, 990, 600)})
    assert parse_reference(sdci.load(write(row), split="all_swaps").records[1].images[0])[1] == (657, 255, 343, 345)


@pytest.mark.parametrize(
    "change",
    [{"summaries": {"base": ["b"]}}, {"negatives": {}}, {"negatives": {"base": {"swaps": ["n"]}}}, {"summaries": None},
     {"mask_data": {"1": {k: v for k, v in mask(1, 0, 0, 300, 300).items() if k != "caption"}}}],
)  # fmt: skip
def test_an_incomplete_picture_is_left_out_whole_and_counted(write, change):
    folder = write(described("1", **change), described("2"))
    benchmark = sdci.load(folder, split="all_swaps")
    assert [record.id for record in benchmark.records] == ["1/base", "1/m-2-sc"]
    assert benchmark.dropped == {"incomplete_picture_all_swaps": 1}


@pytest.mark.parametrize("clip_scores", [None, {"base": {"swaps_0": 1.0, "layout_0": 2.0}}])
@pytest.mark.parametrize("test", sdci.TESTS)
def test_a_picture_without_clip_s_scores_is_left_out_of_every_test(write, test, clip_scores):
    """The authors' program looks them up whatever the test; without parts those of the picture are enough."""
    folder = write(described("1", clip_scores=clip_scores), described("2"))
    is_left_out = clip_scores is None or test != "base_swaps"
    assert sdci.load(folder, split=test).dropped == {f"incomplete_picture_{test}": int(is_left_out)}


@pytest.mark.parametrize("place", [float("nan"), float("inf"), 10**400], ids=["nan", "infinity", "long"])
def test_a_corner_that_is_nowhere(write, place):
    with pytest.raises(UserError, match="record 1: field 'x' is no place in a picture"):
        sdci.load(write(described("1", mask_data={"1": mask(1, 0, 0, place, 300)})), split="all_swaps")


def test_scores_that_are_no_numbers_choose_some_text(write):
    scores = {key: {"swaps_0": float("nan"), "swaps_1": 1.0, "layout_0": 1.0} for key in ("base", "m-1-sc")}
    assert len(texts(write(described("1", clip_scores=scores)), "all_hardest")) == 2


def test_a_mask_that_is_no_picture(write):
    no_mask = {"1": mask(1, 0, 0, 300, 300, outer_mask="AAAA")}
    with pytest.raises(UserError, match="record 1: field 'outer_mask' is no picture"):
        sdci.load(write(described("1", mask_data=no_mask)), split="all_swaps")


def make_records(count: int, summary_count: int, seed: int):
    """Records of `summary_count` summaries a part with random vectors, and these vectors."""
    rng = np.random.default_rng(seed)
    part_ND, text_NTD = rng.normal(size=(count, 3)), rng.normal(size=(count, summary_count + 1, 3))
    records = []
    for n in range(count):
        texts = tuple(f"{n}-{t}" for t in range(summary_count + 1))
        records.append(Record("all_swaps", str(n), (f"i{n}",), texts))
    rows = {text: row for row, text in enumerate(text for record in records for text in record.texts)}
    pictures, text_SD = {f"i{n}": n for n in range(count)}, text_NTD.reshape(-1, 3)
    return records, Embeddings(part_ND, text_SD, pictures, rows, {}), part_ND @ text_SD.T


@pytest.mark.parametrize(("count", "summary_count"), [(1, 1), (8, 1), (19, 1), (11, 5)])
def test_both_tasks_in_loops(count, summary_count):
    """The worst own summary against the best of the seven others, and against the wrong one."""
    records, embedded, score_NT = make_records(count, summary_count, count)
    items = sdci.evaluate(sdci.number_batches(records), records, embedded)
    for n, score_MT in enumerate(score_NT.reshape(count, count, summary_count + 1)):
        worst_score = min(score_MT[n, :summary_count])
        batch = [m for m in range(count) if m // 8 == n // 8 and m != n]
        foreign_scores = [score_MT[m, t] for m in batch for t in range(summary_count)]
        assert items["all_swaps_match"].values[n] == (worst_score > max(foreign_scores, default=-np.inf))
        assert items["all_swaps_negative"].values[n] == (worst_score > score_MT[n, summary_count])


def test_a_missing_part_leaves_the_other_batches_as_they_are():
    records, embedded, score_NT = make_records(10, 1, 0)
    batches = sdci.number_batches(records)
    del embedded.image_row["i0"]
    items = sdci.evaluate(batches, records, embedded)["all_swaps_match"]
    assert items.ids == tuple(map(str, range(1, 10)))
    assert items.values[-2:].tolist() == [score_NT[8, 16] > score_NT[8, 18], score_NT[9, 18] > score_NT[9, 16]]
