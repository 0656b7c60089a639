"""The tables of published numbers: they are the generator's; every row has a method, every column a metric, or a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.report import published_numbers
from compclip.report.published_numbers import PublishedNumber
from perf import published_coverage
from tests import fake_grid
from tests.conftest import ROOT

FOLDER = ROOT / "experiments" / "published"


@pytest.fixture(scope="module")
def grids():
    """All grids, read once: some seconds."""
    return published_coverage.read_grids(ROOT / published_coverage.GRIDS, ROOT / published_coverage.PARAMS)


@pytest.fixture(scope="module")
def methods(grids):
    return published_coverage.list_grid_methods(grids)


def test_the_committed_table_is_the_generators(methods):
    """`python -m perf.published_coverage` writes it; whoever adds a table, a method or a grid runs that."""
    table = published_coverage.format_coverage(FOLDER, methods)
    assert (FOLDER / published_coverage.FILE).read_text("utf-8") == table, "run `python -m perf.published_coverage`"


def test_every_transcribed_table_is_in_the_index():
    """No more of it than is printed."""
    tables = published_coverage.read_tables(FOLDER / published_coverage.TABLES)
    papers = {paper for paper, _ in tables}
    counts = published_coverage.count_transcribed(published_numbers.read_numbers(FOLDER))
    for key, count in counts.items():
        assert key[0] not in papers or count <= tables[key].printed, key


def test_every_row_has_its_cell_in_a_grid_of_its_table(grids):
    """By method and backbone, in the grids that the index names; the released ViT-L/14 has none."""
    tables = published_coverage.read_tables(FOLDER / published_coverage.TABLES)
    for n in published_numbers.read_numbers(FOLDER):
        names = tables[n.paper, n.table].grids if (n.paper, n.table) in tables else ()
        if n.method and names:
            sections = [grids[name]["grid"] for name in names]
            backbone = published_numbers.to_slug(n.backbone)
            assert any(n.method in grid["methods"] and backbone in grid["backbones"] for grid in sections), n
    assert {name for table in tables.values() for name in table.grids} <= grids.keys()
    assert [key for key, table in tables.items() if table.printed and not table.grids] == [("FSC-CLIP", "ViT-L/14")]


def test_tables_by_hand():
    """Values and deviations are counted; a table in no file has none."""
    table = published_coverage.PublishedTable("all", "r", "c", 3, ("one", "two"), "lost")
    numbers = [number("A", "x", "", table="1"), replace(number("A", "y", "", table="1"), deviation="0.1")]
    lines = published_coverage.format_table_index({("A", "1"): table, ("A", "2"): table}, numbers)
    assert lines[-3:] == [
        "| A | 1 | all | 3 | 3 | `one`, `two` | lost |",
        "| A | 2 | all | 3 | 0 | `one`, `two` | lost |",
        "| all | | | 6 | 3 | | |",
    ]


def test_every_reason_is_needed(methods):
    """By a row without a method; one that has got a method loses its reason."""
    rows_without_method = {n.row for n in published_numbers.read_numbers(FOLDER) if n.method not in methods}
    reasons = published_coverage.read_reasons(FOLDER / published_coverage.REASONS)
    assert rows_without_method == {name.rpartition(": ")[2] for name in reasons}


def test_every_word_on_a_column_is_needed():
    """Each pattern fits a column, each printed column is in a table."""
    notes, keys = (
        published_coverage.read_column_notes(FOLDER / published_coverage.NOTES_FILE),
        {(n.paper, n.column) for n in published_numbers.read_numbers(FOLDER)},
    )
    for pattern in [*notes.differs, *notes.none]:
        assert any(published_coverage.match_patterns({pattern: ""}, key) for key in keys), pattern
    assert {(paper, column) for paper, columns in notes.printed.items() for column in columns} == keys


def test_every_column_is_a_metric_of_the_module_that_measures_it():
    """Or the report's mean of some: of both ways of retrieval, of several sets, of the benchmarks."""
    notes, names = (
        published_coverage.read_column_notes(FOLDER / published_coverage.NOTES_FILE),
        plugins.list_plugins(plugins.BENCHMARKS),
    )
    for n in published_numbers.read_numbers(FOLDER):
        if not published_coverage.match_patterns(notes.none, (n.paper, n.column)) and n.benchmark != "summary":
            metrics = fake_grid.METRICS[published_coverage.find_benchmark(n.column, names)]
            assert {n.metric, *(f"{way}_{n.metric.removeprefix('mean_')}" for way in ("i2t", "t2i"))} & set(metrics), n


