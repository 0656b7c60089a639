"""Blind rows in the report: beside others, on sighted items, in every file; numbers that a person can check."""

import csv

import pytest

from compclip.base.errors import UserError
from compclip.config.sections import HOLM
from compclip.report import blind_comparison, report_page
from compclip.runs import run_folder
from tests import fake_runs
from tests.report import made_page

# What two blind rows get right of swap_att and swap_obj: items 5 to 9, and 4, of the first; item 2 of the second.
ROWS = {
    "length": {"swap_att": "1111100000", "swap_obj": "11110"},
    "bigram": {"swap_att": "0000000000", "swap_obj": "00000"},
}


@pytest.fixture
def runs(tmp_path):
    """The fake grid with blind rows beside its results."""
    for name, bits in ROWS.items():
        folder = run_folder.blind_folder(tmp_path, fake_runs.cell("clic").data) / name
        fake_runs.write_sugarcrepe(folder, bits)
    return made_page.make_grid(tmp_path)


@pytest.fixture
def page(tmp_path, runs):
    blind = blind_comparison.read_blind_runs(tmp_path, ["scenes"], fake_runs.BENCHMARKS)
    columns = [*(f"sugarcrepe/{name}" for name in ("swap_att", "swap_obj", "swap")), "hard_positives/brittleness"]
    return made_page.build_grid_page(runs, columns=columns, blind=blind)


def test_sighted_items_are_those_that_every_row_gets_wrong(page):
    """negclip has 3 and 5 of the last five of swap_att, and of the last of swap_obj none."""
    (table,) = page.tables.blind.values()
    sighted, gains = map(made_page.read_statistics, (table.sighted, table.gains))
    number = sighted["negclip"]["sugarcrepe/swap_att"]
    assert number.mean == pytest.approx(0.8) and number.difference.items == 5
    assert number.difference.low < 0.8 <= number.difference.high <= 1
    assert sighted["pretrained"]["sugarcrepe/swap_att"].mean == 0
    assert gains["negclip"]["sugarcrepe/swap_att"].change == pytest.approx(0.8)
    assert sighted["negclip"]["sugarcrepe/swap_obj"].mean == 0
    assert sighted["negclip"]["sugarcrepe/swap"].mean == pytest.approx(0.4)


def test_every_file_has_them(page, tmp_path):
    """In LaTeX they are the last of a table, in italics."""
    texts = made_page.write(page, tmp_path / "out")
    html = texts["index.html"]
    assert '<tbody class="blind">' in html and 'id="blind"' in html and "blind.length" in html
    (tex, *_) = texts["report.tex"].split(r"\end{tabular}")
    assert tex.index(r"\textit{blind.length}") > tex.index("negclip") and r"\textit{blind.bigram}" in tex
    assert tex.count(r"\midrule") == 2
    lines = list(csv.DictReader(texts["blind.csv"].splitlines()))
    by_row = {(line["method"], line["metric"]): line for line in lines}
    ours = by_row["negclip", "swap_att"]
    assert (ours["mean"], ours["seeds"]) == ("0.900000", "2")
    assert (ours["sighted"], ours["sighted_items"], ours["gain"]) == ("0.800000", "5", "0.800000")
    assert by_row["blind.length", "swap_att"]["mean"] == "0.500000"
    marks = [statistic for _, _, statistic in page.tables.main[0].numbers()]
    assert any(s.rank or s.equal_to for s in marks)
    assert [row.method for row in page.tables.main[0].rows] == list(fake_runs.METHODS)


def test_a_correction_is_over_all_differences_of_a_table(runs, tmp_path, monkeypatch):
    """A p value of 3 % does not pass Holm's."""
    monkeypatch.setattr(report_page.decisions, "p_value", lambda interval: 0.03)
    runs_by_data = blind_comparison.read_blind_runs(tmp_path, ["scenes"], fake_runs.BENCHMARKS)
    blind = {"scenes": [run for run in runs_by_data["scenes"] if run.cell.method == "blind.bigram"]}

    def count_verdicts(correction):
        page = made_page.build_grid_page(runs, blind=blind, correction=correction)
        (table,) = page.tables.blind.values()
        return sum(bool(statistic.verdict) for _, _, statistic in table.gains.numbers())

    assert count_verdicts("none") > 0 and count_verdicts(HOLM) == 0


def test_rows_of_other_files_are_refused(runs, tmp_path):
    path = run_folder.blind_folder(tmp_path, fake_runs.cell("clic").data) / "length" / "sugarcrepe.json"
    path.write_text(path.read_text().replace('"sugarcrepesugarcrepe"', '"other"'))
    blind = blind_comparison.read_blind_runs(tmp_path, ["scenes"], fake_runs.BENCHMARKS)
    with pytest.raises(UserError, match=r"results of sugarcrepe: blind.length-none-scenes-0 and .*different benchmark"):
        made_page.build_grid_page(runs, blind=blind)
