"""An ablation from the command to the page: the grid, its runs, their differences to the whole method."""

import csv
import json

import pytest

from compclip.config import __main__ as config_command
from compclip.config import grid, read
from compclip.report import __main__ as report_command
from tests import tiny_project

PARTS = ("global", "local", "gamma", "epsilon")


def swap(root, method):
    """The share of right answers as its result file has it."""
    document = json.loads((tiny_project.results(root, tiny_project.cell(method)) / "sugarcrepe.json").read_text())
    return document["metrics"]["swap"]


def test_an_ablation_from_the_command_to_the_page(here_finished, capsys):
    assert config_command.main(["ablate", "fsc_clip"]) == 0
    assert config_command.main(["use", "experiments/grids/ablate_fsc_clip.yaml", "--force"]) == 0
    tiny_project.plan()
    original_runs = {path.name for path in (here_finished / "store").iterdir()}
    cells = [cell.name for cell in grid.list_cells(read.load_params("params.yaml"))]
    for cell in cells:
        tiny_project.collect(cell)
    new = {path.name for path in (here_finished / "store").iterdir()} - original_runs
    assert len(cells) == 6 and len(new) == len(PARTS)  # the whole method and the pretrained model were there
    assert report_command.main([]) == 0
    reports = here_finished / "reports"
    rows = list(csv.DictReader((reports / "reference.csv").read_text().splitlines()))
    expected_methods = ["pretrained", *(f"fsc_clip.without_{name}" for name in PARTS)]
    assert [row["method"] for row in rows if row["metric"] == "swap"] == expected_methods
    for row in rows:
        if (row["benchmark"], row["metric"]) == ("sugarcrepe", "swap"):
            change = swap(here_finished, row["method"]) - swap(here_finished, "fsc_clip")
            assert float(row["difference"]) == pytest.approx(change, abs=1e-6)
            assert float(row["low"]) <= change + 1e-6 and float(row["high"]) >= change - 1e-6
    page = (reports / "index.html").read_text()
    assert "Differences to fsc_clip<" in page and '<th scope="row">fsc_clip.without_local' in page
