"""The papers' numbers beside ours for their own grids, on invented results of every cell."""

import shutil
from dataclasses import asdict

import pytest

from compclip.base.files import write_json
from compclip.config import grid
from compclip.config.columns import SUMMARIES
from compclip.report import __main__ as report_command
from compclip.report import published_numbers, report_page
from compclip.report.run_details import collect_runs
from tests import fake_grid
from tests.config.test_grids import GRIDS, TABLES, load, rows
from tests.conftest import ROOT
from tests.report import made_page

FOLDER = ROOT / "experiments" / "published"
PRINTED = published_numbers.read_numbers(FOLDER)


def build_page(name, folder):
    params = load(name)
    benchmarks, official = params.evaluate.benchmarks, fake_grid.official(params, FOLDER)
    runs, _ = collect_runs(grid.list_cells(params), benchmarks, fake_grid.make(params, folder))
    return made_page.build_page(runs, benchmarks, params.report.columns, numbers=PRINTED, official=official)


# a grid of each paper: that every other row has its cell too is tests/perf/test_published_coverage.py's
ONE_OF_EACH = {tables[0]: name for name, tables in reversed(TABLES.items())}


@pytest.mark.parametrize("name", ONE_OF_EACH.values())
def test_every_row_of_the_grid_s_tables_stands_beside_ours(name, tmp_path):
    """On each backbone and data set our line follows the paper's lines of the same method, and no other backbone's."""
    comparisons = report_page.compare_published(build_page(name, tmp_path))
    compared_rows = set()
    for table in comparisons:
        for previous_line, line in zip(table.lines, table.lines[1:], strict=False):
            if line.ours:
                backbone, data = line.source.removeprefix("ours: ").split(", ")
                backbone_slug = published_numbers.to_slug(previous_line.source.rpartition(": ")[2])
                assert not previous_line.ours and previous_line.label == line.label
                assert len(previous_line.cells) == len(line.cells)
                assert backbone_slug in (backbone, published_numbers.to_slug(f"{backbone}, {data}"))
                compared_rows.add((table.title, line.label))
    columns = {*load(name).report.columns, *(f"summary/{s}" for s in SUMMARIES)}
    assert {(f"{n.paper}, {n.table}", n.method) for n in rows(name) if n.column in columns} <= compared_rows


def test_the_numbers_are_those_of_the_row(tmp_path):
    """Table 12 as printed, changes against CLIP; ours from the cell's own results, ZS-10 as the mean of ten."""
    tables = report_page.compare_published(build_page("clic_table12", tmp_path))
    (table,) = [table for table in tables if table.title == "CLIC, Table 12"]
    at = [table.columns.index(c) for c in ("zeroshot_ten/top_1", "sugarcrepe/swap")]
    lines = {(line.label, line.ours): [line.cells[i] for i in at] for line in table.lines}
    assert lines["clic.frozen_text", False] == ["60.3 (−1.1)", "64.4 (+1.7)"]
    ten = [b for b in load("clic_table12").evaluate.benchmarks if b.startswith("zeroshot_ten_")]
    cell = ("clic.frozen_text", "vit_b_32", "laion")
    zs = sum(fake_grid.number(*cell, b, "top_1") for b in ten) / 10
    swap = fake_grid.number(*cell, "sugarcrepe", "swap")
    assert [c.split(" ")[0] for c in lines["clic.frozen_text", True]] == [f"{100 * zs:.1f}", f"{100 * swap:.1f}"]


def test_the_page_of_a_paper_s_grid(tmp_path, monkeypatch):
    """The whole report, its mean columns and its published tables in every format."""
    name = "hard_positives_table4"
    params = load(name)
    fake_grid.make(params, tmp_path)
    shutil.copytree(FOLDER, tmp_path / report_command.PUBLISHED)
    shutil.copy(ROOT / report_command.CLAIMS, tmp_path / report_command.CLAIMS)
    benchmarks = asdict(fake_grid.official(params, FOLDER))
    write_json(tmp_path / report_command.PUBLISHED / "benchmarks.yaml", benchmarks)
    monkeypatch.chdir(tmp_path)
    assert report_command.main(["--params", str(GRIDS[name]), "--out", "out"]) == 0
    html = (tmp_path / "out" / "index.html").read_text()
    paper, *tables = TABLES[name]
    section = html.partition('<details id="published">')[2]
    assert all(f"<summary>{paper}, {table}</summary>" in section for table in tables)
    table = (tmp_path / "out" / "report.csv").read_text()
    assert all(column.partition("/")[2] in table for column in params.report.columns)
