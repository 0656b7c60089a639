"""A paper's grid names in its head the card that its largest step fits; tests/fake_device/test_grid_steps.py predicts it."""

import re
from typing import NamedTuple

import pytest

from compclip.config import grid, read
from compclip.launch import card_costs
from compclip.train.fitting_batch import GIB
from tests.config.test_grids import GRIDS, TABLES

HEAD = re.compile(r"^# Card: (\S+), ([\d.]+) GiB of (\S+)\.$", re.MULTILINE)
# of a table, or of what authors ran; tests/config/test_grids.py knows all others: ours, and files that are scored alone
PAPERS = sorted(name for name in GRIDS if name in TABLES or name.endswith(("_released", "_reduced")))
CLIC = {f"clic_table{number}" for number in (1, 6, 10, 11, 12, 13, 16)}


class Claim(NamedTuple):
    """What a head says: the card, the GiB of the largest step, and its cell."""

    card: str
    gib: float
    cell: str


def read_claim(name: str) -> Claim:
    """The claim of a grid's head."""
    match = HEAD.search(read.read_head(GRIDS[name].read_text(encoding="utf-8")))
    assert match, "no line `# Card: CARD, GIB GiB of CELL.`: write what `compclip config cost` predicts"
    return Claim(match[1], float(match[2]), match[3])


@pytest.mark.parametrize("name", PAPERS)
def test_the_step_fits_the_card_that_the_head_names(name):
    claim = read_claim(name)
    assert claim.gib * GIB <= card_costs.find_card(claim.card).usable_bytes
    assert claim.cell in {cell.name for cell in grid.list_cells(read.load_params(GRIDS[name]))}


@pytest.mark.parametrize("name", sorted(CLIC))
def test_no_cell_of_clic_encodes_a_whole_batch_of_composites(name):
    """Four positives of 800 composites at once are 85 GiB; a part at a time leaves the loss that of the whole batch."""
    runs = [run for run in grid.resolve_all(read.load_params(GRIDS[name])) if run.method_name == "clic"]
    assert {run.train.micro_batch for run in runs} == {400}
