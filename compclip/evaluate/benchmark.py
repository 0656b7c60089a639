"""What every benchmark is: records to score, and named metrics with the outcome of every item.

N records, D joint dim.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from compclip.base.errors import unknown
from compclip.base.files import fingerprint
from compclip.config.sections import FIRST
from compclip.data.sample import ImageLocation
from compclip.evaluate.embeddings import Embeddings
from compclip.runs.item_outcomes import CAPTION, KINDS, Items, hash_picture

# --- references of images: a path, bytes within an archive, or a part of the picture at either

BOX = "#box="  # path#box=x,y,width,height in pixels
BYTES = "#bytes="  # path#bytes=offset,length
_BOXED = re.compile(rf"(.*){BOX}([^,/]+),([^,/]+),([^,/]+),([^,/]+)", re.S)
_BYTES = re.compile(rf"(.*){BYTES}(\d{{1,18}}),(\d{{1,18}})", re.S | re.A)


def with_box(path: str, box: Sequence[float] | None) -> str:
    """Return the reference of an image, or of a part of it: (x, y, width, height) in pixels."""
    if box is None:
        return path
    try:
        return f"{path}{BOX}{','.join(map('{:g}'.format, box))}"
    except OverflowError:  # an integer of hundreds of digits
        return f"{path}{BOX}inf,inf,inf,inf"


def bytes_of_file(path: str, offset: int, length: int) -> str:
    """Return the reference of an image: `length` bytes of a file, from `offset` on. They sort in the file's order."""
    return f"{path}{BYTES}{offset:012},{length}"


def parse_reference(ref: str) -> tuple[str | ImageLocation, tuple[float, ...] | None]:
    """Return the picture of a reference, and its box where it has one; a file's name may hold the mark of a box."""
    if BOX in ref and (match := _BOXED.fullmatch(ref)):
        path, *numbers = match.groups()
        try:
            return _parse_bytes(path), tuple(map(float, numbers))
        except ValueError:
            pass
    return _parse_bytes(ref), None


def _parse_bytes(path: str) -> str | ImageLocation:
    if BYTES in path and (match := _BYTES.fullmatch(path)) and int(match[3]):
        return ImageLocation(match[1], int(match[2]), int(match[3]))
    return path


def number_picture(ref: str, subset: str = "") -> int:
    """Return the number of a referenced picture (`item_outcomes.hash_picture`)."""
    picture = parse_reference(ref)[0]
    if isinstance(picture, ImageLocation):
        return hash_picture(picture.path, picture.offset, subset)
    return hash_picture(picture, subset=subset)


def file_of(picture: str | ImageLocation) -> str:
    """Return the file that holds a picture."""
    return picture.path if isinstance(picture, ImageLocation) else picture


# --- records and what is asked of them

Groups = Mapping[str, Mapping[str, frozenset[str]]]  # subset -> group -> record ids


@dataclass(frozen=True)
class Record:
    """One item of a benchmark: images and texts in the order its module gives them a meaning.

    `ahead` is how many wrong candidates stand before the match in the authors' order, where it is a choice.
    """

    subset: str
    id: str
    images: tuple[str, ...]
    texts: tuple[str, ...]
    ahead: int = 0

    @property
    def has_text(self) -> bool:
        """Whether no text of it is empty."""
        return all(map(str.strip, self.texts))


