"""The table of what samples had: means over seeds, rare parts in a sentence, nothing where no run says."""

import pytest

from compclip.report import report_page, run_details, table_heads
from compclip.report.run_details import collect_runs
from compclip.runs import progress
from compclip.runs.run_folder import REPLACED
from tests import fake_runs
from tests.report.test_page import build

NASTY = "<b>x</b>"


def build_page(tmp_path, shares_by_seed):
    """The page of the fake grid, of which the runs of clic say what their samples had."""
    runs, _ = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, fake_runs.make(tmp_path / "runs"))
    for run, shares in zip([r for r in runs if r.cell.method == "clic"], shares_by_seed, strict=False):
        run.environment["view_shares"] = shares
    return build(runs)


def test_shares_are_means_over_seeds(tmp_path):
    shares = [{"captions": 1, "a": 0.05, "positives/positives.swap": share} for share in (0.02, 0.03)]
    (group,) = build_page(tmp_path, shares).tables.main
    notes = run_details.describe_shares(group)
    assert notes == ["clic: positives/positives.swap was there for 2.5 % of the samples"]


def test_the_page_says_it_and_escapes_it(tmp_path):
    html = report_page.render_page(build_page(tmp_path, [{"captions": 1.0, NASTY: 0.01}] * 2))
    assert "1 rare, cut or replaced" in html and "clic: &lt;b&gt;x&lt;/b&gt; was there for 1.0 % of the samples" in html
    assert NASTY not in html and 'id="shares"' in html


@pytest.mark.parametrize(("share", "is_in_tables"), [(0.5, True), (0.02, False)])
def test_replaced_samples_are_said(tmp_path, share, is_in_tables):
    """Of the mean over seeds, where one without any counts as 0: in a sentence, and beside the tables from a tenth on."""
    page = build_page(tmp_path, [{"captions": 1.0, REPLACED: share}, {"captions": 1.0}])
    line = f"clic: {progress.describe_replaced(share / 2)}"
    assert run_details.describe_shares(page.tables.main[0]) == [line]
    for group in page.tables.main:
        assert (line in table_heads.describe_marks(group)) == is_in_tables
        assert (f"{group.name}: {line}" in table_heads.list_warnings(group)) == is_in_tables
