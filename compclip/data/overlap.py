"""Pictures that a data set shares with a benchmark, by what is known of both: three criteria, the first that holds.

    sha256    equal bytes: of the download, where img2dataset kept its hash beside a picture that it made smaller
    bytes     equal length and equal first bytes, whatever the files are called
    coco_id   COCO's number of the picture: in COCO_val2014_000000123456.jpg, in a file 000000123456.jpg, or in an
              address at cocodataset.org. Within a tar twelve digits alone are a counter of img2dataset's

A file's name alone is no criterion: two sets that number their pictures have all of them in common. A picture that was
scaled or encoded anew and has lost its name, and one of Visual Genome that COCO has too, are not found.

data/benchmarks/<name>.arrow has the pictures of a benchmark (the stage `benchmark` writes it),
data/overlaps/<name>.json what a data set shares with each.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from compclip.base import files
from compclip.base.errors import UserError
from compclip.data import entering, images, shards
from compclip.data.place import Place
from compclip.data.sample import GONE, Sample

BENCHMARKS, OVERLAPS = "benchmarks", "overlaps"  # beside the data sets' folders
STAGE = "benchmark"  # makes what is read here
CRITERIA = ("sha256", "bytes", "coco_id")
SCHEMA = pa.schema([("coco_id", pa.int64()), ("bytes", pa.uint64()), ("sha256", pa.string())])
COCO = re.compile(r"(COCO_[a-z]+20\d\d_)?(\d{12})(?:\.[A-Za-z]{3,4})?", re.ASCII)
READ = ("id", "image", "length", "url", "sha256", "head")  # of a sample
BESIDE = "negatives"  # its negative images, where a shard has any
NONE = -1  # where a picture has no number


class Identity(NamedTuple):
    """What a picture is known by: COCO's number or -1, a checksum of length and first bytes or 0, SHA-256 or ""."""

    coco_id: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Known:
    """The pictures of a benchmark."""

    coco_ids: frozenset[int]
    bytes: frozenset[int]
    sha256s: frozenset[str]

    def criterion(self, sample: Identity) -> str:
        """By which criterion a picture is one of them; "" where it is none."""
        found = (sample.sha256 in self.sha256s, sample.bytes in self.bytes, sample.coco_id in self.coco_ids)
        return next((name for name, holds in zip(CRITERIA, found, strict=True) if holds), "")


def coco_number(name: str, bare: bool = True) -> int:
    """COCO's number in the name of a picture, -1 where there is none; `bare`: whether twelve digits alone are one."""
    found = COCO.fullmatch(name)
    return int(found[2]) if found and (bare or found[1]) else NONE


def identity(sample: Sample) -> Identity:
    """What a sample's picture is known by."""
    return _known_by(*(getattr(sample, name) for name in READ))


def _known_by(id: str, image: str, length: int, url: str, sha256: str, head: int) -> Identity:
    number = coco_number(_last(_path(url))) if "cocodataset.org" in url else NONE
    if number == NONE:
        number = coco_number(_last(id if length else image), bare=not length)
    return Identity(number, head, sha256.lower())


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _last(path: str) -> str:
    return path.rpartition("/")[2]


# --- a benchmark's pictures -----------------------------------------------------------------------------------


def write(path: Path, pictures: Iterable[str | Place]) -> int:
    """Write what the pictures of a benchmark are known by, each once, in an order of its own; gives their number.

    A picture that is missing is known by its name alone.
    """
    with ThreadPoolExecutor(entering.THREADS) as pool:
        found = sorted(set(pool.map(_identity, pictures)) - {Identity(NONE, 0, "")})
    columns = [pa.array([getattr(one, f.name) for one in found], f.type) for f in SCHEMA]
    shards.write_batch(path, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), compressed=True)
    return len(found)


def _identity(picture: str | Place) -> Identity:
    return _of_part(picture) if isinstance(picture, Place) else _of_file(picture)


def _of_part(place: Place) -> Identity:
    """A picture within an archive, where it has no name."""
    try:
        raw = images.read(place)
    except images.ImageError:
        return Identity(NONE, 0, "")
    return Identity(NONE, entering.checksum(len(raw), raw[: entering.HEAD]), hashlib.sha256(raw).hexdigest())


def _of_file(path: str) -> Identity:
    number = coco_number(_last(path))
    try:
        raw = images.read(path, entering.HEAD)
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            length = file.tell()
    except (images.ImageError, OSError):
        return Identity(number, 0, "")
    return Identity(number, entering.checksum(length, raw), digest)


