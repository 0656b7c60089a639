"""The line that says whether a method beats the reference at composition: the rule of docs/scenes.md, case by case."""

from pathlib import Path

import pytest

from compclip.report import first_screen
from compclip.report.statistics import BOTH, ITEMS_ALONE, Interval
from compclip.report.tables import Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained
from tests import fake_runs
from tests.conftest import ROOT

NAMES = (*first_screen.RISING, *first_screen.NOT_FALLING, "retrieval/i2t_recall_at_5")
COLUMNS = tuple(Column(*name.split("/", 1)) for name in NAMES)


def statistic(sign, basis=BOTH):
    change = 0.05 * sign
    interval = Interval(change, change - 0.02, change + 0.02, 100)
    return Statistic(0.5, 0.01, 3, 0, interval, change, sign, basis)


def judge(*signs, columns=COLUMNS, basis=BOTH):
    """The verdict of a method whose columns are better (1), worse (-1) or undecided (0); None: not measured."""
    kinds = {c.benchmark: RETRIEVAL if c.benchmark == "retrieval" else COMPOSITION for c in columns}
    results = {name: Result(name, name, kind, {}) for name, kind in kinds.items()}
    run = FinishedRun(Trained(Path()), Path(), fake_runs.cell("new"), {}, [], {}, results)
    cells = {c: statistic(sign, basis) for c, sign in zip(columns, signs, strict=True) if sign is not None}
    rows = (MethodRow("pretrained", (run,), cells), MethodRow("new", (run,), cells))
    return first_screen.judge_methods(ResultTable("vit", "scenes", columns, rows), "finetune")


@pytest.mark.parametrize(
    ("signs", "begin"),
    [
        ((1, 1, 1, 0, 0), "beats finetune at composition: sugarcrepe/swap ▲ +5.0 [+3.0, +7.0], "),
        ((1, 1, 1, -1, 0), "does not beat finetune at composition: sugarcrepe_pp/replace_itt ▼ −5.0 [−7.0, −3.0]."),
        ((1, -1, 1, 0, 0), "does not beat finetune at composition: sugarcrepe/swap/unseen_pairs ▼"),
        ((1, 0, 1, 0, 0), "undecided against finetune at composition: sugarcrepe/swap/unseen_pairs 0.0 "),
        ((1, 1, None, 1, 0), "undecided against finetune at composition: no sugarcrepe_pp/swap_itt."),
    ],
)
def test_the_rule(signs, begin):
    verdicts = judge(*signs)
    assert list(verdicts) == ["new"]  # the pretrained model is no new method
    assert verdicts["new"].startswith(begin)


def test_what_it_costs_is_said():
    assert judge(1, 1, 1, 0, -1)["new"].endswith("It costs: retrieval/i2t_recall_at_5 ▼ −5.0 [−7.0, −3.0].")
    assert judge(1, 1, 1, 0, 0)["new"].endswith("No column of retrieval or naming falls for certain.")
    assert judge(1, 1, 1, 0, columns=COLUMNS[:4])["new"].endswith("What it costs was not measured.")


def test_an_interval_over_less_says_so():
    assert "[+3.0, +7.0] items alone" in judge(1, 1, 1, 0, 0, basis=ITEMS_ALONE)["new"]


def test_without_the_rule_s_columns_there_is_no_line():
    assert judge(1, 1, 1, columns=COLUMNS[1:4]) == {}


def test_the_rule_is_that_of_the_page_on_the_scenes():
    page = " ".join((ROOT / "docs" / "scenes.md").read_text().split())
    assert (
        "SugarCrepe swap, its unseen pairs and SugarCrepe++ swap rise, and SugarCrepe++ replace does not fall" in page
    )
