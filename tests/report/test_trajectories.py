"""Lines between weights (WiSE-FT) and along training, and which checkpoint a row shows; from numbers of fake_runs."""

import csv
import re
from pathlib import Path

import pytest

from compclip.base.files import write_json
from compclip.config.sections import TEST, VALIDATION, WHOLE
from compclip.report import report_page, trajectories
from compclip.runs import result_files
from compclip.runs.picture_splits import PictureSplit
from compclip.runs.run_folder import Published
from tests import fake_runs
from tests.report import made_page
from tests.report.made_page import summary_metrics as metrics

COLUMNS = ["sugarcrepe/swap", "retrieval/i2t_recall_at_1", "retrieval/t2i_recall_at_1"]
NEGCLIP = [cell for cell in fake_runs.cells() if cell.method == "negclip"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Run directories; negclip's two seeds have a snapshot half way, which seed 0 shows and seed 1 does not."""
    root = fake_runs.make(tmp_path)
    for cell, top, shown_share in zip(NEGCLIP, (0.8, 0.6), (0.5, 1.0), strict=True):
        published = Published(root, cell).snapshots
        write_json(published.at(0.5) / "summary.json", metrics(top - 0.2, 0.7))
        write_json(published.at(1.0) / "summary.json", metrics(top, 0.6))
        values = {"0.5": 0.4, "1.0": 0.3 if shown_share == 0.5 else 0.5}
        record = {"steps": {"0.5": 5, "1.0": 10}, "column": COLUMNS[1], "shown": shown_share, "values": values}
        write_json(published.record, record)
    read_config = result_files.read_config

    def read_with_snapshots(trained):
        """As if the method's section asked for a snapshot."""
        config = read_config(trained)
        train_options = {"snapshots": [0.5]} if trained.path.parent.name == "negclip" else {}
        return {**config, "train": {**config.get("train", {}), **train_options}}

    monkeypatch.setattr(result_files, "read_config", read_with_snapshots)
    return root


def build(root: Path) -> report_page.ReportPage:
    collected = made_page.collect(root)
    curves, _ = trajectories.collect_curves(collected, fake_runs.BENCHMARKS, PictureSplit(), root)
    return made_page.build_grid_page(collected, columns=COLUMNS, curves=curves)


def test_a_line_goes_from_the_pretrained_model_over_the_snapshots_to_the_end(runs):
    """Half way seed 0 has 60 % composition and seed 1 40: 50; at the end 80 and 60: 70, whichever is shown."""
    page = build(runs)
    group = page.tables.main[0]
    [line] = trajectories.build_curves(group, page.results.curves, group.summaries["I2T"], group.summaries["Comp"])
    assert [(p.x, p.y) for p in line.points[1:]] == [pytest.approx(xy) for xy in ((70, 50), (60, 70))]
    pretrained = {c.metric: s.mean for c, s in group.rows[0].statistics.items()}
    assert (line.points[0].x, line.points[0].y) == pytest.approx((100 * pretrained["I2T"], 100 * pretrained["Comp"]))
    assert line.points[1].name == "negclip, 50 %"


def test_every_output_says_which_checkpoint_a_row_shows(runs, tmp_path):
    """The page, report.md, report.csv and the curves' own file; of other rows nothing."""
    page = build(runs)
    text = "shows the best of 2 checkpoints by retrieval/i2t_recall_at_1 on validation items: seed 0 at 50 %, seed 1 at the end"
    texts = made_page.write(page, tmp_path / "reports")
    html = texts["index.html"]
    assert 'id="curves"' in html and text in html and "negclip § ¶" in html
    assert re.search(r'aria-label="Along training: compositionality against I2T"', html)
    assert text in texts["report.md"]
    assert made_page.read_column(texts, "checkpoint") == {"pretrained": "", "negclip": text, "clic": ""}
    rows = list(csv.DictReader(texts["training_curves.csv"].splitlines()))
    assert [(r["share"], r["step"], r["shown"], r["validation_value"], r["Comp"]) for r in rows] == [
        ("0.5", "5", "1", "0.4", "60.0000"), ("1", "10", "0", "0.3", "80.0000"),
        ("0.5", "5", "0", "0.4", "40.0000"), ("1", "10", "1", "0.5", "60.0000"),
    ]  # fmt: skip


@pytest.mark.parametrize(("split", "marked"), [(WHOLE, True), (VALIDATION, True), (TEST, False)])
def test_a_choice_by_shown_items_is_marked_as_tuning_on_them(split, marked):
    """A checkpoint was chosen on validation items: whole benchmarks have them, test items have not."""
    row = ("negclip", "vit", "scenes")
    assert (row in trajectories.find_leaks({row: "shows the best"}, split)) is marked


# between the pretrained weights and a run's own


@pytest.fixture
def wise_runs(tmp_path):
    """Run directories; negclip's two seeds have lines over three alphas."""
    root = fake_runs.make(tmp_path)
    for cell, top in zip(NEGCLIP, (0.8, 0.6), strict=True):
        points = [{"alpha": a, "metrics": metrics(0.4 + a * (top - 0.4), 0.8 - 0.2 * a)} for a in (0.0, 0.5, 1.0)]
        write_json(Published(root, cell).line, {"cell": cell.name, "points": points})
    return root


def report(root):
    """The whole report, and its first group."""
    lines, _ = trajectories.collect_lines(NEGCLIP, root)
    page = made_page.build_grid_page(made_page.collect(root), columns=COLUMNS, lines=lines)
    return page, page.tables.main[0]


def test_means_over_seeds_by_hand(wise_runs):
    """Half way, seed 0 has 60 % and seed 1 50 % composition: 55; I2T falls from 80 to 60."""
    page, group = report(wise_runs)
    columns = group.summaries
    lines = trajectories.build_trajectories(group, page.results.lines, columns["I2T"], columns["Comp"])
    assert [t.method for t in lines] == ["negclip"]
    assert lines[0].colour == [row.method for row in group.rows].index("negclip")
    assert [(p.x, p.y) for p in lines[0].points] == [pytest.approx(xy) for xy in ((80, 40), (70, 55), (60, 70))]


def test_the_plot_begins_at_the_pretrained_model_and_ends_at_the_method(wise_runs):
    """A line of three points, one small dot with its alpha, one named end, one diamond, in the page."""
    page, _ = report(wise_runs)
    html = report_page.render_page(page)
    svg = re.search(r'<svg[^>]*aria-label="WiSE-FT: compositionality against I2T".*?</svg>', html, re.S).group()
    titles = re.findall(r"<title>(.*?)</title>", svg)
    assert titles[0] == "negclip, α 0.5: 70.0 / 55.0"
    assert [title.partition(":")[0] for title in titles[1:]] == ["negclip", "pretrained"]
    assert re.findall(r"<text [^>]*>([a-z]+)</text>", svg) == ["negclip", "pretrained"]
    assert '<details id="wise_ft">' in html


def test_the_table_has_every_run_and_alpha(wise_runs):
    """One line each, the summary columns in percent."""
    page, _ = report(wise_runs)
    rows = list(csv.DictReader(trajectories.format_lines_csv(page.tables.main, page.results.lines).splitlines()))
    assert [(r["run"], r["alpha"]) for r in rows] == [(c.name, a) for c in NEGCLIP for a in ("0", "0.5", "1")]
    assert (rows[4]["Comp"], rows[4]["I2T"], rows[4]["T2I"]) == ("50.0000", "70.0000", "50.0000")


def test_a_benchmark_that_was_left_out(wise_runs):
    """A line without a benchmark of the column is not drawn, rather than at a mean over fewer."""
    points = [{"alpha": alpha, "metrics": {"sugarcrepe/swap": 0.5}} for alpha in (0, 1)]
    write_json(Published(wise_runs, NEGCLIP[0]).line, {"points": points})
    page, group = report(wise_runs)
    columns = group.summaries
    assert trajectories.build_trajectories(group, page.results.lines, columns["I2T"], columns["Comp"]) == []