def read(path: Path) -> Known:
    """The pictures of a benchmark. Raises UserError where its file is missing or another one."""
    batch = shards.read_batch(path, STAGE)
    try:
        batch.validate(full=True)
        columns = batch.select(SCHEMA.names).cast(SCHEMA).to_pydict()
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise UserError(f"{path}: not the pictures of a benchmark; run `dvc repro {STAGE}` again") from error
    return Known(
        frozenset(n for n in columns["coco_id"] if n is not None and n >= 0),
        frozenset(n for n in columns["bytes"] if n),
        frozenset(text for text in columns["sha256"] if text),
    )


def file(data: Path, benchmark: str) -> Path:
    """Where the pictures of a benchmark are written down, in a project's folder `data`."""
    return data / BENCHMARKS / f"{benchmark}.arrow"


def fingerprint(path: Path) -> str:
    """A hash of a benchmark's pictures. Raises UserError where nobody looked at them."""
    read(path)
    return files.fingerprint(path)


# --- a data set's ---------------------------------------------------------------------------------------------


def without(samples: Sequence[Sample], excluded: dict[str, Known]) -> tuple[list[Sample], Counter]:
    """The samples whose pictures are in none of these benchmarks; the others are counted as `excluded_<benchmark>`,
    each at the first benchmark that has it. Negative images of a benchmark's leave their place empty, and are counted
    as `excluded_negative_images_<benchmark>`.
    """
    counts: Counter = Counter()
    kept = []
    for sample in samples:
        if name := _holder(identity(sample), excluded):
            counts[f"excluded_{name}"] += 1
        else:
            kept.append(_without(sample, excluded, counts) if sample.negatives else sample)
    return kept, counts


def _holder(own: Identity, excluded: dict[str, Known]) -> str:
    """The first benchmark that has a picture; "" where none does."""
    return next((name for name, known in excluded.items() if known.criterion(own)), "")


def _without(sample: Sample, excluded: dict[str, Known], counts: Counter) -> Sample:
    named = [(one, _holder(_of_negative(vars(one)), excluded)) for one in sample.negatives]
    counts.update(f"excluded_negative_images_{name}" for _, name in named if name)
    return replace(sample, negatives=tuple(GONE if name else one for one, name in named))


def _of_negative(one: dict[str, Any]) -> Identity:
    return _known_by("", one["image"], one["length"], "", "", one["head"])


def take(folder: Path, samples: Iterable[Path], exclude: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """Write down what the data set of a folder shares with every benchmark that was looked at; gives the same."""
    listed = sorted((folder.parent / BENCHMARKS).glob("*.arrow"))
    found = shared(samples, {path.stem: read(path) for path in listed}, exclude)
    files.write_json(folder.parent / OVERLAPS / f"{folder.name}.json", found)
    return found


def shared(
    samples: Iterable[Path], benchmarks: dict[str, Known], exclude: Sequence[str] = ()
) -> dict[str, dict[str, int]]:
    """How many samples of these shards each benchmark has: `pictures`, and of them by criterion.

    A sample counts where the benchmark has its picture, or a negative image of it. What some benchmark of `exclude` has
    is no more part of the data set.
    """
    counts: dict[str, Counter] = {name: Counter() for name in benchmarks}
    anywhere, left_out = _together(benchmarks.values()), _together(benchmarks[name] for name in exclude)
    for path in samples:
        for own, beside in _pictures(shards.read_batch(path, "recaption")):
            if left_out.criterion(own):
                continue
            every = [own, *(one for one in beside if not left_out.criterion(one))]
            if any(map(anywhere.criterion, every)):
                for name, known in benchmarks.items():
                    if criterion := next(filter(None, map(known.criterion, every)), ""):
                        counts[name].update(("pictures", criterion))
    return {name: dict(sorted(found.items())) for name, found in counts.items()}


def _pictures(batch: pa.RecordBatch) -> Iterator[tuple[Identity, list[Identity]]]:
    """What each sample's picture is known by, and its negative images."""
    rows = batch.select(READ).to_pydict()
    beside = batch[BESIDE].to_pylist() if BESIDE in batch.schema.names else itertools.repeat(())
    for own, others in zip(zip(*(rows[name] for name in READ), strict=True), beside, strict=False):
        yield _known_by(*own), [_of_negative(one) for one in others if one["image"]]


def _together(every: Iterable[Known]) -> Known:
    """Most samples are in no benchmark: one look says so."""
    coco_ids, lengths, sha256s = set[int](), set[int](), set[str]()
    for known in every:
        coco_ids |= known.coco_ids
        lengths |= known.bytes
        sha256s |= known.sha256s
    return Known(frozenset(coco_ids), frozenset(lengths), frozenset(sha256s))
