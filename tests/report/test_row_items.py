"""Slices of items: a planted one is found, and the family-wise error is held; won and lost items on the page."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compclip.prepare import record_writer
from compclip.prepare.record_writer import BenchmarkRecords, RecordPicture, StoredRecord
from compclip.report import row_items
from compclip.report.row_items import join_items, make_galleries, search_slices
from compclip.report.tables import MethodRow, ResultTable
from compclip.runs.item_outcomes import COMPOSITION, Items
from compclip.runs.result_files import FinishedRun, Result
from tests.report import made_page

UNITS, EACH, NAMES = 120, 3, 40


def make_items(seed: int, picture_effect: float = 0.0) -> tuple[np.ndarray, np.ndarray, dict, np.random.Generator]:
    """Differences of -1, 0 and 1 on pictures with three records each, and slices drawn at random, whole pictures too."""
    rng = np.random.default_rng(seed)
    unit_I = np.repeat(np.arange(UNITS), EACH)
    of_unit = np.repeat(rng.random(UNITS) < picture_effect, EACH)
    item_differences = rng.choice([-1.0, 0, 0, 0, 1.0, 1.0], UNITS * EACH)
    shared = np.repeat(rng.choice([-1.0, 0.0, 1.0, 1.0], UNITS), EACH)
    members = {}
    for k in range(NAMES // 2):
        members[f"slice {k}"] = np.flatnonzero(rng.random(UNITS * EACH) < rng.uniform(0.05, 0.5))
    for k in range(NAMES // 2):
        members[f"pictures {k}"] = np.flatnonzero(np.repeat(rng.random(UNITS) < rng.uniform(0.1, 0.5), EACH))
    return np.where(of_unit, shared, item_differences), unit_I, members, rng


def test_the_family_wise_error_is_held():
    """In 200 made benchmarks whose slices tell nothing, with and without pictures that answer alike, about 5 % show one."""
    for effect in (0.0, 0.8):
        has_slices = [bool(search_slices(*make_items(seed, effect), flips=200).slices) for seed in range(200)]
        assert np.mean(has_slices) <= 0.09  # 0.05 and three standard deviations


def test_a_planted_slice_is_found():
    """Items of one word fall by half a point each; a slice with half of them is found after it."""
    difference_I, unit_I, members, rng = make_items(1)
    word = np.flatnonzero(rng.random(len(unit_I)) < 0.2)
    difference_I[word] -= 1
    members |= {"word: above": word, "half": word[::2]}
    first, *further_slices = search_slices(difference_I, unit_I, members, rng).slices
    assert first.name == "word: above" and first.p < 0.01 and first.items == len(word)
    assert first.difference < first.elsewhere - 0.8
    assert {s.name for s in further_slices} <= {"half"}


def test_slices_in_which_nothing_happens_are_no_finding():
    """One item in fifty differs: that none of a slice's thirty does is no surprise."""
    rng = np.random.default_rng(0)
    difference_I = np.where(rng.random(3000) < 0.02, 1.0, 0.0)
    quiet = np.flatnonzero(difference_I == 0)
    members = {f"quiet {k}": rng.choice(quiet, 30, replace=False) for k in range(50)}
    assert search_slices(difference_I, np.arange(3000), members, rng, flips=500).slices == ()


def test_small_slices_and_the_same_items_are_tried_once():
    """Nine pictures are too few, inside or outside; of two names for the same items the first is shown."""
    rng = np.random.default_rng(0)
    difference_I = np.r_[np.ones(20), np.zeros(60)]
    members = {"all but nine": range(71), "nine": range(9), "first": range(20), "second": range(19, -1, -1)}
    search = search_slices(difference_I, np.arange(80), members, rng, flips=500)
    assert [s.name for s in search.slices] == ["first"] and (search.tried, search.left_out) == (1, 0)
    assert search_slices(np.zeros(0), np.zeros(0, int), {}, rng).tried == 0


def test_results_depend_on_the_generator_alone():
    first, second = (search_slices(*make_items(3, 0.8), flips=300) for _ in range(2))
    assert first == second


# won and lost items: pictures, texts, both outcomes, and a bound on how many

RECORDS = 80
METRICS = ("itt", "tot")
TEXTS = ("cup above hat", "cup below hat")


