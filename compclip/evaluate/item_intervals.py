"""95 % intervals of a result's own numbers over its items, pictures drawn with all that is asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from compclip.report.statistics import ItemDifferences, compute_interval, item_units
from compclip.runs.item_outcomes import Items


def compute_intervals(document: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Compute each metric's interval from a result document; a metric whose items are of one picture has none."""
    intervals = {}
    for metric, value in document["metrics"].items():
        interval, _ = compute_interval([value], _collect_items(document, metric))
        if interval:
            intervals[metric] = (interval.low, interval.high)
    return intervals


def _collect_items(document: Mapping[str, Any], metric: str) -> list[ItemDifferences]:
    """Return a metric's items, or those of the metrics that it is the mean of; empty where one of them has too few."""
    if metric in document.get("means", {}):
        members = [_collect_items(document, member) for member in document["means"][metric]]
        all_items = [items for member_items in members for items in member_items] if all(members) else []
        return [replace(items, weight=items.weight / len(members)) for items in all_items]
    outcomes = document["items"][metric]
    items = Items(tuple(outcomes["ids"]), np.array(outcomes["outcomes"], float))
    units = tuple(document.get("units", {}).get(metric, ())) or item_units(items)
    if len(set(units)) < 2:
        return []
    return [ItemDifferences(document["benchmark"], 1.0, items.ids, items.values[None], units)]
