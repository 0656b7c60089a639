"""What stands beside a data set's samples: their neighbours, and negative images."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from compclip.base.names import Name
from tests.fuzz import formats
from tests.fuzz.reader import Reader
from tests.fuzz.readers.data import _with_pictures

LIST = [{"key": "a", "made": ["b.png", "a.png"]}, {"key": "b", "made": "a.png"}, {"key": "c", "made": "nothing.png"}]


def readers() -> Iterator[Reader]:
    """Numbers of neighbours; a list of pictures, joined to the samples of a source."""
    yield Reader("neighbours", _near, _opened)
    yield Reader("negative_images", _with_pictures(_listed), _beside, ("files/n.jsonl",))


def _near(folder: Path) -> None:
    np.save(folder / "n.npy", ((np.arange(12)[:, None] + (1, 2, 3)) % 12).astype(np.uint32))


def _opened(_: random.Random) -> object:
    from compclip.data import near

    return near.opened(Path("n.npy"), 12).tolist()


def _listed() -> formats.Files:
    return formats.SOURCES["karpathy"][1]() | {"n.jsonl": LIST}


def _beside(_: random.Random) -> object:
    from compclip.config.sections import Data
    from compclip.data import prepare

    beside = {"file": "files/n.jsonl", "on": "key", "column": "made", "images": "pictures"}
    path = f"files/{formats.SOURCES['karpathy'][0]}"
    data = Data("karpathy", path, "pictures", captioner="none", negative_images=beside)
    return prepare.run("recaption", Name("x", "data"), data)
