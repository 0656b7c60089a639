"""What stands beside the tables: shared pictures, plain fine-tuning, the notice, what samples had, stalled runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.base.safe_names import SafeName
from compclip.config import drawn_scenes, read
from compclip.report import report_page, run_details, table_formats, table_heads
from compclip.runs import progress
from compclip.runs.run_folder import REPLACED
from tests import fake_runs
from tests.conftest import ROOT
from tests.report import made_page
from tests.shipped_files import SHIPPED_PARAMS

SHARED = {
    "retrieval": {"bytes": 1, "coco_id": 1311, "pictures": 1312},
    "sugarcrepe": {},
    "winoground": {"pictures": 5, "sha256": 5},  # of another grid
}
TOLD = "scenes shares 1,312 pictures with retrieval (1 by length and first bytes, 1,311 by COCO's number)"


def build_with_overlaps(root, methods=fake_runs.METHODS) -> report_page.ReportPage:
    runs = made_page.make_grid(root, fake_runs.cells(methods))
    return made_page.build_grid_page(runs, overlaps=table_heads.read_overlaps(root, ["scenes", "scenes", "elsewhere"]))


def test_pictures_that_training_and_benchmarks_share_are_noted_and_marked(tmp_path):
    """At the benchmark's name, below the table, in Markdown and in the caption."""
    write_json(tmp_path / table_heads.OVERLAPS / "scenes.json", SHARED)
    report = build_with_overlaps(tmp_path)
    assert report.notes == {"vit / scenes": [TOLD]}
    texts = made_page.write(report, tmp_path / "out")
    html = texts["index.html"]
    assert ">retrieval †<small" in html and ">sugarcrepe<small" in html
    assert html.count(f"† {TOLD.replace(chr(39), '&#39;')}.") == 1
    assert f"† {TOLD}." in texts["report.md"].replace("\\", "")
    caption = table_formats.format_latex(report.tables.main, report.notes).partition("\\caption{")[2].partition("\n")[0]
    assert caption.endswith(f"{TOLD}.}}")


def test_a_damaged_file_of_shared_pictures_is_named(tmp_path):
    write_json(tmp_path / table_heads.OVERLAPS / "scenes.json", {**SHARED, "retrieval": 1312})
    with pytest.raises(UserError, match="overlaps/scenes.json: damaged .*`compclip repro -f annotate@scenes`"):
        table_heads.read_overlaps(tmp_path, ["scenes"])


def test_nothing_is_said_where_nothing_is_shared_or_trained(tmp_path):
    assert build_with_overlaps(tmp_path / "a").notes == {"vit / scenes": []}
    write_json(tmp_path / "b" / table_heads.OVERLAPS / "scenes.json", SHARED)
    assert build_with_overlaps(tmp_path / "b", ("pretrained",)).notes == {"vit / scenes": []}


def test_methods_that_train_the_text_tower_are_compared_with_its_plain_fine_tuning(runs):
    """By their runs' parameters; none where the grid has no such row."""
    for index, run in enumerate(runs):
        train = {**run.config.get("train", {}), "trainable": "text" if run.cell.method == "clic" else "all"}
        runs[index] = replace(run, config={**run.config, "train": train})
    assert made_page.build_grid_page(runs, reference="negclip").tables.text_contrasts == ()
    for index, run in enumerate(runs):
        if run.cell.method == "negclip":
            cell = run.cell._replace(method=SafeName("finetune.text", "method"))
            runs[index] = replace(run, cell=cell)
    [table] = made_page.build_grid_page(runs).tables.text_contrasts
    assert [row.method for row in table.rows] == ["clic"]


def test_the_notice_comes_before_any_number(runs, tmp_path):
    """In the page and in Markdown; without one it is not there."""
    noted, plain = (
        made_page.write(made_page.build_grid_page(runs, notice=notice), tmp_path / str(bool(notice)))
        for notice in (drawn_scenes.NOTICE, "")
    )
    assert noted["index.html"].index(drawn_scenes.NOTICE) < noted["index.html"].index("<table")
    assert noted["report.md"].startswith(drawn_scenes.NOTICE) and drawn_scenes.NOTICE not in plain["report.md"]


