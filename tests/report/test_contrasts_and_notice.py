"""Differences to plain fine-tuning of the text tower, and the notice on drawings; numbers of fake_runs."""

from dataclasses import replace

from compclip.base.safe_names import SafeName
from compclip.config import drawn_scenes, read
from compclip.report import report_page
from compclip.report.run_details import collect_runs
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page


def build(root, notice=drawn_scenes.NOTICE):
    runs = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(root))[0]
    return made_page.build_page(runs, fake_runs.BENCHMARKS, notice=notice)


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
