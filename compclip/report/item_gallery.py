"""Items that a method wins and loses against the pretrained model, with thumbnails, for the page.

Of the items that differ most some are drawn, the benchmarks in turn, the same in every call; then as many pictures of
retrieval, each with the captions that both models put first. A page of many methods shows fewer of each.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image

from compclip.config.cell import PRETRAINED
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare.benchmark_records import BenchmarkRecords, RecordPicture
from compclip.report.row_items import RetrievedCaption, RowItems, join_items
from compclip.report.tables import ResultTable, has_random_weights
from compclip.runs.item_outcomes import COMPOSITION, RETRIEVAL, RETRIEVED

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
        for method in [row.method for row in group.rows if row.method != PRETRAINED]:
            won = 0
            lost = 0
            for items in [*joined[COMPOSITION], *joined[RETRIEVAL]]:
                if {method, PRETRAINED} <= items.outcome_I.keys():
                    won += int((items.difference(method) > 0).sum())
                    lost += int((items.difference(method) < 0).sum())
            picked_sides = [_choose_items(joined, method, is_won, count) for is_won in (True, False)]
            described = [[_describe_item(*pick, method, root, results) for pick in side] for side in picked_sides]
            galleries.append(MethodGallery(group.name, method, (won, lost), *described))
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
    path = results / items.first_run[method].cell.folder / f"{items.benchmark}.json"
    return GalleryItem(
        name=f"{items.benchmark}/{items.name(index)}",
        link=quote(path.as_posix()),
        texts=[_shorten(text) for text in texts[:TEXTS]],
        further=max(0, len(texts) - TEXTS),
        ours=_describe_outcome(items.outcome_I[method][index]),
        theirs=_describe_outcome(items.outcome_I[PRETRAINED][index]),
        thumbnails=[uri for uri in (_make_thumbnail(root, picture) for picture in pictures) if uri],
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