def test_a_grid_shows_drawings_by_what_it_scores():
    assert drawn_scenes.describe_drawings(read.load_params(SHIPPED_PARAMS)) == drawn_scenes.NOTICE
    photographs = read.load_params(ROOT / "experiments" / "grids" / "clic_table1.yaml")
    assert drawn_scenes.describe_drawings(photographs) == ""


# what samples had

NASTY = "<b>x</b>"


def build_with_shares(runs, shares_by_seed):
    """The page of the fake grid, of which the runs of clic say what their samples had."""
    for run, shares in zip([r for r in runs if r.cell.method == "clic"], shares_by_seed, strict=True):
        run.environment["view_shares"] = shares
    return made_page.build_grid_page(runs)


def test_shares_of_what_samples_had_are_means_over_seeds(runs):
    shares = [{"captions": 1, "a": 0.05, "positives/positives.swap": share} for share in (0.02, 0.03)]
    (group,) = build_with_shares(runs, shares).tables.main
    notes = run_details.describe_shares(group)
    assert notes == ["clic: positives/positives.swap was there for 2.5 % of the samples"]


def test_the_page_says_shares_and_escapes_them(runs):
    html = report_page.render_page(build_with_shares(runs, [{"captions": 1.0, NASTY: 0.01}] * 2))
    assert "1 rare, cut or replaced" in html and "clic: &lt;b&gt;x&lt;/b&gt; was there for 1.0 % of the samples" in html
    assert NASTY not in html and 'id="shares"' in html


@pytest.mark.parametrize(("share", "is_in_tables"), [(0.5, True), (0.02, False)])
def test_replaced_samples_are_said(runs, share, is_in_tables):
    """Of the mean over seeds, where one without any counts as 0: in a sentence, and beside the tables from a tenth on."""
    page = build_with_shares(runs, [{"captions": 1.0, REPLACED: share}, {"captions": 1.0}])
    line = f"clic: {progress.describe_replaced(share / 2)}"
    assert run_details.describe_shares(page.tables.main[0]) == [line]
    for group in page.tables.main:
        assert (line in table_heads.describe_marks(group)) == is_in_tables
        assert (f"{group.name}: {line}" in table_heads.list_warnings(group)) == is_in_tables


# a run whose gradients are 0 up to its end learned nothing behind that step


def logged(*norms: float | None) -> list[dict]:
    """Logged steps 10, 20, … with these gradients; None for a step of before they were logged."""
    rows = [{"step": 10 * number} | {"grad_norm": norm} for number, norm in enumerate(norms, 1)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize(
    ("norms", "expected"),
    [((1.0, 0.5), None), ((1.0, 0.0, 0.0), 20), ((0.0, 1.0), None), ((0.0, 1.0, 0.0), 30), ((0.0,), 10),
     ((1.0, float("inf")), None), ((1.0, None), None), ((), None)],
)  # fmt: skip
def test_the_first_of_the_last_steps_without_a_gradient(norms, expected):
    assert progress.find_stall(logged(*norms)) == expected


def test_its_row_is_marked_in_every_table(tmp_path):
    """negclip's second seed from its second logged step on; no other row."""
    root = fake_runs.make(tmp_path)
    path = Path(fake_runs.trained(root, "negclip-vit-scenes-1").metrics)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | ({"grad_norm": 0.0} if i else {})) + "\n" for i, row in enumerate(rows)))
    texts = made_page.write(made_page.build_grid_page(made_page.collect(root)), tmp_path / "reports")
    says = f" negclip: learned nothing with seed 1 from step {rows[1]['step']} on: the gradients were 0"
    made_page.assert_marked(texts, "⊘", r"$\oslash$", says)