def write_records(tmp_path: Path, picture: str = "gone.png") -> BenchmarkRecords:
    """Write and read the records."""
    file = record_writer.records_file(tmp_path, "made")
    records = []
    pictures = (RecordPicture(picture, 0, 0, ()),)
    for number in range(RECORDS):
        records.append(StoredRecord("made", str(number), TEXTS, (f"part {number % 2}",), pictures))
    record_writer.write_records(file, records, ["f"])
    return record_writer.read_records(file)


def make_table(outcomes: dict[str, np.ndarray], seeds: tuple[int, ...] = (0,), fingerprint: str = "f") -> ResultTable:
    """A table whose rows have these outcomes, of shape metrics x records, under every seed."""
    rows = []
    for method, outcome_MR in outcomes.items():
        runs = tuple(make_run(method, seed, outcome_MR, fingerprint) for seed in seeds)
        rows.append(MethodRow(method, runs, {}))
    return ResultTable("vit", "scenes", (), tuple(rows))


def make_run(method: str, seed: int, outcome_MR: np.ndarray, fingerprint: str) -> FinishedRun:
    """One picture a record, two metrics, and a cosine that is none of the items that are won or lost."""
    ids = tuple(map(str, range(RECORDS)))
    items = {name: Items(ids, of, units=tuple(range(RECORDS))) for name, of in zip(METRICS, outcome_MR, strict=True)}
    items["mean_score"] = Items(ids, np.linspace(0, 9, RECORDS))
    metrics = {name: float(of_metric.values.mean()) for name, of_metric in items.items()}
    scores = frozenset(("mean_score",))
    result = Result("made", "made", COMPOSITION, metrics, scores=scores, items=items, fingerprint=fingerprint)
    return made_page.make_finished(method, seed, {"made": result})


@pytest.fixture
def root(tmp_path):
    Image.new("RGB", (400, 200), (200, 30, 30)).save(tmp_path / "photo.png")
    return tmp_path


def make_group(**options):
    """NegCLIP wins a quarter of the first metric and loses an eighth of the second."""
    base = np.repeat([[0.0], [1.0]], RECORDS, axis=1)
    ours = base.copy()
    ours[0, : RECORDS // 4], ours[1, : RECORDS // 8] = 1.0, 0.0
    return make_table({"pretrained": base, "negclip": ours}, **options)


def make(root, picture="photo.png", count=3):
    records = {"made": write_records(root, picture)}
    return make_galleries([make_group()], records, count, root, Path("../results"))


def test_items_with_pictures_texts_and_outcomes(root):
    (gallery,) = make(root)
    assert gallery.counts == (RECORDS // 4, RECORDS // 8)
    assert [len(side) for side in (gallery.won, gallery.lost)] == [3, 3]
    item = gallery.won[0]
    assert (item.ours, item.theirs) == ("right", "wrong") and item.name.startswith("made/itt/")
    assert item.texts == list(TEXTS)
    assert item.link == "../results/negclip/vit-scenes-0/made.json"
    assert item.thumbnails[0].startswith("data:image/jpeg;base64,") and len(item.thumbnails[0]) < 4000
    assert make(root) == [gallery]  # the same items in every call


def test_no_items_where_none_are_wanted_and_fewer_of_many_methods(root, monkeypatch):
    assert make(root, count=0) == []
    monkeypatch.setattr(row_items, "MOST_ITEMS", 16)  # two rows, won and lost, of composition and of retrieval
    (gallery,) = make(root)
    assert [len(side) for side in (gallery.won, gallery.lost)] == [2, 2]


@pytest.mark.parametrize("picture", ["gone.png", "broken.png"])
def test_pictures_that_are_missing_or_no_pictures(root, picture):
    (root / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    (gallery,) = make(root, picture)
    assert len(gallery.won) == 3 and gallery.won[0].thumbnails == []


def test_seeds_are_averaged_and_items_that_a_row_lacks_left_out(root):
    records = write_records(root)
    joined = join_items("made", make_group(seeds=(0, 1)).rows, records)
    assert joined.first_run["pretrained"].cell.seed == 0 and len(joined.ids) == 2 * RECORDS
    group = make_group()
    items = group.rows[1].runs[0].results["made"].items
    items["itt"] = items["itt"].at(range(RECORDS - 5))
    joined = join_items("made", group.rows, records)
    assert len(joined.ids) == 2 * RECORDS - 5 and joined.metrics == ("itt", "tot")
    assert join_items("made", make_group(fingerprint="another").rows, records) is None
