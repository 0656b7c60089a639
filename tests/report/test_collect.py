"""What is read of a run directory, and what is said of one that is missing or damaged."""

import json

import pytest

from compclip.base.errors import UserError
from compclip.report.run_details import collect_runs
from compclip.runs.result_files import read_result
from tests import fake_runs

CELL = fake_runs.cell("clic")


@pytest.fixture
def runs(tmp_path):
    return fake_runs.make(tmp_path)


def test_all_cells_in_the_grid_s_order(runs):
    """And no others."""
    cells = fake_runs.cells(("negclip", "clic"))
    collected, missing_results = collect_runs(cells, fake_runs.BENCHMARKS, runs)
    assert [r.cell.name for r in collected] == [c.name for c in cells]
    assert missing_results == []
    assert collected[-1].curve[0]["clip"] == 3.5
    assert collected[-1].config["train"]["lr"] == 2e-6


def test_missing_cells_and_results_are_all_named(runs):
    fake_runs.result(runs, CELL.name, "retrieval").unlink()
    fake_runs.trained(runs, CELL.name).environment.unlink()
    with pytest.raises(UserError) as error:
        collect_runs([*fake_runs.cells(), fake_runs.cell("fsc_clip")], fake_runs.BENCHMARKS, runs)
    messages = ("3 missing", f"{CELL.name}: no result of retrieval", "no environment.json", "fsc_clip-vit-scenes-0: no")
    assert all(message in str(error.value) for message in messages)


def test_partial_shows_what_there_is(runs):
    fake_runs.result(runs, CELL.name, "retrieval").unlink()
    collected, missing_results = collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, runs, partial=True)
    assert [(m.cell, m.reason) for m in missing_results] == [(CELL.name, "no result of retrieval")]
    assert len(collected) == 6


def test_nothing_at_all_is_an_error_even_for_partial(tmp_path):
    with pytest.raises(UserError, match="holds no cell of the grid"):
        collect_runs(fake_runs.cells(), fake_runs.BENCHMARKS, tmp_path, partial=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": {"swap_att": {"ids": ["a", "a"], "outcomes": [1, 0]}}}, "2 ids, of which 1 are different"),
        ({"items": {"swap_att": {"ids": ["a", "b"], "outcomes": [1, 0]}}}, "swap_att=0.9 but its items give 0.5"),
        ({"means": {"swap": ["swap_att"]}}, "swap=0.75 but its items give 0.9"),
        ({"kind": None}, "sugarcrepe.json: does not say its benchmark's 'kind'"),  # never guessed from metrics' names
    ],
)
def test_a_result_that_contradicts_itself_or_does_not_say_what_it_is_is_refused(runs, change, message):
    path = fake_runs.result(runs, CELL.name, "sugarcrepe")
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
    with pytest.raises(UserError, match=message):
        read_result(path)
