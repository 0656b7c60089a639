"""Find the pictures that a data set shares with a benchmark, by the first of three criteria that holds.

    sha256    equal bytes: of the download, where img2dataset kept its hash beside a picture that it made smaller
    bytes     equal length and equal first bytes, whatever the files are called
    coco_id   COCO's number of the picture: in COCO_val2014_000000123456.jpg, in a file 000000123456.jpg, or in an
              address at cocodataset.org. Within a tar twelve digits alone are a counter of img2dataset's

A file's name alone is no criterion: two sets that number their pictures have all names in common. Not found are a
picture that was scaled or encoded anew without its name, and pictures of Visual Genome that COCO has too.

data/benchmarks/<name>.arrow has the pictures of a benchmark (written by the stage `benchmark`),
data/overlaps/<name>.json what a data set shares with each.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from compclip.base import files
from compclip.data import images
from compclip.data.sample import NO_IMAGE, ImageLocation, NegativeImage, Sample
from compclip.data.shard_files import read_batch
from compclip.prepare import sample_cleaning
from compclip.prepare.shard_writer import build_columns, write_batch

# folders beside the data sets'
BENCHMARKS = "benchmarks"
OVERLAPS = "overlaps"
STAGE = "benchmark"  # writes the pictures of a benchmark
CRITERIA = ("sha256", "bytes", "coco_id")
SCHEMA = pa.schema([("coco_id", pa.int64()), ("bytes", pa.uint64()), ("sha256", pa.string())])
COCO_NAME = re.compile(r"(COCO_[a-z]+20\d\d_)?(\d{12})(?:\.[A-Za-z]{3,4})?", re.ASCII)
IDENTITY_COLUMNS = ("id", "image", "length", "url", "sha256", "head")  # of a sample
NEGATIVES = "negatives"  # the column of negative images, where a shard has any
NO_NUMBER = -1


class ImageIdentity(NamedTuple):
    """What identifies a picture: COCO's number or -1, a checksum of length and first bytes or 0, SHA-256 or ""."""

    coco_id: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class BenchmarkImages:
    """The pictures of a benchmark."""

    coco_ids: frozenset[int]
    bytes: frozenset[int]
    sha256s: frozenset[str]

    def criterion(self, image: ImageIdentity) -> str:
        """Return the first criterion by which a picture is one of them, "" for none."""
        holds = (image.sha256 in self.sha256s, image.bytes in self.bytes, image.coco_id in self.coco_ids)
        return next(itertools.compress(CRITERIA, holds), "")


def coco_number(name: str, bare: bool = True) -> int:
    """Return COCO's number in a picture's name, -1 for none; `bare`: twelve digits alone are a number."""
    match = COCO_NAME.fullmatch(name)
    return int(match[2]) if match and (bare or match[1]) else NO_NUMBER


def identify_sample(sample: Sample) -> ImageIdentity:
    """Return what identifies a sample's picture."""
    return _identify(*attrgetter(*IDENTITY_COLUMNS)(sample))


def _identify(key: str, image: str, length: int, url: str, sha256: str, head: int) -> ImageIdentity:
    number = NO_NUMBER
    if "cocodataset.org" in url:
        with contextlib.suppress(ValueError):  # an address that is none
            number = coco_number(_file_name(urlsplit(url).path))
    if number == NO_NUMBER:
        number = coco_number(_file_name(key if length else image), bare=not length)
    return ImageIdentity(number, head, sha256.lower())


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


# --- a benchmark's pictures -----------------------------------------------------------------------------------


def write_benchmark_images(path: Path, pictures: Iterable[str | ImageLocation]) -> int:
    """Write the identities of a benchmark's pictures, sorted and each once; return their number.

    A missing picture is identified by its name alone.
    """
    with ThreadPoolExecutor(sample_cleaning.THREADS) as pool:
        identities = sorted(set(pool.map(_read_identity, pictures)) - {ImageIdentity(NO_NUMBER, 0, "")})
    write_batch(path, pa.RecordBatch.from_pydict(build_columns(identities, SCHEMA)), compressed=True)
    return len(identities)


