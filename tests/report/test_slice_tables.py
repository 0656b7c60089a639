"""Slices in the report: a planted one is shown, chance shows none, and what was not searched is said."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from compclip.report import slice_tables
from compclip.report.slice_tables import search_table
from tests.report.compared_rows import METHODS, RECORDS, is_above, make_table, write_records

ABOVE = np.array([is_above(number) for number in range(RECORDS)])


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return {"made": write_records(tmp_path_factory.mktemp("records"))}


def draw(rng: np.random.Generator, share: float = 0.5) -> np.ndarray:
    """Outcomes of two metrics."""
    return (rng.random((2, RECORDS)) < share).astype(float)


def planted(reference: str = "finetune"):
    """NegCLIP loses every record that says above and wins the others; fine-tuning is as the pretrained model."""
    rng = np.random.default_rng(0)
    base = draw(rng)
    return make_table({"pretrained": base, "finetune": base, "negclip": np.where(ABOVE, 0.0, 1.0) * np.ones((2, 1))})


def test_a_planted_slice_is_found(records):
    """Against both rows, and its complement; a group that holds half of it is not shown; an equal row has none."""
    table = search_table(planted(), records, "finetune")
    assert {(line.method, line.reference) for line in table.lines} == {
        ("negclip", "pretrained"),
        ("negclip", "finetune"),
    }
    shown_lines = [line for line in table.lines if line.shown and line.reference == "pretrained"]
    assert [(line.slice.name, line.slice.items) for line in shown_lines] == [("word: below", 120), ("word: above", 40)]
    assert "group: part 1" in {line.slice.name for line in table.lines}
    assert shown_lines[1].slice.difference < shown_lines[1].slice.elsewhere - 0.8 and shown_lines[1].slice.p < 0.01
    assert (table.comparisons, table.not_searched) == (3, ())


def test_files_say_the_same(records):
    """Differences in the metrics' own unit in the CSV, in points for people; every slice in one, the shown ones in both."""
    table = search_table(planted(), records, "finetune")
    lines = list(csv.DictReader(slice_tables.format_slices_csv([table]).splitlines()))
    assert len(lines) == len(table.lines) and {line["method"] for line in lines} == {"negclip"}
    assert float(lines[0]["difference"]) == pytest.approx(table.lines[0].slice.difference, abs=1e-6)
    [(method, lines)] = slice_tables.group_slices(table)
    assert method == "negclip" and len(lines) == sum(line.shown for line in table.lines)
    text = slice_tables.describe_search(table)
    assert "Searched: 3 comparisons of a row on a benchmark (made)" in text
    further = sum(not line.shown for line in table.lines)
    assert f"{further} further slices stand in slices.csv." in text


def test_the_family_wise_error_of_a_whole_table_is_held(records, monkeypatch):
    """In 200 made tables of three rows whose outcomes are chance, about 5 % show a slice."""
    monkeypatch.setattr(slice_tables, "FLIPS", 200)
    has_lines = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        table = search_table(make_table({method: draw(rng) for method in METHODS}), records, "finetune")
        has_lines.append(bool(table.lines))
    assert np.mean(has_lines) <= 0.09  # 0.05 and three standard deviations


def test_a_metric_is_compared_with_itself(records):
    """A row that wins one metric on every record departs in no slice of records."""
    base = np.zeros((2, RECORDS))
    table = search_table(make_table({"pretrained": base, "negclip": np.array([[1.0], [0.0]]) + base}), records)
    assert table.comparisons == 1 and table.lines == ()


def test_other_files_than_those_that_were_scored(records):
    base = np.zeros((2, RECORDS))
    assert search_table(make_table({"pretrained": base}, fingerprint="another"), records) is None
    assert search_table(make_table({"pretrained": base}), {}) is None


def test_seeds_are_averaged_and_items_that_a_row_lacks_left_out(records):
    group = planted()
    table = search_table(make_table({"pretrained": np.zeros((2, RECORDS))}, seeds=(0, 1)), records)
    assert table.items[0].first_run["pretrained"].cell.seed == 0 and len(table.items[0].ids) == 2 * RECORDS
    items = group.rows[2].runs[0].results["made"].items
    items["itt"] = items["itt"].at(range(RECORDS - 5))
    (joined,) = search_table(group, records).items
    assert len(joined.ids) == 2 * RECORDS - 5 and joined.metrics == ("itt", "tot")
