"""The headline of each half beside its ceiling and trivial predictors, and whether it reaches the declared goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compclip.base.number_text import format_count
from compclip.validity import pair_summary, trivial_predictors
from compclip.validity.counterparts import HALVES, NEW_ROWS, Goal
from compclip.validity.difference_pairs import DifferencePair
from compclip.validity.pair_summary import Estimate, PairSummary
from compclip.validity.trivial_predictors import Ceiling, TrivialSummaries

REACHED, MISSED, NOT_JUDGED = "reached", "missed", "not judged"


@dataclass(frozen=True)
class GoalVerdict:
    """`reached`, `missed` or `not judged`, the headline as a share of the ceiling, and the reasons."""

    word: str
    share: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class HeadlineRow:
    """A line of the table: a half, or a part of one, with what it is judged by; parts have no verdict.

    `on_same_pairs` is our correlation in points over the pairs of which the column's mean says something.
    """

    summary: PairSummary
    headline: Estimate
    trivial: TrivialSummaries
    on_same_pairs: Estimate
    verdict: GoalVerdict

    @property
    def is_part(self) -> bool:
        """Whether the line is a part of another."""
        return self.summary.name not in (*HALVES, NEW_ROWS)


def make_rows(
    sets: Mapping[str, Sequence[DifferencePair]], headline: str, goal: Goal, ceiling: Ceiling
) -> list[HeadlineRow]:
    """Return a line for each set of pairs; `headline` names the number that the goal is about."""
    most = ceiling.within if headline == "within_columns" else ceiling.raw
    rows = []
    for name, pairs in sets.items():
        summary, trivial = pair_summary.summarize_pairs(name, pairs), trivial_predictors.summarize_predictors(pairs)
        predicted = {(p.row, p.column.name) for p in trivial_predictors.predict_by_column_mean(pairs)}
        same_pairs = pair_summary.pool_pairs([p for p in pairs if (p.row, p.column.name) in predicted]).raw.rho
        pooled = summary.by_family.within if headline == "within_columns" else summary.by_family.raw
        verdict = judge(pooled.rho, most, same_pairs, trivial.column_means.raw.rho, goal)
        rows.append(HeadlineRow(summary, pooled.rho, trivial, same_pairs, verdict))
    return rows


def judge(headline: Estimate, ceiling: Estimate, ours: Estimate, column_means: Estimate, goal: Goal) -> GoalVerdict:
    """Judge a headline by the ceiling, and `ours` in points by the column's mean.

    It is not judged where one of these numbers is missing, or where the ceiling is not above 0.
    """
    if headline.value is None or ceiling.value is None or ceiling.value <= 0:
        return GoalVerdict(NOT_JUDGED, None, ("no headline or no ceiling",))
    share = headline.value / ceiling.value
    if ours.value is None or column_means.value is None:
        return GoalVerdict(NOT_JUDGED, share, ("no number in points",))
    reasons = []
    if share < goal.of_ceiling:
        reasons.append(f"{format_percent(share)} of the ceiling, not {format_percent(goal.of_ceiling)}")
    if ours.value <= column_means.value:
        reasons.append("in points not better than the column's mean")
    if reasons:
        return GoalVerdict(MISSED, share, tuple(reasons))
    holds_zero = headline.low is None or headline.low <= 0
    return GoalVerdict(REACHED, share, ("but its interval holds 0",) if holds_zero else ())


def describe_verdict(verdict: GoalVerdict) -> str:
    """Describe a verdict with its reasons in one line."""
    return ": ".join(filter(None, (verdict.word, "; ".join(verdict.reasons))))


def describe_goal(goal: Goal, ceiling: Ceiling) -> str:
    """Describe the goal and what the ceiling stands on."""
    return (
        f"at least {format_percent(goal.of_ceiling)} of the ceiling, and in points better than the mean of a column's "
        f"other methods; the ceiling is measured on {format_count(ceiling.pairs, 'pair')} of "
        f"{format_count(ceiling.methods, 'method')} with two published models or more"
    )


def format_percent(share: float) -> str:
    """Format a share in whole percent."""
    return f"{100 * share:.0f} %".replace("-", "−")
