"""What stands beside a data set's samples: their neighbours."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.fuzz.reader import Reader


def readers() -> Iterator[Reader]:
    """Numbers of neighbours."""
    yield Reader("neighbours", _near, _opened)


def _near(folder: Path) -> None:
    np.save(folder / "n.npy", (np.arange(12, dtype=np.uint32)[:, None] + (1, 2, 3)) % 12)


def _opened(_: random.Random) -> object:
    from compclip.data import near

    return near.opened(Path("n.npy"), 12).tolist()
