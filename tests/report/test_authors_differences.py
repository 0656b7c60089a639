"""The authors' differences beside ours: the numbers of fake_runs and two printed tables that a person can check."""

from dataclasses import replace

import pytest

from compclip.base.safe_names import SafeName
from compclip.config import drawn_scenes, read
from compclip.report import published_numbers, report_page
from compclip.report.published_numbers import PublishedNumber
from compclip.report.run_details import collect_runs
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page

# In swap of fake_runs the pretrained model has 45 %, negclip 70 and 90, clic 75 and 75.
PUBLISHED = [
    PublishedNumber("A", "Table 1", "ours", "negclip", "B/32", "COCO", "sugarcrepe", "swap", "60.0"),
    PublishedNumber("A", "Table 1", "base", "clic", "B/32", "COCO", "sugarcrepe", "swap", "71.3"),
    PublishedNumber("A", "Table 1", "start", "pretrained", "B/32", "", "sugarcrepe", "swap", "55.0"),
    PublishedNumber("A", "Table 2", "ours", "negclip", "L/14", "COCO", "sugarcrepe", "swap", "90.0"),
    PublishedNumber("A", "Table 2", "base", "clic", "L/14", "COCO", "sugarcrepe", "swap", "80.0", activation="gelu"),
    PublishedNumber("A", "Table 1", "ours", "negclip", "B/32", "COCO", "summary", "Comp", "60.0"),
    PublishedNumber("A", "Table 1", "base", "clic", "B/32", "COCO", "summary", "Comp", "50.0"),
]


def build(root, notice=drawn_scenes.NOTICE, reference="clic"):
    runs = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(root))[0]
    return made_page.build_page(runs, fake_runs.BENCHMARKS, None, [], PUBLISHED, reference=reference, notice=notice)


def test_each_printed_difference_stands_beside_ours(tmp_path):
    """To the reference and to the pretrained model; no mean over benchmarks, and no number of a wrong activation."""
    page = build(tmp_path)
    to_reference = page.list_printed(page.tables.contrasts, "clic")
    to_start = page.list_printed(page.tables.main, "pretrained")
    assert [(line.method, line.column.name, line.paper, line.printed) for line in to_reference] == [
        ("negclip", "sugarcrepe/swap", "A", (-11.3,))
    ]
    assert {(line.method, line.printed) for line in to_start} == {("negclip", (5.0,)), ("clic", (16.3,))}
    swap = {line.method: line for line in to_start}
    assert swap["negclip"].ours == pytest.approx(0.35) and swap["negclip"].agrees
    assert to_reference[0].ours == pytest.approx(0.05) and not to_reference[0].agrees


@pytest.mark.parametrize(
    ("ours", "printed", "agrees"), [(0.1, (3.0, -1.0), True), (-0.1, (3.0,), False), (0.0, (3.0,), False)]
)
def test_signs_agree_where_both_move_the_same_way(tmp_path, ours, printed, agrees):
    column = build(tmp_path).tables.main[0].columns[0]
    line = published_numbers.DifferenceBeside("m", "base", column, "A", ours, printed)
    assert line.agrees is agrees
    assert published_numbers.summarize_differences([line]).startswith(
        f"Of 1 differences to base that the authors print, {int(agrees)} "
    )


def test_plain_fine_tuning_has_the_papers_names():
    """Table 10 of CLIC prints differences to that of the text tower, Table 2 of C2LIP to that of both towers."""
    numbers = published_numbers.read_numbers(ROOT / "experiments" / "published")
    pairs = (("CLIC", "clic", "finetune.text"), ("C2LIP", "c2lip", "finetune"))
    printed = {
        (method, column): published_numbers._list_printed(numbers, paper, method, base, column)
        for paper, method, base in pairs
        for column in ("sugarcrepe/add", "sugarcrepe/swap", "sugarcrepe_pp/replace_itt", "sugarcrepe_pp/swap_itt")
    }
    assert printed["clic", "sugarcrepe_pp/swap_itt"] == (11.3,) and printed["c2lip", "sugarcrepe/add"] == (6.3, 5.4)
    assert all(printed.values())
    assert published_numbers._list_printed(numbers, "CLIC", "clic", "finetune", "sugarcrepe/add") == ()


def test_a_paper_s_row_stands_below_ours(tmp_path):
    """With the sign compared and a line that counts."""
    report_page.write_report(build(tmp_path / "project"), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    below = page.index('<tr class="printed"><th scope="row">A prints')
    assert page[:below].rpartition('<th scope="row">')[2].startswith("negclip<")
    reference = page[page.index('id="reference"') :]
    assert "−11.3 other sign" in reference
    assert "Of 1 differences to clic that the authors print, 0 have the same sign here." in reference


def test_methods_that_train_the_text_tower_are_compared_with_its_plain_fine_tuning(tmp_path):
    """By their runs' parameters; none where the grid has no such row."""
    runs = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path))[0]
    for index, run in enumerate(runs):
        train = {**run.config.get("train", {}), "trainable": "text" if run.cell.method == "clic" else "all"}
        runs[index] = replace(run, config={**run.config, "train": train})
    assert made_page.build_page(runs, fake_runs.BENCHMARKS, reference="negclip").tables.text_contrasts == ()
    for index, run in enumerate(runs):
        if run.cell.method == "negclip":
            cell = run.cell._replace(method=SafeName("finetune.text", "method"))
            runs[index] = replace(run, cell=cell)
    [table] = made_page.build_page(runs, fake_runs.BENCHMARKS).tables.text_contrasts
    assert [row.method for row in table.rows] == ["clic"]


def test_the_notice_comes_before_any_number(tmp_path):
    """In the page and in Markdown; without one it is not there."""
    report_page.write_report(build(tmp_path / "drawn"), tmp_path / "with")
    page = (tmp_path / "with" / "index.html").read_text()
    assert page.index(drawn_scenes.NOTICE) < page.index("<table")
    assert (tmp_path / "with" / "report.md").read_text().startswith(drawn_scenes.NOTICE)
    report_page.write_report(build(tmp_path / "real", notice=""), tmp_path / "without")
    assert drawn_scenes.NOTICE not in (tmp_path / "without" / "report.md").read_text()


def test_a_grid_shows_drawings_by_what_it_scores():
    assert drawn_scenes.describe_drawings(read.load_params(ROOT / "params.yaml")) == drawn_scenes.NOTICE
    photographs = read.load_params(ROOT / "experiments" / "grids" / "clic_table1.yaml")
    assert drawn_scenes.describe_drawings(photographs) == ""
