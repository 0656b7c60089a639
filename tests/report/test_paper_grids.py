"""The papers' numbers beside ours for their own grids, on invented results of every cell."""

from __future__ import annotations

import shutil
from dataclasses import asdict

import pytest

from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.report import __main__ as report_command
from compclip.report import page, published
from compclip.report.collect import collect
from compclip.report.tables import SUMMARIES
from tests import fake_grid
from tests.conftest import ROOT
from tests.test_grids import GRIDS, TABLES, rows

FOLDER = ROOT / "experiments" / "published"
PRINTED = published.read(FOLDER)


def built(name, folder):
    params = read.load(GRIDS[name])
    runs, missing = collect(grid.cells(params), params.evaluate.benchmarks, fake_grid.make(params, folder))
    official = fake_grid.official(params, FOLDER)
    return page.build(
        runs, params.evaluate.benchmarks, params.report.columns, missing, PRINTED, lambda run: {}, official=official
    )


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_the_grid_s_tables_stands_beside_ours(name, tmp_path):
    """On each backbone and data set our line follows the paper's lines of the same method, and no other backbone's."""
    made = page.comparisons(built(name, tmp_path))
    beside = set()
    for table in made:
        for before, line in zip(table.lines, table.lines[1:], strict=False):
            if line.ours:
                backbone, data = line.source.removeprefix("ours: ").split(", ")
                place = published.slug(before.source.rpartition(": ")[2])
                assert not before.ours and before.label == line.label and len(before.cells) == len(line.cells)
                assert place in (backbone, published.slug(f"{backbone}, {data}"))
                beside.add((table.title, line.label))
    shown = {*read.load(GRIDS[name]).report.columns, *(f"summary/{s}" for s in SUMMARIES)}
    assert {(f"{n.paper}, {n.table}", n.method) for n in rows(name) if n.column in shown} <= beside


def test_the_numbers_are_those_of_the_row(tmp_path):
    """Table 12 as printed, changes against CLIP; ours from the cell's own results, ZS-10 as the mean of ten."""
    (table,) = [t for t in page.comparisons(built("clic_table12", tmp_path)) if t.title == "CLIC, Table 12"]
    at = [table.columns.index(c) for c in ("zeroshot_ten/top_1", "sugarcrepe/swap")]
    lines = {(line.label, line.ours): [line.cells[i] for i in at] for line in table.lines}
    assert lines["clic.frozen_text", False] == ["60.3 (−1.1)", "64.4 (+1.7)"]
    ten = [b for b in read.load(GRIDS["clic_table12"]).evaluate.benchmarks if b.startswith("zeroshot_ten_")]
    cell = ("clic.frozen_text", "vit_b_32", "laion")
    zs = sum(fake_grid.number(*cell, b, "top_1") for b in ten) / 10
    swap = fake_grid.number(*cell, "sugarcrepe", "swap")
    assert [c.split(" ")[0] for c in lines["clic.frozen_text", True]] == [f"{100 * zs:.1f}", f"{100 * swap:.1f}"]


@pytest.mark.parametrize("name", ["clic_table10", "fsc_clip_components", "c2lip_table5", "hard_positives_table4"])
def test_the_page_of_a_paper_s_grid(name, tmp_path, capsys):
    """The whole report, its mean columns and its published tables in every format."""
    params = read.load(GRIDS[name])
    fake_grid.make(params, tmp_path / "root")
    shutil.copytree(FOLDER, tmp_path / "published")
    write_json(tmp_path / "published" / "benchmarks.yaml", asdict(fake_grid.official(params, FOLDER)))
    folders = ["--root", str(tmp_path / "root"), "--out", str(tmp_path / "out")]
    more = [
        "--published",
        str(tmp_path / "published"),
        "--claims",
        str(ROOT / "experiments" / "claims.yaml"),
    ]
    assert report_command.main(["--params", str(GRIDS[name]), *folders, *more]) == 0
    html = (tmp_path / "out" / "index.html").read_text()
    paper, *tables = TABLES[name]
    beside = html.partition('<h2 id="published">')[2]
    assert all(f"<summary>{paper}, {table}</summary>" in beside for table in tables)
    for column in read.load(GRIDS[name]).report.columns:
        assert column.partition("/")[2] in (tmp_path / "out" / "report.csv").read_text()
