"""Items that a method wins and loses against the pretrained model, with thumbnails, for the page.

Of the items that differ most some are drawn, the benchmarks in turn, the same in every call; then as many pictures of
retrieval, each with the captions that both models put first. The page has at most `PAGE_BYTES`: what does not fit is
left out and counted.
"""

from __future__ import annotations

import base64
import functools
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from markupsafe import escape
from PIL import Image

from compclip.base.messages import format_count
from compclip.config.cell import PRETRAINED
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.prepare.benchmark_records import RecordPicture
from compclip.report.slice_tables import RetrievedCaption, RowItems, SliceTable

PAGE_BYTES = 2_000_000  # of the whole page
SIDE = 112  # pixels of a thumbnail's longer side
QUALITY = 70  # of its JPEG
# of an item; the first ones
PICTURES = 2
TEXTS = 4
CAPTIONS = 3  # that a model retrieves
LETTERS = 240
# of an item, a method and a table, without texts and pictures
MARKUP_BYTES = 900
CAPTION_BYTES = 60
METHOD_BYTES = 600
TABLE_BYTES = 4096


class GalleryItem(NamedTuple):
    """An item as the page shows it; `missing`: pictures that this machine cannot show.

    `retrieved` has the captions that the pretrained model and the method put first.
    """

    name: str
    link: str
    run: str
    file: str
    texts: tuple[str, ...]
    further: int
    ours: str
    theirs: str
    thumbnails: tuple[str, ...]
    missing: int
    retrieved: tuple[tuple[str, list[RetrievedCaption]], ...] = ()

    @property
    def bytes(self) -> int:
        """An upper bound of its HTML."""
        captions = [caption.text for _, of_model in self.retrieved for caption in of_model]
        texts = (*self.texts, *captions, self.name, self.link, self.link, self.run, self.file)
        return (
            MARKUP_BYTES
            + CAPTION_BYTES * len(captions)
            + sum(len(escape(t).encode("utf-8", "replace")) for t in texts)
            + sum(map(len, self.thumbnails))
        )


@dataclass
class MethodGallery:
    """A method's items, and how many it wins and loses in all."""

    method: str
    counts: tuple[int, int]
    won: list[GalleryItem] = field(default_factory=list)
    lost: list[GalleryItem] = field(default_factory=list)


@dataclass
class TableGallery:
    """The galleries of a table's methods, and what could not be shown, in words."""

    name: str
    methods: list[MethodGallery]
    note: str = ""


class _Choice(NamedTuple):
    gallery: MethodGallery
    is_won: bool
    items: RowItems
    item: int


def make_galleries(
    tables: Sequence[SliceTable], count: int, root: Path, results: Path, room: int
) -> list[TableGallery]:
    """Make the gallery of each table with `count` items won and lost by each method, in `room` bytes at most.

    Pictures lie below `root`; links go to `results`, the folder as the page's own folder sees it.
    """
    galleries = []
    for table in tables:
        methods = [m for m in dict.fromkeys(m for items in table.items for m in items.outcome_I) if m != PRETRAINED]
        by_method = {method: MethodGallery(method, _count_decided(table, method)) for method in methods}
        gallery = TableGallery(table.name, list(by_method.values()))
        room -= TABLE_BYTES + METHOD_BYTES * len(methods)
        choices = [list(_choose_items(table, method_gallery, count)) for method_gallery in by_method.values()]
        room = _fill(gallery, list(_take_turns(choices)), root, results, room)
        galleries.append(gallery)
    return galleries


def describe_most(galleries: Sequence[TableGallery]) -> str:
    """Say which method wins most items over those that it loses."""
    methods = [method for gallery in galleries for method in gallery.methods]
    if not methods:
        return ""
    best = max(methods, key=lambda method: method.counts[0] - method.counts[1])
    return f"{best.method} wins {best.counts[0]:,} and loses {best.counts[1]:,}"