def number(paper, row, method, column="sugarcrepe/swap", table="t"):
    return PublishedNumber(paper, table, row, method, "b", "", *column.split("/"), "1.0")


def test_columns_by_hand():
    """One line a column, its tables together; several words on one stand together; summaries are the report's."""
    numbers = [number("A", "x", "", "retrieval_coco/i2t_recall_at_1", table) for table in ("1", "2", "1")]
    numbers += [number("A", "x", "", "summary/ZS"), number("B", "y", "", "overall/average")]
    notes = published_coverage.ColumnNotes(
        {"A": {"retrieval_coco/i2t_recall_at_1": "COCO", "summary/ZS": "ZS"}, "B": {"overall/average": "Mean"}},
        {"A: retrieval_*": "cut", "*: *_at_1": "ties", "B: nothing": "never"}, {"B: overall/*": "of all kinds"},
    )  # fmt: skip
    assert published_coverage.format_column_table(numbers, notes, ["retrieval"])[2:] == [
        "| A | 1, 2 | COCO | `retrieval_coco/i2t_recall_at_1` | cut; ties |",
        "| A | t | ZS | `summary/ZS` |  |",
        "| B | t | Mean | none: of all kinds |  |",
    ]


@pytest.mark.parametrize(("column", "message"), [
    ("winoground/text", "A: winoground/text: no word of how it is printed; give it one in columns.yaml: printed"),
    ("retrieval/x", "A: retrieval/x: is no metric of ours; say why in columns.yaml: none, or add the benchmark"),
    ("summary/All", "A: summary/All: is no metric of ours")])  # fmt: skip
def test_a_column_without_a_match_or_a_word_is_named(column, message):
    notes = published_coverage.ColumnNotes({"A": {"retrieval/x": "X", "summary/All": "All"}}, {}, {})
    with pytest.raises(UserError, match=message):
        published_coverage.format_column_table([number("A", "x", "", column)], notes, ["winoground", "retrieval_coco"])


def test_sections_that_use_one_module_are_its():
    names = ["sugarcrepe", "sugarcrepe_pp", "retrieval"]
    benchmarks = [
        published_coverage.find_benchmark(column, names)
        for column in ("sugarcrepe_pp/x", "sugarcrepe/x", "retrieval_iiw/x", "retro/x")
    ]
    assert benchmarks == ["sugarcrepe_pp", "sugarcrepe", "retrieval", ""]


@pytest.mark.parametrize("text", ["- a", "printed: {}\ndiffers: {}", "printed: {}\ndiffers: x\nnone: {}",
                                  "printed: {A: x}\ndiffers: {}\nnone: {}"])  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path, text):
    (tmp_path / "columns.yaml").write_text(text)
    with pytest.raises(UserError, match="columns.yaml.*: must "):
        published_coverage.read_column_notes(tmp_path / "columns.yaml")


def test_counts_by_hand(tmp_path):
    """Two papers, three rows with a method, one variant that no grid has."""
    numbers = [
        number("A", "x", "clic"),
        number("A", "y", "clic.c9"),
        number("B", "z", "pretrained"),
        number("B", "w", ""),
    ]
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "one.yaml").write_text("methods: {clic: {variants: {c1: {}}}, pretrained: }\n")
    (tmp_path / "params.yaml").write_text("methods: {finetune: {}}\n")
    methods = published_coverage.list_grid_methods(
        published_coverage.read_grids(tmp_path / "grids", tmp_path / "params.yaml")
    )
    assert methods == {"clic", "clic.c1", "pretrained", "finetune"}
    table = published_coverage.format_method_coverage(numbers, methods, {"y": "no such ablation", "B: w": "lost"})
    for line in (
        "| A | 2 | 1 | 1 |",
        "| all | 4 | 2 | 2 |",
        "| A | y | 1 | no such ablation |",
        "| B | w | 1 | lost |",
    ):
        assert line in table
    with pytest.raises(UserError, match=r"B: w: has no method in a grid and no reason; give it one in reasons.yaml"):
        published_coverage.format_method_coverage(numbers, methods, {"y": "no such ablation"})
