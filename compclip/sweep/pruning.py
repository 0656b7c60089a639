"""The rule `dominated`: stop a trial at a rung where enough others did better in every objective.

A trial is dominated by another where that is at least as good in all objectives and better in one. At a rung the others
are the trials that finished or were stopped before and had scores at that step; with fewer than `startup_trials` of
them nothing is stopped. A trial is stopped where at least `dominated_share` of them dominate it. Of points without any
pattern in two objectives the middle one is dominated by a quarter, so that 0.5 stops what is plainly behind, and never
a trial of the front at that rung. Optuna's own pruners know one objective; with one, this stops what is worse than that
share.

Nothing is drawn: the verdict depends on the scores alone, which the trial keeps in its storage (`scores_at_rungs`), so
that a driver started again comes to the same one. With several trials at a time it depends, as what is drawn does, on
which had finished.
"""

from __future__ import annotations

from collections.abc import Sequence

from compclip.sweep.study_declaration import Study

NOTED = "scores_at_rungs"  # of a trial: step -> the objectives' values


def dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether `a` is at least as good as `b` in all and better in one; more is better. NaN is neither."""
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def dominated_share(values: Sequence[float], other_values: Sequence[Sequence[float]]) -> float:
    """Return the share of the others that dominate `values`; 0 without others."""
    return (
        sum(dominates(other_trial, values) for other_trial in other_values) / len(other_values) if other_values else 0.0
    )


def should_stop(study: Study, values: Sequence[float], other_values: Sequence[Sequence[float]]) -> bool:
    """Return whether a trial with these values at a rung is stopped.

    `others`: those of the trials before, at that rung.
    """
    if len(other_values) < study.startup_trials:
        return False
    return (
        dominated_share(_signed(study, values), [_signed(study, other_trial) for other_trial in other_values])
        >= study.dominated_share
    )


def _signed(study: Study, values: Sequence[float]) -> list[float]:
    return [o.sign * value for o, value in zip(study.objectives, values, strict=True)]