def _count_decided(table: SliceTable, method: str) -> tuple[int, int]:
    every = (*table.items, *table.pictures)
    differences = [items.difference(method) for items in every if _has_both(items, method)]
    return sum(int((d > 0).sum()) for d in differences), sum(int((d < 0).sum()) for d in differences)


def _has_both(items: RowItems, method: str) -> bool:
    return {method, PRETRAINED} <= items.outcome_I.keys()


def _choose_items(table: SliceTable, gallery: MethodGallery, count: int) -> Iterator[_Choice]:
    """Yield won and lost items in turn, the benchmarks in turn, none of a picture twice."""
    for of_kind in (table.items, table.pictures):
        sides = []
        for is_won in (True, False):
            queues = []
            for items in of_kind:
                if _has_both(items, gallery.method):
                    order = items.order_decided(gallery.method, PRETRAINED, is_won, count)
                    queues.append([_Choice(gallery, is_won, items, index) for index in order])
            sides.append(list(_take_turns(queues))[:count])
        yield from _take_turns(sides)


def _take_turns(queues: Sequence[Sequence[_Choice]]) -> Iterator[_Choice]:
    for turn in range(max(map(len, queues), default=0)):
        yield from (queue[turn] for queue in queues if turn < len(queue))


def _fill(gallery: TableGallery, choices: Sequence[_Choice], root: Path, results: Path, room: int) -> int:
    """Add the chosen items that fit; return the room that is left."""
    too_many = missing = 0
    for choice in choices:
        item = _describe_item(choice, root, results)
        if item.bytes > room:
            too_many += 1
            continue
        room = room - item.bytes
        missing = missing + item.missing
        (choice.gallery.won if choice.is_won else choice.gallery.lost).append(item)
    if too_many:
        size = f"{PAGE_BYTES / 1e6:.0f} MB"
        gallery.note += f"{format_count(too_many, 'item')} did not fit into the {size} that the page may have. "
    if missing:
        gallery.note += f"Not on this machine, or no picture that can be read: {missing:,}."
    return room


def _describe_item(choice: _Choice, root: Path, results: Path) -> GalleryItem:
    items = choice.items
    index = choice.item
    method = choice.gallery.method
    record = int(items.record_I[index])
    run = items.first_run[method].cell
    texts = items.texts(index)
    retrieved = [(model, items.retrieved(index, model, CAPTIONS)) for model in (PRETRAINED, method)]
    thumbnails = [_make_thumbnail(root, picture) for picture in items.records.pictures(record)[:PICTURES]]
    path = results / run.folder / f"{items.benchmark}.json"
    return GalleryItem(
        name=f"{items.benchmark}/{items.name(index)}",
        link=quote(path.as_posix()),
        run=run.name,
        file=f"items/{items.benchmark}.json",
        texts=tuple(map(_shorten, texts[:TEXTS])),
        further=max(0, len(texts) - TEXTS),
        ours=_describe_outcome(items.outcome_I[method][index]),
        theirs=_describe_outcome(items.outcome_I[PRETRAINED][index]),
        thumbnails=tuple(filter(None, thumbnails)),
        missing=sum(not thumbnail for thumbnail in thumbnails),
        retrieved=tuple(
            (model, [c._replace(text=_shorten(c.text)) for c in captions]) for model, captions in retrieved if captions
        ),
    )


def _shorten(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]}…"


def _describe_outcome(value: float) -> str:
    return {1.0: "right", 0.0: "wrong"}.get(float(value), f"right in {100 * value:.0f} %")


@functools.lru_cache(maxsize=1024)
def _make_thumbnail(root: Path, picture: RecordPicture) -> str:
    """Return a small JPEG of a picture, or of its box, as a data URI; "" where it is missing or unreadable."""
    path = os.path.join(root, picture.path)
    try:
        image = images.load_image(ImageLocation(path, picture.offset, picture.length))
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
