"""What the scenes' differences have to beat, and the most they could reach, both from published numbers alone.

Each prediction is the same pairs with another number in the place of ours, so that it is summarised as ours are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from compclip.report.statistics import mean_std, named_generator
from compclip.validity import pair_summary
from compclip.validity.difference_pairs import (
    DIGITS,
    DifferencePair,
    PrintedDifference,
    average_printed,
    higher_is_better,
)
from compclip.validity.pair_summary import LEVEL, Correlations, Estimate, PairSummary, PooledEstimates

DEALS = 40


@dataclass(frozen=True)
class TrivialSummaries:
    """What predictors that know no method say of a set of pairs, summarised as our differences are."""

    column_means: PairSummary
    always_up: PairSummary


@dataclass(frozen=True)
class Ceiling:
    """How well one half of the methods' published models predicts the other, over deals of models into halves.

    An estimate's value is the mean over the deals, its ends hold 95 % of them.
    """

    pairs: int
    methods: int
    within: Estimate
    raw: Estimate
    signs: Estimate


def summarize_predictors(pairs: Sequence[DifferencePair]) -> TrivialSummaries:
    """Summarise what both trivial predictors say of the pairs."""
    by_column = pair_summary.summarize_pairs("column means", predict_by_column_mean(pairs))
    nothing = Estimate(by_column.pairs, None)  # of the order within a column it says nothing
    no_order = Correlations(nothing, nothing)
    by_column = replace(by_column, within=no_order, by_family=replace(by_column.by_family, within=no_order))
    always_up = [_with_prediction(pair, 1.0) for pair in pairs]
    return TrivialSummaries(by_column, pair_summary.summarize_pairs("always up", always_up))


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


def measure_ceiling(pairs: Sequence[DifferencePair]) -> Ceiling:
    """Measure how well published models of a method predict its others: about the most that a world could reach."""
    main = [pair for pair in pairs if not pair.column.detail]
    deals = [predict_by_other_models(main, deal) for deal in range(DEALS)]
    pooled = [pair_summary.pool_pairs(deal) for deal in deals]
    within, raw, signs = (_over_deals(estimates) for estimates in zip(*map(_pick, pooled), strict=True))
    return Ceiling(len(deals[0]), len({pair.row for pair in deals[0]}), within, raw, signs)


def _pick(pooled: PooledEstimates) -> tuple[Estimate, Estimate, Estimate]:
    return pooled.within.rho, pooled.raw.rho, pooled.signs


def _over_deals(estimates: Sequence[Estimate]) -> Estimate:
    """Return mean and spread of the deals' numbers; no number where no deal has one."""
    values = [estimate.value for estimate in estimates if estimate.value is not None]
    if not values:
        return Estimate(estimates[0].n, None)
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(estimates[0].n, float(np.mean(values)), float(low), float(high))


def predict_by_other_models(pairs: Sequence[DifferencePair], deal: int) -> list[DifferencePair]:
    """Predict one half of a pair's published models by the other half.

    Models (paper, method, backbone, data) are dealt out in turn, in an order that depends on the row and on `deal`.
    Pairs of one model are left out.
    """
    orders = {row: _order_models([p for p in pairs if p.row == row], deal) for row in {p.row for p in pairs}}
    predictions = []
    for pair in pairs:
        present = {p.model for p in pair.printed}
        models = [model for model in orders[pair.row] if model in present]
        if len(models) < 2:
            continue
        predicted, predicting = (_select(pair, models[number::2]) for number in (0, 1))
        prediction = higher_is_better(average_printed(predicting), pair.unit)
        predictions.append(replace(_with_prediction(pair, prediction), printed=predicted))
    return predictions


def _order_models(pairs: Sequence[DifferencePair], deal: int) -> list[tuple[str, str, str, str]]:
    """Return the models of a row's pairs in the order of the deal."""
    models = sorted({p.model for pair in pairs for p in pair.printed})
    order = named_generator("ceiling", str(deal), pairs[0].row).permutation(len(models))
    return [models[i] for i in order]


def _select(pair: DifferencePair, models: Sequence[tuple[str, str, str, str]]) -> tuple[PrintedDifference, ...]:
    return tuple(p for p in pair.printed if p.model in models)


def _with_prediction(pair: DifferencePair, prediction: float) -> DifferencePair:
    """Return the pair with a prediction in the place of our difference, as of one seed."""
    return replace(pair, seeds=(0,), ours=(round(prediction, DIGITS),))
