"""What each method changes in words: each sentence from intervals by hand."""

from dataclasses import replace
from pathlib import Path

from compclip.report import method_stories
from compclip.report.statistics import BOTH, Interval
from compclip.report.tables import SUMMARY, Column, MethodRow, ResultTable, Statistic
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL
from compclip.runs.result_files import FinishedRun, Result
from compclip.runs.run_folder import Trained
from tests import fake_runs

SWAP, REPLACE, GAP = (
    Column("sugarcrepe", "swap"),
    Column("sugarcrepe", "replace_att"),
    Column("hard_positives", "gap", lower=True),
)
I2T, COMP = Column("retrieval", "i2t_recall_at_5"), Column(SUMMARY, "Comp", members=(SWAP, REPLACE))
COLUMNS = (COMP, SWAP, REPLACE, GAP, I2T)


def statistic(points: float, verdict: int) -> Statistic:
    """A difference in points, and whether its interval excludes 0."""
    change = points / 100
    return Statistic(0.5, 0.01, 3, 0, Interval(change, change - 0.02, change + 0.02, 100), change, verdict, BOTH)


def table(*cells: Statistic | None, columns=COLUMNS, method="new") -> ResultTable:
    """One method beside the pretrained model, whose own differences are none of its story."""
    kinds = {c.benchmark: RETRIEVAL if c.benchmark == "retrieval" else COMPOSITION for c in columns}
    results = {name: Result(name, name, kind, {}) for name, kind in kinds.items() if name != SUMMARY}
    run = FinishedRun(Trained(Path()), Path(), fake_runs.cell(method), {}, [], {}, results)
    base = tuple(Statistic(0.5, None, 1) for _ in columns)
    return ResultTable(
        "vit", "scenes", columns, (MethodRow("pretrained", (run,), base), MethodRow(method, (run,), cells))
    )


def sentences(*args, **options) -> list[str]:
    (story,) = method_stories.tell_stories(*args, **options)
    assert story.method == "new"
    return list(story.sentences)


def test_gains_what_is_left_on_sighted_items_and_costs():
    """The largest first, of many two; a mean over benchmarks is not repeated; less of a gap is better."""
    changes = table(statistic(4, 1), statistic(5.7, 1), statistic(8, 1), statistic(-3, 1), statistic(-1.2, -1))
    gains = table(statistic(2.9, 1), statistic(0.4, 0), columns=(SWAP, REPLACE))
    assert sentences(changes, gains) == [
        "In composition it improves SugarCrepe replace attribute +8.0 (sighted undecided), SugarCrepe swap +5.7 (sighted +2.9), "
        "1 more.",
        "In retrieval and naming (1 column) it worsens retrieval I2T R@5 −1.2.",
    ]


def test_nothing_is_said_of_what_is_open():
    """Undecided columns are counted, and a cost that is not certain is none that is denied."""
    changes = table(None, statistic(5.7, 0), statistic(-8, -1), None, statistic(-1.2, 0))
    assert sentences(changes) == [
        "In composition it worsens SugarCrepe replace attribute −8.0; undecided: 1 of 2 columns.",
        "In retrieval and naming (1 column) it worsens nothing for certain.",
    ]
    assert sentences(table(None, statistic(5.7, 0), None, None, None)) == [
        "In composition no change is decided (1 column)."
    ]


def test_against_the_reference():
    changes = table(None, statistic(5.7, 1), None, None, None)
    contrasts = table(None, statistic(2, 1), statistic(0.3, 0), statistic(1, -1), statistic(0.1, 0))
    *_, last = sentences(changes, contrasts=contrasts, reference="finetune")
    assert last == (
        "Against finetune it is better in SugarCrepe swap +2.0, is worse in hard positives gap +1.0, "
        "cannot be told apart in 2 of 4 columns."
    )


def test_many_columns_are_counted():
    columns = tuple(Column("sugarcrepe", f"subset_{number}") for number in range(6))
    changes = table(*(statistic(number + 1, 1) for number in range(6)), columns=columns)
    assert sentences(changes)[0].endswith("SugarCrepe subset 5 +6.0, SugarCrepe subset 4 +5.0, 4 more.")


def test_a_method_without_differences_has_no_story():
    changes = table(*(replace(statistic(1, 0), difference=None) for _ in COLUMNS))
    assert method_stories.tell_stories(changes) == []


def test_names_are_escaped_in_markdown():
    story = method_stories.MethodStory("a*b", ("In composition it improves x <y>.",))
    text = method_stories.format_stories_markdown([story])
    assert "a\\*b" in text and "<y>" not in text
