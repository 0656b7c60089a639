"""Runs with some of their items alone: metrics, and means of them, are computed anew from what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from compclip.runs.result_files import FinishedRun, Result

LISTS = 4096  # lists of ids whose positions are kept in memory: every run has those of the same benchmarks
ChooseIds = Callable[[str, str], frozenset[str] | None]  # of benchmark and metric; None: the metric is left out


def select_items(run: FinishedRun, choose: ChooseIds) -> FinishedRun:
    """Return a run with chosen items alone, its numbers computed anew; metrics without an item are absent."""
    results = {name: select_of_result(result, choose) for name, result in run.results.items()}
    return replace(run, results={name: result for name, result in results.items() if result.items})


def select_of_result(result: Result, choose: ChooseIds) -> Result:
    """Return one benchmark's result with chosen items alone."""
    items = {}
    for metric, all_items in result.items.items():
        ids = choose(result.benchmark, metric)
        if ids is not None and len(positions := _positions(all_items.ids, ids)):
            items[metric] = all_items if len(positions) == len(all_items.ids) else all_items.at(positions)
    metrics = {metric: float(chosen.values.mean()) for metric, chosen in items.items()}
    means = {}
    for name, members in result.means.items():
        if metrics.keys() >= set(members):
            means[name] = members
            metrics[name] = float(np.mean([metrics[member] for member in members]))
    headline = result.headline if metrics.keys() >= set(result.headline) else ()
    return replace(result, metrics=metrics, items=items, means=means, headline=headline)


@lru_cache(maxsize=LISTS)
def _positions(ids: tuple[str, ...], chosen: frozenset[str]) -> tuple[int, ...]:
    """Return where the chosen ids stand."""
    return tuple(index for index, key in enumerate(ids) if key in chosen)
