"""Negative images and regions, named by lists from elsewhere."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.prepare import shard_stages
from tests.fuzz import formats
from tests.fuzz.reader import Make, Reader
from tests.fuzz.readers.data import _with_pictures

LIST = [{"key": "a", "made": ["b.png", "a.png"]}, {"key": "b", "made": "a.png"}, {"key": "c", "made": "nothing.png"}]


def readers() -> Iterator[Reader]:
    """Lists of pictures and of boxes, joined to the samples of a source."""
    yield Reader("negative_images", _with_pictures(_listed), _beside, ("files/n.jsonl",))
    for suffix in ("json", "jsonl", "parquet"):
        yield Reader(f"regions:{suffix}", _write_regions(suffix), _regions(suffix), (f"files/r.{suffix}",))


def _listed() -> formats.Files:
    return formats.SOURCES["karpathy"][1]() | {"n.jsonl": LIST}


REGIONS = [
    {"key": "a", "regions": [{"box": [0.0, 0.1, 0.5, 0.9], "caption": ["a dog", "the dog"], "negatives": ["a cat"]},
                             {"box": [1.0, 2.0, 30.0, 40.0], "caption": ["a tree"], "negatives": []}]},
    {"key": "b", "regions": []},
]  # fmt: skip


def _write_regions(suffix: str) -> Make:
    def make(folder: Path) -> None:
        _with_pictures(formats.SOURCES["karpathy"][1])(folder)
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(REGIONS), folder / "files/r.parquet")
        else:
            formats.write(folder / "files", {f"r.{suffix}": REGIONS})

    return make


def _regions(suffix: str) -> Callable[[random.Random], object]:
    def recaption_regions(_: random.Random) -> object:
        options = {"file": f"files/r.{suffix}", "on": "key", "column": "regions", "negatives": "negatives"}
        path = f"files/{formats.SOURCES['karpathy'][0]}"
        data = Data("karpathy", path, "pictures", captioner="none", regions=options)
        return shard_stages.run_stage("recaption", SafeName("x", "data"), data)

    return recaption_regions


def _beside(_: random.Random) -> object:
    beside = {"file": "files/n.jsonl", "on": "key", "column": "made", "images": "pictures"}
    path = f"files/{formats.SOURCES['karpathy'][0]}"
    data = Data("karpathy", path, "pictures", captioner="none", negative_images=beside)
    return shard_stages.run_stage("recaption", SafeName("x", "data"), data)