@dataclass(frozen=True)
class Outcomes:
    """Metrics of one benchmark, the outcomes they are means of, and what was counted on the way.

    `means` names the metrics that are means of other metrics. A metric without a single item is absent. `coverage` has
    for each metric that was measured how many records of its subset were scored, and how many there are.
    """

    metrics: dict[str, float]
    items: dict[str, Items]
    means: dict[str, list[str]]
    counts: dict[str, int]
    coverage: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    """Records of one benchmark as published, and the functions that turn embeddings into outcomes.

    `evaluate(records, embeddings)` gets the records without empty texts; a record with an unreadable image is left out
    by `readable`, except where a metric needs no image. It asks for scores (`matches`, `table`, `ranks`), since not
    every model has vectors. `dropped` counts what the files held and no record does.
    `shared_texts` are texts that belong to no record (the prompts of a classification). `means` maps a metric to the
    metrics it averages, which may be means that stand before it.

    `authors` is the benchmark with the records that its authors count and that are left out here because a tie alone
    decides them.

    `kind` is what it measures, one of runs.item_outcomes.KINDS. Every metric is a share of items of which more is
    better, except those of `lower`, of which less is, and those of `scores`, which are cosines and of which neither is.
    The part of a metric that belongs to a group of items is as the whole is. `texts_alone` look at no picture; where
    there are none, the texts of a record whose picture is missing have no vector.
    `headline` is the module's HEADLINE unless `load` gives another.
    `first_picture`: records are one unit by their first picture alone (`number_units`). `folders_count`: names of
    pictures begin anew in each folder, as of a video's frames, so that a picture goes by subset and folder too.
    `long_texts`: captions are long ones, which some heads map by a projection of their own.
    """

    records: tuple[Record, ...]
    files: tuple[Path, ...]
    evaluate: Callable[[Sequence[Record], Embeddings], dict[str, Items]]
    means: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: Groups = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    shared_texts: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    texts_alone: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()
    authors: Benchmark | None = None
    first_picture: bool = False
    folders_count: bool = False
    long_texts: bool = False
    kind: str = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS, "benchmark")

    def __len__(self) -> int:
        """The number of records."""
        return len(self.records)

    @property
    def with_texts(self) -> list[Record]:
        """The records that are scored: those without an empty text."""
        return [record for record in self.records if record.has_text]

    @property
    def images(self) -> list[str]:
        """Every different image that is scored, in the order of the records."""
        return list(dict.fromkeys(chain.from_iterable(record.images for record in self.with_texts)))

    @property
    def texts(self) -> list[str]:
        """Every different text that is scored, in the order of the records."""
        return self.texts_beside(frozenset())

    def texts_beside(self, missing: Set[str]) -> list[str]:
        """Return the texts that are scored where these pictures are missing; texts alone are compared without them."""
        records = self.with_texts
        if not self.texts_alone:
            records = [record for record in records if missing.isdisjoint(record.images)]
        return list(dict.fromkeys((*chain.from_iterable(record.texts for record in records), *self.shared_texts)))

    @functools.cached_property
    def units(self) -> dict[tuple[str, str], int]:
        """The unit of each record, by subset and id."""
        return number_units(self.records, self.first_picture)

    @functools.cached_property
    def units_by_id(self) -> dict[str, int]:
        """The unit of each id that one record alone has."""
        count = Counter(key for _, key in self.units)
        return {key: unit for (_, key), unit in self.units.items() if count[key] == 1}

    @functools.cached_property
    def unit_pictures(self) -> list[int | None]:
        """The number of the first picture of each unit, the same in all benchmarks; None for a unit without one."""
        pictures: dict[int, int | None] = {}
        for record in self.records:
            unit = self.units.get((record.subset, record.id))
            if unit is not None and unit not in pictures:
                subset = record.subset if self.folders_count else ""
                pictures[unit] = number_picture(record.images[0], subset) if record.images else None
        return list(pictures.values())

    def counted(self, ties: str) -> Benchmark:
        """Itself, or with all of its authors' records where ties go to the first."""
        return self.authors if ties == FIRST and self.authors else self

    def fingerprint(self) -> str:
        """Return the SHA-256 of the annotation files and of what was read from them, without the pictures' bytes."""
        digest = hashlib.sha256(fingerprint(*self.files).encode())
        pictures = set(chain.from_iterable(record.images for record in self.records))
        name_of = {picture: Path(picture).name for picture in pictures}
        for record in self.records:
            names = [name_of[image] for image in record.images]
            digest.update(repr((record.subset, record.id, names, record.texts)).encode())
        return digest.hexdigest()

    def declared(self, metrics: Collection[str]) -> dict[str, str | list[str]]:
        """Return what a result file says of the benchmark's kind and of its metrics, so that no reader has to guess.

        A headline of which a metric was not measured is none: another mean must not stand for the benchmark.
        """
        # a part's metric is as the whole is
        lower = [metric for metric in metrics if metric.partition("/")[0] in self.lower]
        scores = [metric for metric in metrics if metric.partition("/")[0] in self.scores]
        headline = list(self.headline) if set(self.headline) <= set(metrics) else []
        return {"kind": self.kind, "lower": lower, "scores": scores, "headline": headline}

    def score(self, embeddings: Embeddings, without: Sequence[str] = ()) -> Outcomes:
        """Return all metrics from the embeddings of `images` and `texts`, but for those in `without`."""
        records = self.with_texts
        measured = self.evaluate(records, embeddings.as_long_texts() if self.long_texts else embeddings)
        scored = {name: of_metric for name, of_metric in measured.items() if of_metric.ids and name not in without}
        items = {}
        metrics = {}
        for name, of_metric in (scored | _group_items(scored, self.groups)).items():
            items[name] = replace(of_metric, units=_item_units(of_metric, self.units, self.units_by_id))
            metrics[name] = float(of_metric.values.mean())
        means = {}
        for name, members in self._all_means().items():
            if metrics.keys() >= set(members):  # an average over fewer subsets must not bear the same name
                means[name] = members
                metrics[name] = float(np.mean([metrics[m] for m in members]))
        counts = self._counts(records, items, embeddings)
        coverage = self._coverage(items, embeddings)
        return Outcomes(metrics, items, means, counts, coverage)

    def _all_means(self) -> dict[str, list[str]]:
        """Return the means of whole subsets, and the same means over each group."""
        means = {name: list(members) for name, members in self.means.items()}
        for group in sorted(set[str]().union(*self.groups.values())):
            for name, members in self.means.items():
                means[f"{name}/{group}"] = [f"{member}/{group}" for member in members]
        return means

    def _coverage(self, items: Mapping[str, Items], embeddings: Embeddings) -> dict[str, tuple[int, int]]:
        """Count the scored records and all records of each metric's subset; of the whole benchmark where it has none.

        A metric that looks at no picture is scored where the picture is missing. A group's part is as the whole metric.
        """
        sizes = _count_subsets(self.records)
        with_texts = _count_subsets(self.with_texts)
        with_pictures = _count_subsets(readable(self.with_texts, embeddings))
        coverage = {}
        for metric, of_metric in items.items():
            if "/" not in metric:
                scored = with_texts if metric in self.texts_alone else with_pictures
                subset = of_metric.subset
                whole = (scored.total(), sizes.total())
                coverage[metric] = (scored[subset], sizes[subset]) if subset in sizes else whole
        return coverage

    def _counts(self, records: Sequence[Record], items: Mapping[str, Items], embeddings: Embeddings) -> dict[str, int]:
        """Count every record under exactly one of scored, empty_text and the reasons of its pictures; groups by name.

        `tied` are the items of which some outcome depends on equal scores, however ties are counted.
        """
        reasons: Counter[str] = Counter()
        for record in records:
            failures = filter(None, map(embeddings.failed.get, record.images))
            reasons[next(failures, "scored")] += 1
        tied: set[tuple[str, str]] = set()
        group_sizes = {}
        for name, of_metric in items.items():
            tied.update((of_metric.subset, key) for key in of_metric.tied)
            if "/" in name:
                group_sizes[name] = len(of_metric.ids)
        return {
            "records": len(self),
            "scored": reasons["scored"],
            "missing_image": reasons["missing"],
            "unreadable_image": reasons["unreadable"],
            "empty_text": len(self) - len(records),
            "tied": len(tied),
            **({"unusable_box": reasons["box"]} if reasons["box"] else {}),
            **self.dropped,
            **group_sizes,
        }


