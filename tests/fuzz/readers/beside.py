"""Negative images, named by a list from elsewhere."""

from __future__ import annotations

import random
from collections.abc import Iterator

from compclip.base.safe_names import SafeName
from tests.fuzz import formats
from tests.fuzz.reader import Reader
from tests.fuzz.readers.data import _with_pictures

LIST = [{"key": "a", "made": ["b.png", "a.png"]}, {"key": "b", "made": "a.png"}, {"key": "c", "made": "nothing.png"}]


def readers() -> Iterator[Reader]:
    """A list of pictures, joined to the samples of a source."""
    yield Reader("negative_images", _with_pictures(_listed), _beside, ("files/n.jsonl",))


def _listed() -> formats.Files:
    return formats.SOURCES["karpathy"][1]() | {"n.jsonl": LIST}


def _beside(_: random.Random) -> object:
    from compclip.config.sections import Data
    from compclip.prepare import shard_stages

    beside = {"file": "files/n.jsonl", "on": "key", "column": "made", "images": "pictures"}
    path = f"files/{formats.SOURCES['karpathy'][0]}"
    data = Data("karpathy", path, "pictures", captioner="none", negative_images=beside)
    return shard_stages.run_stage("recaption", SafeName("x", "data"), data)
