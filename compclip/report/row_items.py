"""Items under rows of the report, joined with their records, and slices of them where two rows differ otherwise.

I items: a record under a metric. S slices, U units (pictures), P sign flips. Cosines, metrics of which less is better
and those that repeat others' outcomes are left out, so that a higher outcome is better everywhere.

The residual of an item is its difference minus the mean of all. Of a slice z is the sum of its units' residuals over
the root of the sum of their squares, or of what all items' variance lets one expect of them, whichever is larger: a
slice in which nothing happens to differ is no finding. Under the null hypothesis that slices tell nothing, a unit's
residuals might as well have the other sign: flipping the signs of whole units gives the distribution of the largest |z|
of all slices (maxT of Westfall and Young, 1993, by the wild bootstrap's signs), to which each slice is compared. It
holds the chance of one false slice among all, whatever slices have in common.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import erfc, sqrt
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from PIL import Image

from compclip.config.cell import PRETRAINED
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare.record_writer import BenchmarkRecords, RecordPicture
from compclip.report.statistics import align_items, item_units, named_generator
from compclip.report.tables import MethodRow, ResultTable, has_random_weights, results_of
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL, RETRIEVED, Items
from compclip.runs.result_files import FinishedRun, Result

# --- items under every method of a table, with the records asked


class RetrievedCaption(NamedTuple):
    """A caption that a model puts first for a picture."""

    text: str
    score: float
    is_right: bool


@dataclass(frozen=True)
class RowItems:
    """Items that all methods have: metric, id, record, unit, and each method's mean outcome over its runs."""

    benchmark: str
    metrics: tuple[str, ...]
    records: BenchmarkRecords
    ids: tuple[str, ...]
    metric_I: np.ndarray
    record_I: np.ndarray
    unit_I: np.ndarray
    outcome_I: dict[str, np.ndarray]
    first_run: dict[str, FinishedRun]

    def name(self, index: int) -> str:
        """Return the metric and the id of an item."""
        return f"{self.metrics[self.metric_I[index]]}/{self.ids[index]}"

    def texts(self, index: int) -> tuple[str, ...]:
        """Return the texts of an item."""
        return self.records.item_texts(self.metrics[self.metric_I[index]], self.ids[index])

    def difference(self, method: str, reference: str = PRETRAINED) -> np.ndarray:
        """Return how much better a method is than another on each item."""
        return self.outcome_I[method] - self.outcome_I[reference]

    def order_decided(self, method: str, reference: str, is_won: bool, count: int) -> list[int]:
        """Return the items with the largest difference of one sign, none of a picture twice.

        Equals are in a random order that is always the same.
        """
        gain_I = self.difference(method, reference) * (1 if is_won else -1)
        rng = named_generator("gallery", self.benchmark, method)
        order = np.lexsort((rng.random(len(gain_I)), -gain_I))
        item_of_picture: dict[int, int] = {}
        for index in order[: 20 * count]:
            if gain_I[index] > 0:
                item_of_picture.setdefault(int(self.unit_I[index]), int(index))
        return list(item_of_picture.values())[:count]

    def retrieved(self, index: int, method: str, count: int) -> list[RetrievedCaption]:
        """Return the first captions that a method's first run retrieves for a picture; none where no file has them."""
        metric = self.metrics[self.metric_I[index]]
        items = self.first_run[method].results[self.benchmark].items[metric]
        if not items.retrieved:
            return []
        row = items.ids.index(self.ids[index])
        captions = []
        for number, score in zip(items.retrieved.number_NK[row], items.retrieved.score_NK[row], strict=True):
            caption = items.retrieved.candidates[number]
            text = "".join(self.records.item_texts(RETRIEVED[1], caption))
            is_right = caption.rpartition("#")[0] == self.ids[index]
            captions.append(RetrievedCaption(text, float(score), is_right))
        return captions[:count]

    def slices(self) -> dict[str, np.ndarray]:
        """Return the items of each metric, and of every slice of the records."""
        of_metrics = {f"metric: {name}": np.flatnonzero(self.metric_I == m) for m, name in enumerate(self.metrics)}
        order = np.argsort(self.record_I, kind="stable")
        starts = np.searchsorted(self.record_I[order], np.arange(len(self.records.names) + 1))
        of_records = {name: _expand(record_R, order, starts) for name, record_R in self.records.slices.items()}
        return of_metrics | of_records