def readable(records: Sequence[Record], embeddings: Embeddings) -> list[Record]:
    """Return the records whose images were all read."""
    return [record for record in records if embeddings.has(record.images)]


def _count_subsets(records: Sequence[Record]) -> Counter[str]:
    return Counter(record.subset for record in records)


def by_subset(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records of each subset, subsets in the order of their first record."""
    records_of: dict[str, list[Record]] = {}
    for record in records:
        records_of.setdefault(record.subset, []).append(record)
    return records_of


def column(records: Sequence[Record], text: int) -> list[str]:
    """Return the text number `text` of every record."""
    return [record.texts[text] for record in records]


def pictures(records: Sequence[Record], number: int = 0) -> list[str]:
    """Return the image number `number` of every record."""
    return [record.images[number] for record in records]


def ids(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the ids of records."""
    return tuple(record.id for record in records)


def flagged_ids(keys: Sequence[str], flag_N: np.ndarray) -> tuple[str, ...]:
    """Return the ids whose flag is set."""
    return tuple(keys[index] for index in np.flatnonzero(flag_N).tolist())


def pool_items(name: str, items: Mapping[str, Items], members: Sequence[str], subset: str) -> dict[str, Items]:
    """Return `name`: the items of the metrics `members` as one, each id behind its subset's name.

    {} where a member was not measured.
    """
    if not set(members) <= items.keys():
        return {}
    keys: list[str] = []
    values = []
    for member in members:
        keys += [f"{items[member].subset}/{key}" for key in items[member].ids]
        values.append(items[member].values)
    return {name: Items(tuple(keys), np.concatenate(values), subset)}


def _item_units(items: Items, unit_of: Mapping[tuple[str, str], int], unit_of_id: Mapping[str, int]) -> tuple[int, ...]:
    """Return each item's unit, that of its record; none where some items are no records.

    A caption's subset may be another than its record's, where no second record has the id.
    """
    with contextlib.suppress(KeyError):
        return tuple(unit_of[items.subset, key] for key in items.ids)
    numbers = []
    for key in items.ids if unit_of else ():
        # a record's id, one behind the name of its subset (`pool_items`), or a caption of a record
        pooled_subset, _, pooled_key = key.partition("/")
        caption = CAPTION.fullmatch(key)
        record_id = caption[1] if caption else ""
        number = unit_of_id.get(record_id) if caption else None
        for candidate in ((items.subset, record_id), (pooled_subset, pooled_key), (items.subset, key)):
            number = unit_of.get(candidate, number)
        if number is None:
            return ()
        numbers.append(number)
    return tuple(numbers)


def _group_items(items: Mapping[str, Items], groups: Groups) -> dict[str, Items]:
    """`<metric>/<group>` for the groups of each metric's subset that hold an item."""
    grouped = {}
    for name, metric_items in items.items():
        for group, members in groups.get(metric_items.subset, {}).items():
            member_N = np.array([key in members for key in metric_items.ids])
            if member_N.any():
                keys = flagged_ids(metric_items.ids, member_N)
                grouped[f"{name}/{group}"] = Items(keys, metric_items.values[member_N], metric_items.subset)
    return grouped


def number_units(records: Sequence[Record], first_picture: bool = False) -> dict[tuple[str, str], int]:
    """Return the number of each record's unit, by subset and id, in the order of their first records.

    A part of a picture is that picture. With `first_picture` the others of a record join nothing: where each picture is
    a wrong candidate somewhere, nearly all records would be one unit.
    """
    parent: dict[str, str] = {}
    pictures_of = []
    for record in records:
        pictures = [str(parse_reference(ref)[0]) for ref in record.images]
        pictures_of.append(pictures[:1] if first_picture else pictures)
        for picture in pictures_of[-1]:
            parent[_root(parent, picture)] = _root(parent, pictures_of[-1][0])
    numbers: dict[str, int] = {}
    units = {}
    for index, (record, pictures) in enumerate(zip(records, pictures_of, strict=True)):
        root = _root(parent, pictures[0]) if pictures else f"record {index}"
        units[record.subset, record.id] = numbers.setdefault(root, len(numbers))
    return units


def _root(parent: dict[str, str], picture: str) -> str:
    """Return the picture that stands for all that are joined with this one; paths to it are halved on the way."""
    parent.setdefault(picture, picture)
    while parent[picture] != picture:
        parent[picture] = picture = parent[parent[picture]]
    return picture
