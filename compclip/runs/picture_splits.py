"""Validation and test items of every benchmark, chosen by picture when results are read: nothing is scored twice.

A picture is a validation picture if its number (`item_outcomes.hash_picture`), a hash of its identity
and of nothing else, lies in the lowest `share` of all numbers. So it is one in all benchmarks, on all machines. Items
of one unit (`evaluate.benchmark.number_units`) go by its first picture. Items that show no picture are in no split.
Benchmarks of which the authors have a validation set name it: `benchmarks.<name>.validation`.

A split of a retrieval benchmark has the queries of its pictures; candidates are those of the whole benchmark. The
number of candidates decides recall, so that both splits estimate what the whole measures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from compclip.config.sections import VALIDATION, WHOLE, Params
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import FinishedRun, Result

NUMBERS = 1 << 48  # of pictures
LISTS = 4096  # lists of pictures whose split is kept in memory


@dataclass(frozen=True)
class PictureSplit:
    """Which items of each result are read: all, or those of one split.

    `authors` names for a benchmark the one that its authors' validation set is scored as.
    """

    name: str = WHOLE
    share: float = 0.2
    authors: Mapping[str, str] = field(default_factory=dict)

    def select(self, run: FinishedRun) -> FinishedRun:
        """Return a run with the split's items."""
        return replace(run, results=self.select_results(run.results))

    def select_results(self, results: Mapping[str, Result]) -> dict[str, Result]:
        """Return the results of a run with the split's items; a validation set of the authors' is no benchmark."""
        selected = {}
        for name, result in results.items():
            validation_set = self.authors.get(name, "")
            if name in self.authors.values() or (self.name == VALIDATION and validation_set not in ("", *results)):
                continue
            if self.name == VALIDATION and validation_set:
                selected[name] = replace(results[validation_set], benchmark=name)
            elif self.name == WHOLE or validation_set:
                selected[name] = result
            else:
                split_result = self.select_of_result(result)
                if split_result.items:
                    selected[name] = split_result
        return selected

    def describe(self) -> str:
        """Describe in words which items a number is of."""
        if self.name == WHOLE:
            return "whole benchmarks"
        share = self.share if self.name == VALIDATION else 1 - self.share
        return f"{self.name} items alone: {100 * share:g} % of the pictures, by a hash of their names"

    def select_of_result(self, result: Result) -> Result:
        """Return a result with the split's items by picture; counts of records shrink by the same share."""
        ids = {metric: self._choose_ids(items) for metric, items in result.items.items()}
        selected = select_of_result(result, lambda _, metric: ids[metric])
        coverage = {}
        chosen_count = 0
        all_count = 0
        for metric, items in selected.items.items():
            of_chosen = len(items.ids)
            of_all = len(result.items[metric].ids)
            if metric in result.coverage:
                scored, records = result.coverage[metric]
                coverage[metric] = (_scale(scored, of_chosen, of_all), _scale(records, of_chosen, of_all))
            if "/" not in metric:
                chosen_count += of_chosen
                all_count += of_all
        counts = dict(result.counts)
        for name in counts.keys() & {"records", "scored"}:
            counts[name] = _scale(counts[name], chosen_count, max(1, all_count))
        return replace(selected, coverage=coverage, counts=counts)

    def _choose_ids(self, items: Items) -> frozenset[str] | None:
        """Return the ids of the split's items; None where items show no picture."""
        if not items.pictures:
            return None
        return _list_ids(items.ids, items.pictures, self.share, self.name == VALIDATION)


def make_split(params: Params, name: str) -> PictureSplit:
    """Return a split of the benchmarks of params.yaml: `whole`, `validation` or `test`."""
    authors = {name: section.validation for name, section in params.benchmarks.items() if section.validation}
    return PictureSplit(name, params.evaluate.validation_share, authors)


def is_validation(picture: int | str, share: float) -> bool:
    """Return whether a picture, by its number or, without one, its name in the benchmark, is a validation picture."""
    if isinstance(picture, str):
        picture = int.from_bytes(hashlib.sha256(picture.encode()).digest()[:6], "big")
    return picture < share * NUMBERS


@lru_cache(maxsize=LISTS)
def _list_ids(
    ids: tuple[str, ...], pictures: tuple[int | str, ...], share: float, in_validation: bool
) -> frozenset[str]:
    pairs = zip(ids, pictures, strict=True)
    return frozenset(key for key, picture in pairs if is_validation(picture, share) == in_validation)


def _scale(count: int, chosen_count: int, all_count: int) -> int:
    return round(count * chosen_count / all_count)


# Runs with some of their items alone: metrics, and means of them, are computed anew from what is left.

ID_LISTS = 4096  # lists of ids whose positions are kept in memory: every run has those of the same benchmarks
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
        positions = () if ids is None else _positions(all_items.ids, ids)
        if positions:
            items[metric] = all_items if len(positions) == len(all_items.ids) else all_items.at(positions)
    metrics = {metric: float(chosen.values.mean()) for metric, chosen in items.items()}
    means = {}
    for name, members in result.means.items():
        if metrics.keys() >= set(members):
            means[name] = members
            metrics[name] = float(np.mean([metrics[member] for member in members]))
    headline = result.headline if metrics.keys() >= set(result.headline) else ()
    return replace(result, metrics=metrics, items=items, means=means, headline=headline)


@lru_cache(maxsize=ID_LISTS)
def _positions(ids: tuple[str, ...], chosen: frozenset[str]) -> tuple[int, ...]:
    """Return where the chosen ids stand."""
    return tuple(index for index, key in enumerate(ids) if key in chosen)