def _read_identity(picture: str | ImageLocation) -> ImageIdentity:
    inside_archive = isinstance(picture, ImageLocation)  # where a picture has no name
    number = NO_NUMBER if inside_archive else coco_number(_file_name(str(picture)))
    try:
        if inside_archive:
            content = images.read_bytes(picture)
            head = content[: sample_cleaning.HEAD]
            length = len(content)
            digest = hashlib.sha256(content).hexdigest()
        else:
            head = images.read_bytes(picture, sample_cleaning.HEAD)
            with open(str(picture), "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                length = file.tell()
    except (images.ImageError, OSError):
        return ImageIdentity(number, 0, "")
    return ImageIdentity(number, sample_cleaning.checksum(length, head), digest)


def read_benchmark_images(path: Path) -> BenchmarkImages:
    """Return the pictures of a benchmark. Raises UserError where its file is missing or damaged."""
    columns = read_batch(path, STAGE).to_pydict()
    return BenchmarkImages(
        frozenset(columns["coco_id"]) - {NO_NUMBER},
        frozenset(columns["bytes"]) - {0},
        frozenset(columns["sha256"]) - {""},
    )


def fingerprint(path: Path) -> str:
    """Return a hash of a benchmark's pictures. Raises UserError where they were not written."""
    read_batch(path, STAGE)
    return files.fingerprint(path)


# --- a data set's ---------------------------------------------------------------------------------------------


def exclude_images(samples: Sequence[Sample], benchmarks: dict[str, BenchmarkImages]) -> tuple[list[Sample], Counter]:
    """Return the samples whose pictures are in none of these benchmarks, and counts of the others.

    A sample counts as `excluded_<benchmark>` at the first benchmark that has it. A negative image that a benchmark has
    becomes `NO_IMAGE`, counted as `excluded_negative_images_<benchmark>`.
    """
    counts = Counter[str]()
    remaining = []
    for sample in samples:
        name = _find_benchmark(identify_sample(sample), benchmarks)
        if name:
            counts[f"excluded_{name}"] += 1
            continue
        negatives = []
        for image in sample.negatives:
            name = _find_benchmark(_identify_negative(image), benchmarks)
            negatives.append(NO_IMAGE if name else image)
            if name:
                counts[f"excluded_negative_images_{name}"] += 1
        remaining.append(replace(sample, negatives=tuple(negatives)))
    return remaining, counts


def _find_benchmark(image: ImageIdentity, benchmarks: dict[str, BenchmarkImages]) -> str:
    """Return the first benchmark that has a picture, "" for none."""
    for name, pictures in benchmarks.items():
        if pictures.criterion(image):
            return name
    return ""


def _identify_negative(image: NegativeImage) -> ImageIdentity:
    return _identify("", image.image, image.length, "", "", image.head)


def write_overlap(folder: Path, samples: Iterable[Path], exclude: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """Write and return what the data set of a folder shares with every benchmark whose pictures were written."""
    paths = sorted((folder.parent / BENCHMARKS).glob("*.arrow"))
    overlap = count_shared(samples, {path.stem: read_benchmark_images(path) for path in paths}, exclude)
    files.write_json(folder.parent / OVERLAPS / f"{folder.name}.json", overlap)
    return overlap


def count_shared(
    samples: Iterable[Path], benchmarks: dict[str, BenchmarkImages], exclude: Sequence[str] = ()
) -> dict[str, dict[str, int]]:
    """Return how many samples of these shards each benchmark has: `pictures`, and of them by criterion.

    A sample counts where the benchmark has its picture, or one of its negative images. Pictures of the benchmarks in
    `exclude` are not part of the data set.
    """
    counts: dict[str, Counter] = {name: Counter() for name in benchmarks}
    excluded = {name: benchmarks[name] for name in exclude}
    for path in samples:
        batch = read_batch(path, "recaption")
        rows = zip(*batch.select(list(IDENTITY_COLUMNS)).to_pydict().values(), strict=True)
        negatives_of_row = batch[NEGATIVES].to_pylist() if NEGATIVES in batch.schema.names else itertools.repeat(())
        for row, negatives in zip(rows, negatives_of_row, strict=False):
            image = _identify(*row)
            if _find_benchmark(image, excluded):
                continue
            pictures = [image]
            for fields in negatives:
                negative = _identify_negative(NegativeImage(**fields))
                if fields["image"] and not _find_benchmark(negative, excluded):
                    pictures.append(negative)
            for name, benchmark in benchmarks.items():
                criterion = next(filter(None, map(benchmark.criterion, pictures)), "")
                if criterion:
                    counts[name].update(("pictures", criterion))
    return {name: dict(sorted(counter.items())) for name, counter in counts.items()}
