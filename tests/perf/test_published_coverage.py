"""The tables of published numbers: they are the generator's; every row has a method, every column a metric, or a reason."""

import pytest
import yaml

from compclip.base import plugins
from compclip.report import published_numbers
from perf.truth import published_coverage
from tests import fake_grid
from tests.conftest import ROOT
from tests.shipped_files import SHIPPED_PARAMS, list_shipped

FOLDER = ROOT / "experiments" / "published"


@pytest.fixture(scope="module")
def grids():
    """All grids as plain YAML, which has the same names in a hundredth of the time that reading them for a run takes."""
    files = [*list_shipped(f"{published_coverage.GRIDS}/*.yaml"), SHIPPED_PARAMS]
    return {file.stem: yaml.load(file.read_bytes(), yaml.CSafeLoader) for file in files}


def read_grid(grids: dict[str, dict], name: str) -> dict:
    """A grid's methods and backbones with what its file takes over from its base."""
    raw = grids[name]
    return (read_grid(grids, raw["base"]) if "base" in raw else {}) | raw.get("grid", {})


@pytest.fixture(scope="module")
def methods(grids):
    return published_coverage.list_grid_methods(grids)


def test_the_committed_table_is_the_generators(methods):
    """`python -m perf.truth.published_coverage` writes it; whoever adds a table, a method or a grid runs that."""
    table = published_coverage.format_coverage(FOLDER, methods)
    assert (FOLDER / published_coverage.FILE).read_text("utf-8") == table, (
        "run `python -m perf.truth.published_coverage`"
    )


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
            sections = [read_grid(grids, name) for name in names]
            backbone = published_numbers.to_slug(n.backbone)
            assert any(n.method in grid["methods"] and backbone in grid["backbones"] for grid in sections), n
    assert {name for table in tables.values() for name in table.grids} <= grids.keys()
    assert [key for key, table in tables.items() if table.printed and not table.grids] == [("FSC-CLIP", "ViT-L/14")]


def test_every_reason_is_needed(methods):
    """By a row without a method; one that has got a method loses its reason."""
    rows_without_method = {n.row for n in published_numbers.read_numbers(FOLDER) if n.method not in methods}
    reasons = published_coverage.read_reasons(FOLDER / published_coverage.REASONS)
    assert rows_without_method == {name.rpartition(": ")[2] for name in reasons}


def test_every_word_on_a_column_is_needed():
    """Each pattern fits a column, each printed column is in a table."""
    notes = published_coverage.read_column_notes(FOLDER / published_coverage.NOTES_FILE)
    keys = {(n.paper, n.column) for n in published_numbers.read_numbers(FOLDER)}
    for pattern in [*notes.differs, *notes.none]:
        assert any(published_coverage.match_patterns({pattern: ""}, key) for key in keys), pattern
    assert {(paper, column) for paper, columns in notes.printed.items() for column in columns} == keys


def test_every_column_is_a_metric_of_the_module_that_measures_it():
    """Or the report's mean of some: of both ways of retrieval, of several sets, of the benchmarks."""
    notes = published_coverage.read_column_notes(FOLDER / published_coverage.NOTES_FILE)
    names = plugins.list_plugins(plugins.BENCHMARKS)
    for n in published_numbers.read_numbers(FOLDER):
        if not published_coverage.match_patterns(notes.none, (n.paper, n.column)) and n.benchmark != "summary":
            metrics = fake_grid.METRICS[published_coverage.find_benchmark(n.column, names)]
            assert {n.metric, *(f"{way}_{n.metric.removeprefix('mean_')}" for way in ("i2t", "t2i"))} & set(metrics), n
