"""What is seen first: which method is best, how sure that is, and what it costs; from differences by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from compclip.report import first_screen, report_figures
from compclip.report.statistics import BOTH, ITEMS_ALONE, Interval
from compclip.report.tables import SUMMARY, Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained
from tests import fake_runs
from tests.conftest import ROOT

SWAP = Column("sugarcrepe", "swap")
COMP = Column(SUMMARY, "Comp", members=(SWAP,))
ABILITY = Column(SUMMARY, "General", members=(SWAP,))


def statistic(points: float, verdict: int = 0, equal_to: str = "", basis: str = BOTH) -> Statistic:
    """A difference in points, and whether its interval excludes 0."""
    change = points / 100
    interval = Interval(change, change - 0.02, change + 0.02, 100)
    return Statistic(0.5, 0.01, 3, 0, interval, change, verdict, basis, equal_to)


def compare(methods, columns=(COMP, ABILITY), contrasts=None):
    """The pretrained model and some methods, each with its cells."""
    rows = [MethodRow("pretrained", (), dict.fromkeys(columns, Statistic(0.5, None, 1)))]
    for method, cells in methods.items():
        run = FinishedRun(Trained(Path()), Path(), fake_runs.cell(method), {}, [], {}, {})
        rows.append(MethodRow(method, (run,), {c: cell for c, cell in zip(columns, cells, strict=True) if cell}))
    return first_screen.compare_rows(ResultTable("vit", "scenes", columns, tuple(rows)), contrasts, "finetune")


def test_the_best_comes_first_and_what_equals_it_is_named():
    methods = {
        "open": (statistic(1), statistic(-1.8, -1)),
        "best": (statistic(2.2, 1), statistic(-0.1)),
        "near": (statistic(2.1, 1, equal_to="best"), statistic(0.5, 1)),
        "unscored": (None, statistic(0.5)),
    }
    compared = compare(methods)
    assert first_screen.describe_best(compared) == (
        "Best at composition: best, +2.2 over pretrained [+0.2, +4.2]; near cannot be told from it"
    )
    assert compared.sentences == [
        ("best", "better at composition (+2.2), costs nothing that can be seen (−0.1)"),
        ("near", "better at composition (+2.1), better at general ability (+0.5)"),
        ("open", "composition undecided (+1.0), costs general ability (−1.8)"),
        ("unscored", "composition not measured, costs nothing that can be seen (+0.5)"),
    ]


def test_what_is_not_decided_is_not_called_best():
    methods = {"up": (statistic(1), statistic(0)), "down": (statistic(-1, -1), statistic(0))}
    text = first_screen.describe_best(compare(methods))
    assert text == "No method is better at composition than pretrained for certain; highest: up, +1.0 [−1.0, +3.0]"
    assert "no fine-tuned method" in first_screen.describe_best(compare({}))


def test_rows_are_compared_with_the_reference_where_a_table_has_it():
    """Means stay, differences are those to the reference, which itself is no row of the picture."""
    contrast = MethodRow("new", (), {COMP: statistic(-3, -1)})
    contrasts = ResultTable("vit", "scenes", (COMP, ABILITY), (contrast,))
    methods = {"finetune": (statistic(4, 1), statistic(0)), "new": (statistic(1, 1), statistic(0))}
    compared = compare(methods, contrasts=contrasts)
    assert compared.reference == "finetune" and [row.method for row in compared.rows] == ["new", "pretrained"]
    assert compared.sentences[0] == ("new", "worse at composition (−3.0), general ability not measured")
    assert [s.mean for s in compared.table.rows[2].statistics.values()] == [0.5, 0.5]
    assert compare(methods, contrasts=replace(contrasts, rows=())).reference == "pretrained"


def test_without_summaries_the_first_column_is_the_axis():
    compared = compare({"new": (statistic(1, 1),)}, columns=(SWAP,))
    assert compared.sentences == [("new", "better at SugarCrepe swap (+1.0)")]
    assert first_screen.draw_tradeoffs(compared) == []
    assert compare({}, columns=()) is None


def test_the_headline_has_the_summaries_and_eight_columns_at_most():
    columns = (SWAP, *[Column("b", str(number)) for number in range(9)], COMP)
    compared = compare({"new": (statistic(1),) * len(columns)}, columns=columns)
    names = [column.metric for column in first_screen.select_headline(compared.table).columns]
    assert names == ["Comp", "swap", "0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("crowd", [12, 1])
def test_the_forest_has_each_interval_with_the_colour_of_its_verdict(monkeypatch, crowd):
    """Blue, orange and grey; where rows are many they bear the numbers of the trade-off."""
    monkeypatch.setattr(report_figures, "CROWD", crowd)
    methods = {"a": (statistic(2, 1), statistic(-1, -1)), "b": (statistic(0.5), None)}
    svg = first_screen.draw_forest(compare(methods))
    assert "<title>a: +2.0 [0.0, +4.0]</title>" in svg or "<title>a (1): +2.0 [0.0, +4.0]</title>" in svg
    assert [svg.count(f"fill:var(--{name})") >= n for name, n in (("good", 1), ("bad", 1), ("soft", 1))] == [True] * 3
    assert svg.count("<title>") == 3 and (">b (2)</text>" in svg) == (crowd == 1)
    file = first_screen.draw_forest(compare(methods), standalone=True)
    assert "var(--" not in file and 'xmlns="http://www.w3.org/2000/svg"' in file


# whether a method beats the reference at composition: the rule of docs/scenes.md, case by case

NAMES = (*first_screen.RISING, *first_screen.NOT_FALLING, "retrieval/i2t_recall_at_5")
RULE_COLUMNS = tuple(Column(*name.split("/", 1)) for name in NAMES)


def judge(*signs, columns=RULE_COLUMNS, basis=BOTH):
    """The verdict of a method whose columns are better (1), worse (-1) or undecided (0); None: not measured."""
    kinds = {c.benchmark: RETRIEVAL if c.benchmark == "retrieval" else COMPOSITION for c in columns}
    results = {name: Result(name, name, kind, {}) for name, kind in kinds.items()}
    run = FinishedRun(Trained(Path()), Path(), fake_runs.cell("new"), {}, [], {}, results)
    cells = {
        c: statistic(5 * sign, sign, basis=basis) for c, sign in zip(columns, signs, strict=True) if sign is not None
    }
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
    assert judge(1, 1, 1, 0, columns=RULE_COLUMNS[:4])["new"].endswith("What it costs was not measured.")


def test_an_interval_over_less_says_so():
    assert "[+3.0, +7.0] items alone" in judge(1, 1, 1, 0, 0, basis=ITEMS_ALONE)["new"]


def test_without_the_rule_s_columns_there_is_no_line():
    assert judge(1, 1, 1, columns=RULE_COLUMNS[1:4]) == judge(1, 1, 1, columns=RULE_COLUMNS[:3]) == {}


def test_the_rule_is_that_of_the_page_on_the_scenes():
    page = " ".join((ROOT / "docs" / "scenes.md").read_text().split())
    rule = "SugarCrepe swap, its unseen pairs and SugarCrepe++ swap rise, and SugarCrepe++ replace does not fall"
    assert rule in page
