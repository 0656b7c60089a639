"""The table of published numbers with and without a method: it is the generator's, and every row has one or a reason."""

from __future__ import annotations

import pytest

from compclip.base.errors import UserError
from compclip.report import __main__ as report_command
from compclip.report import coverage, published
from compclip.report.published import Number
from tests.conftest import ROOT

FOLDER = ROOT / "experiments" / "published"


def test_the_committed_table_is_the_generators():
    """`compclip report published` writes it; whoever adds a table, a method or a grid runs that."""
    methods = coverage.known(ROOT / coverage.GRIDS, ROOT / coverage.PARAMS)
    made = coverage.text(published.read(FOLDER), methods, coverage.reasons(FOLDER / coverage.REASONS))
    assert (FOLDER / coverage.FILE).read_text("utf-8") == made, "run `python -m compclip report published`"


def test_every_reason_is_needed():
    """By a row without a method; one that has got a method loses its reason."""
    methods = coverage.known(ROOT / coverage.GRIDS, ROOT / coverage.PARAMS)
    lacking = {n.row for n in published.read(FOLDER) if n.method not in methods}
    assert lacking == set(coverage.reasons(FOLDER / coverage.REASONS))


def number(paper, row, method):
    return Number(paper, "t", row, method, "b", "", "sugarcrepe", "swap", "1.0")


def test_counts_by_hand(tmp_path, monkeypatch):
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
    methods = coverage.known(tmp_path / "grids", tmp_path / "params.yaml")
    assert methods == {"clic", "clic.c1", "pretrained", "finetune"}
    made = coverage.text(numbers, methods, {"y": "no such ablation", "B: w": "lost"})
    for line in (
        "| A | 2 | 1 | 1 |",
        "| all | 4 | 2 | 2 |",
        "| A | y | 1 | no such ablation |",
        "| B | w | 1 | lost |",
    ):
        assert line in made
    with pytest.raises(UserError, match=r"B: w: has no method in a grid and no reason; give it one in reasons.yaml"):
        coverage.text(numbers, methods, {"y": "no such ablation"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="takes no arguments"):
        report_command.main(["published", "--now"])
