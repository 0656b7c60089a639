"""Seeds that were trained with different parameters are no mean of one method."""

import pytest

from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.report import run_details
from compclip.report.run_details import collect_runs
from compclip.runs.run_folder import Published
from tests import fake_grid, fake_runs
from tests.config.test_grids import GRIDS

NAME = "clic.frozen_text-vit_b_32-laion-0"


@pytest.fixture
def params():
    return read.load_params(GRIDS["clic_table12"])


def runs(params, folder):
    return collect_runs(grid.list_cells(params), params.evaluate.benchmarks, folder)[0]


def config(root):
    return Published(root, fake_runs.cell("clic.frozen_text", "vit_b_32", "laion")).trained.config


def test_runs_of_the_grid_s_parameters_pass(params, tmp_path):
    assert run_details.find_stale_runs(params, runs(params, fake_grid.make(params, tmp_path)), partial=False) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [("lr: 1.0e-06", "lr: 0.123", "train.lr=0.123 where the grid has 1e-06"),
     ("  positives: 4", "  positives: 3", "method.positives=3 where the grid has 4")],
)  # fmt: skip
def test_a_run_of_other_parameters_is_named(params, tmp_path, old, new, difference):
    """An error, or with --partial a line on the page; a variant's own values are no difference."""
    path = config(fake_grid.make(params, tmp_path))
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    collected = runs(params, tmp_path)
    with pytest.raises(UserError, match=f"{NAME}: trained with {difference}; run `compclip repro`, or give --partial"):
        run_details.find_stale_runs(params, collected, partial=False)
    assert [(m.cell, m.reason) for m in run_details.find_stale_runs(params, collected, partial=True)] == [
        (NAME, f"trained with {difference}")
    ]


def test_where_a_run_was_made_is_no_difference(params, tmp_path):
    path = config(fake_grid.make(params, tmp_path))
    path.write_text(path.read_text().replace("workers: 12", "workers: 3"))
    assert "workers: 3" in path.read_text()
    assert run_details.find_stale_runs(params, runs(params, tmp_path), partial=False) == []


def test_an_option_that_is_newer_than_a_run_counts_at_its_default(params, tmp_path):
    """A run from before it is not stale; where the grid sets it to something else it is."""
    path = config(fake_grid.make(params, tmp_path))
    lines = path.read_text().splitlines(keepends=True)
    without = [line for line in lines if line.strip() not in ("text_layers: 0", "epochs: 1.0")]
    assert len(lines) - len(without) == 2  # the grid sets epochs
    path.write_text("".join(without))
    [stale] = run_details.find_stale_runs(params, runs(params, tmp_path), partial=True)
    assert stale.reason == "trained with train.epochs=5.0 where the grid has 1.0"
