"""What the scenes' differences have to beat: predictions of published differences from published numbers alone.

Each is the same pairs with another number in the place of ours, so that it is summarised as ours are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compclip.report.statistics import mean_std
from compclip.validity import pair_summary
from compclip.validity.difference_pairs import (
    DIGITS,
    DifferencePair,
    PrintedDifference,
    average_printed,
    higher_is_better,
)
from compclip.validity.pair_summary import Correlations, Estimate, PairSummary

COLUMN_MEAN = "the mean of the column's other methods"
OTHER_MODELS = "the method's other published models"


def summarize_predictors(pairs: Sequence[DifferencePair]) -> list[PairSummary]:
    """Summarise what both predictors say of the pairs, each as our differences are."""
    by_column = pair_summary.summarize_pairs(COLUMN_MEAN, predict_by_column_mean(pairs))
    nothing = Estimate(by_column.pairs, None)  # of the order within a column it says nothing
    no_order = Correlations(nothing, nothing)
    return [
        replace(by_column, within=no_order, by_family=replace(by_column.by_family, within=no_order)),
        pair_summary.summarize_pairs(OTHER_MODELS, predict_by_other_models(pairs)),
    ]


def predict_by_column_mean(pairs: Sequence[DifferencePair]) -> list[DifferencePair]:
    """Predict each published difference by the mean of the other methods' in its column; it knows no method.

    Columns with one method are left out. Within a column the order is the opposite one by construction: the higher a
    method's number, the lower the mean of the others.
    """
    by_column: dict[str, list[DifferencePair]] = {}
    for pair in pairs:
        by_column.setdefault(pair.column.name, []).append(pair)
    return [
        _with_prediction(pair, mean_std([p.published for p in group if p.row != pair.row])[0])
        for group in by_column.values()
        for pair in group
        if len(group) > 1
    ]


def predict_by_other_models(pairs: Sequence[DifferencePair], half: int = 0) -> list[DifferencePair]:
    """Predict one half of a pair's published models by the other: about the most that any world could reach.

    Models (paper, method, backbone, data) are sorted and dealt out in turn; `half` says which half is predicted. Pairs
    of one model are left out.
    """
    predictions = []
    for pair in pairs:
        models = sorted({p.model for p in pair.printed})
        if len(models) < 2:
            continue
        predicted, predicting = (_select(pair, models[number::2]) for number in (half, 1 - half))
        predictions.append(
            replace(_with_prediction(pair, higher_is_better(average_printed(predicting), pair.unit)), printed=predicted)
        )
    return predictions


def _select(pair: DifferencePair, models: Sequence[tuple[str, str, str, str]]) -> tuple[PrintedDifference, ...]:
    return tuple(p for p in pair.printed if p.model in models)


def _with_prediction(pair: DifferencePair, prediction: float) -> DifferencePair:
    """Return the pair with a prediction in the place of our difference, as of one seed."""
    return replace(pair, seeds=(0,), ours=(round(prediction, DIGITS),))
