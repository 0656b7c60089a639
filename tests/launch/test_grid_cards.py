"""A paper's grid names in its head the card that its largest step fits, as `config cost` predicts it."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from compclip.config import grid, read
from compclip.launch import card_costs
from compclip.train.fitting_batch import GIB
from tests.conftest import ROOT

HEAD = re.compile(r"^# Card: (\S+), ([\d.]+) GiB of (\S+)\.$", re.MULTILINE)
GRIDS = sorted((ROOT / "experiments" / "grids").glob("*.yaml"))
CLIC = {f"clic_table{number}" for number in (1, 6, 10, 11, 12, 13, 16)}


class Claim(NamedTuple):
    """What a head says: the card, the GiB of the largest step, and its cell."""

    card: str
    gib: float
    cell: str


def read_claims() -> dict[str, Claim]:
    """The claims of the grids that have one, by name."""
    heads = {path.stem: HEAD.search(path.read_text(encoding="utf-8")) for path in GRIDS}
    return {name: Claim(head[1], float(head[2]), head[3]) for name, head in heads.items() if head}


CLAIMS = read_claims()


def test_what_did_not_fit_has_a_card():
    assert CLAIMS.keys() >= CLIC | {"ce_clip_released", "clove_released"}


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_the_step_fits_the_card(name):
    claim = CLAIMS[name]
    assert claim.gib * GIB <= card_costs.find_card(claim.card).usable_bytes


@pytest.mark.parametrize("name", sorted(CLIC))
def test_no_cell_of_clic_encodes_a_whole_batch_of_composites(name):
    """Four positives of 800 composites at once are 85 GiB; a part at a time leaves the loss that of the whole batch."""
    params = read.load_params(str(ROOT / "experiments" / "grids" / f"{name}.yaml"))
    runs = [run for run in grid.resolve_all(params) if run.method_name == "clic"]
    assert {run.train.micro_batch for run in runs} == {400}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_the_step_is_predicted_so(name):
    claim = CLAIMS[name]
    params = read.load_params(str(ROOT / "experiments" / "grids" / f"{name}.yaml"))
    cost = card_costs.CostPredictor(card_costs.find_card(claim.card)).predict(grid.resolve(params, claim.cell))
    assert cost.fits and cost.configured.peak_bytes / GIB == pytest.approx(claim.gib, rel=0.01)