def _expand(record_R: np.ndarray, order: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the items of these records; `order` has the items record by record, `starts` where each record begins."""
    counts = starts[record_R + 1] - starts[record_R]
    offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(starts[record_R], counts) + offset]


def join_items(
    benchmark: str, rows: Sequence[MethodRow], records: BenchmarkRecords, metrics: Sequence[str] = ()
) -> RowItems | None:
    """Join the results of a table's rows; None where they were scored on other files, or share no item.

    Without `metrics` those are joined that have items of their own, of which a higher outcome is better.
    """
    results: dict[str, list[Result]] = {}
    every: list[Result] = []
    for row in rows:
        of_row = results_of(row.runs, benchmark)
        if of_row:
            results[row.method] = of_row
            every += of_row
    if not every or {result.fingerprint for result in every} - records.fingerprints:
        return None
    joined: list[tuple[int, str, int, int]] = []
    unit_numbers: dict[int | str, int] = {}
    values: dict[str, list[np.ndarray]] = {method: [] for method in results}
    result = every[0]
    unranked = result.lower | result.scores
    if not metrics:
        metrics = [m for m, items in result.items.items() if m not in unranked and not is_repetition(m, items, result)]
    for m, metric in enumerate(metrics):
        if any(metric not in result.items for result in every):
            continue
        shared, value_SI = align_items([result.items[metric] for result in every])
        units = item_units(shared)
        positions = []
        for position, key in enumerate(shared.ids):
            record = records.find(metric, key)
            if record:
                positions.append(position)
                unit = unit_numbers.setdefault(units[position], len(unit_numbers))
                joined.append((m, key, record.number, unit))
        start = 0
        for method, of_row in results.items():
            stop = start + len(of_row)
            values[method].append(value_SI[start:stop, positions].mean(axis=0))
            start = stop
    if not joined:
        return None
    metric_of_item, keys, record_of_item, unit_of_item = zip(*joined, strict=True)
    return RowItems(
        benchmark,
        tuple(metrics),
        records,
        keys,
        metric_I=np.array(metric_of_item),
        record_I=np.array(record_of_item),
        unit_I=np.array(unit_of_item),
        outcome_I={method: np.concatenate(arrays) for method, arrays in values.items()},
        first_run={row.method: run for row in rows for run in reversed(row.runs) if benchmark in run.results},
    )


def is_repetition(metric: str, items: Items, result: Result) -> bool:
    """Return whether a metric repeats outcomes of others: a part of its items, or a pool of theirs."""
    prefixes = {item.partition("/")[0] for item in items.ids}
    return "/" in metric or (prefixes <= result.items.keys() and all("/" in item for item in items.ids))


# --- slices of items

LEVEL = 0.05
FLIPS = 2_000
LEAST = 10  # units inside a slice, and outside
MOST = 4_000  # slices; the largest are tried
BYTES = 256 << 20  # of the matrix of units and slices


@dataclass(frozen=True)
class Slice:
    """A named part of the items, the difference there and elsewhere; `p` is adjusted for all slices tried.

    `z` is the departure in standard errors.
    """

    name: str
    items: int
    units: int
    difference: float
    elsewhere: float
    z: float
    p: float


@dataclass(frozen=True)
class SliceSearch:
    """The slices that depart, the least p first, how many were tried, and how many more there were."""

    slices: tuple[Slice, ...]
    tried: int
    left_out: int


def search_slices(
    difference_I: np.ndarray,
    unit_I: np.ndarray,
    members: Mapping[str, Sequence[int] | np.ndarray],
    rng: np.random.Generator,
    flips: int = FLIPS,
) -> SliceSearch:
    """Return the slices whose difference departs from that of all items, at a family-wise error of `LEVEL`.

    `unit_I` numbers each item's unit from 0; `members` has the items of each slice. Slices of the same items are one,
    under the first name. Memory is units times slices, at most `BYTES`; time also times `flips`.
    """
    distinct = _select_distinct(unit_I, members)
    if not distinct:
        return SliceSearch((), 0, 0)
    units = int(unit_I.max()) + 1
    tried = distinct[: max(1, min(MOST, BYTES // (4 * units)))]
    residual_I = difference_I - difference_I.mean()
    sum_SU = np.array([np.bincount(unit_I[items], residual_I[items], units) for _, items in tried])
    expected_S = np.array([len(items) for _, items in tried]) * np.mean(residual_I**2)
    norm_S = np.sqrt(np.maximum((sum_SU**2).sum(axis=1), expected_S))
    scale_S = np.divide(1, norm_S, out=np.zeros_like(norm_S), where=norm_S > 1e-9)
    z_S = sum_SU.sum(axis=1) * scale_S
    largest_P = _flip_signs(sum_SU.T.astype(np.float32), scale_S, rng, flips)
    slices = []
    for (name, items), z in zip(tried, z_S, strict=True):
        flipped = (1 + np.count_nonzero(largest_P >= abs(z) - 1e-9)) / (1 + len(largest_P))
        p = max(flipped, erfc(abs(z) / sqrt(2)))  # alone where no slice has enough that differs to flip
        if p <= LEVEL:
            inside_I = difference_I[items]
            outside = len(difference_I) - len(items)
            elsewhere = (difference_I.sum() - inside_I.sum()) / outside
            slice_units = len(np.unique(unit_I[items]))
            inside = float(inside_I.mean())
            slices.append(Slice(name, len(items), slice_units, inside, float(elsewhere), float(z), float(p)))
    slices.sort(key=lambda s: (s.p, -abs(s.z)))
    return SliceSearch(tuple(slices), len(tried), len(distinct) - len(tried))


def _select_distinct(
    unit_I: np.ndarray, members: Mapping[str, Sequence[int] | np.ndarray]
) -> list[tuple[str, np.ndarray]]:
    """Select the slices with `LEAST` units inside and outside, each set of items once, the largest first."""
    items_U = np.bincount(unit_I.astype(np.int64), minlength=1)
    distinct: dict[bytes, tuple[str, np.ndarray]] = {}
    for name, indices in members.items():
        items = np.unique(np.asarray(indices, dtype=np.int64))
        inside_U = np.bincount(unit_I[items], minlength=len(items_U))
        if min(np.count_nonzero(inside_U), np.count_nonzero(inside_U < items_U)) >= LEAST:
            distinct.setdefault(items.tobytes(), (name, items))
    return sorted(distinct.values(), key=lambda named: -len(named[1]))


def _flip_signs(sum_US: np.ndarray, scale_S: np.ndarray, rng: np.random.Generator, flips: int) -> np.ndarray:
    """Return the largest |z| of all slices for each draw of signs, shape P."""
    largest = []
    for start in range(0, flips, 100):
        sign_PU = rng.integers(0, 2, (min(100, flips - start), len(sum_US)), dtype=np.int8).astype(np.float32) * 2 - 1
        largest.append(np.abs((sign_PU @ sum_US) * scale_S).max(axis=1))
    return np.concatenate(largest)


# --- items that a method wins and loses -----------------------------------------------------------------------------
# Items that a method wins and loses against the pretrained model, with thumbnails, for the page.
#
# Of the items that differ most some are drawn, the benchmarks in turn, the same in every call; then as many pictures
# of retrieval, each with the captions that both models put first. A page of many methods shows fewer of each.


MOST_ITEMS = 240  # of a page: at most 3 MB of thumbnails, most often a third of that
SIDE = 112  # pixels of a thumbnail's longer side
QUALITY = 70  # of its JPEG
# of an item; the first ones
PICTURES = 2
TEXTS = 4
CAPTIONS = 3  # that a model retrieves
LETTERS = 240


class GalleryItem(NamedTuple):
    """An item as the page shows it; `retrieved` has the captions that the pretrained model and the method put first."""

    name: str
    link: str
    texts: list[str]
    further: int
    ours: str
    theirs: str
    thumbnails: list[str]
    retrieved: list[tuple[str, list[RetrievedCaption]]]


class MethodGallery(NamedTuple):
    """A method's items in one table, and how many it wins and loses in all."""

    table: str
    method: str
    counts: tuple[int, int]
    won: list[GalleryItem]
    lost: list[GalleryItem]


def make_galleries(
    groups: Sequence[ResultTable], records: Mapping[str, BenchmarkRecords], count: int, root: Path, results: Path
) -> list[MethodGallery]:
    """Make the gallery of each method with `count` items won and lost; none over a random backbone.

    Pictures lie below `root`; links go to `results`, the folder as the page's own folder sees it.
    """
    methods = sum(len(group.rows) for group in groups)
    count = min(count, max(1, MOST_ITEMS // (4 * max(methods, 1))))
    galleries = []
    for group in groups if count else ():
        joined = _join_benchmarks(group, records)
        if not joined[COMPOSITION] or has_random_weights(group):
            continue
        for row in group.rows:
            method = row.method
            if method == PRETRAINED:
                continue
            won = 0
            lost = 0
            for items in [*joined[COMPOSITION], *joined[RETRIEVAL]]:
                if {method, PRETRAINED} <= items.outcome_I.keys():
                    won += int((items.difference(method) > 0).sum())
                    lost += int((items.difference(method) < 0).sum())
            sides = []
            for is_won in (True, False):
                picks = _choose_items(joined, method, is_won, count)
                sides.append([_describe_item(*pick, method, root, results) for pick in picks])
            galleries.append(MethodGallery(group.name, method, (won, lost), *sides))
    return galleries


def _join_benchmarks(group: ResultTable, records: Mapping[str, BenchmarkRecords]) -> dict[str, list[RowItems]]:
    """Join a table's items of composition, and its pictures of retrieval, which retrieve captions."""
    joined: dict[str, list[RowItems]] = {COMPOSITION: [], RETRIEVAL: []}
    kinds = {name: result.kind for run in group.runs for name, result in run.results.items() if result.items}
    for name, kind in kinds.items():
        if name in records and kind in joined:
            metrics = RETRIEVED[:1] if kind == RETRIEVAL else ()
            items = join_items(name, group.rows, records[name], metrics)
            joined[kind] += [items] if items else []
    return joined


def describe_most(galleries: Sequence[MethodGallery]) -> str:
    """Say which method wins most items over those that it loses."""
    best = max(galleries, key=lambda gallery: gallery.counts[0] - gallery.counts[1])
    return f"{best.method} wins {best.counts[0]:,} and loses {best.counts[1]:,}"


def _choose_items(
    joined: Mapping[str, Sequence[RowItems]], method: str, is_won: bool, count: int
) -> list[tuple[RowItems, int]]:
    """Choose items of each kind, the benchmarks in turn, none of a picture twice."""
    picks: list[tuple[RowItems, int]] = []
    for benchmarks in joined.values():
        queues = []
        for items in benchmarks:
            if {method, PRETRAINED} <= items.outcome_I.keys():
                order = items.order_decided(method, PRETRAINED, is_won, count)
                queues.append([(items, index) for index in order])
        turns = [pick for turn in zip_longest(*queues) for pick in turn if pick]
        picks += turns[:count]
    return picks


def _describe_item(items: RowItems, index: int, method: str, root: Path, results: Path) -> GalleryItem:
    texts = items.texts(index)
    pictures = items.records.pictures(int(items.record_I[index]))[:PICTURES]
    retrieved = []
    for model in (PRETRAINED, method):
        captions = [c._replace(text=_shorten(c.text)) for c in items.retrieved(index, model, CAPTIONS)]
        retrieved += [(model, captions)] if captions else []
    thumbnails = [_make_thumbnail(root, picture) for picture in pictures]
    path = results / items.first_run[method].cell.folder / f"{items.benchmark}.json"
    return GalleryItem(
        name=f"{items.benchmark}/{items.name(index)}",
        link=quote(path.as_posix()),
        texts=[_shorten(text) for text in texts[:TEXTS]],
        further=max(0, len(texts) - TEXTS),
        ours=_describe_outcome(items.outcome_I[method][index]),
        theirs=_describe_outcome(items.outcome_I[PRETRAINED][index]),
        thumbnails=list(filter(None, thumbnails)),
        retrieved=retrieved,
    )


def _shorten(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}…"


def _describe_outcome(value: float) -> str:
    return {1.0: "right", 0.0: "wrong"}.get(float(value), f"right in {100 * value:.0f} %")


def _make_thumbnail(root: Path, picture: RecordPicture) -> str:
    """Return a small JPEG of a picture, or of its box, as a data URI; "" where it is missing or unreadable."""
    try:
        image = images.load_image(ImageLocation(os.path.join(root, picture.path), picture.offset, picture.length))
    except images.ImageError:
        return ""
    if picture.box:
        left, top, width, height = picture.box
        right = min(image.width, int(left + width))
        bottom = min(image.height, int(top + height))
        left = max(0, int(left))
        top = max(0, int(top))
        image = image.crop((left, top, right, bottom)) if left < right and top < bottom else image
    image.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC)
    content = io.BytesIO()
    image.save(content, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
