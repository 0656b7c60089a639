"""Read the negative images of samples: the column that shards have where a data set names some."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from compclip.data.place import Place
from compclip.text.annotation_rows import Strings, numbers

COLUMN = "negatives"
TYPE = pa.list_(pa.struct([("image", pa.string()), ("offset", pa.int64()), ("length", pa.int64())]))


class Places:
    """Where the negative images of a shard's samples are, by row. ValueError or another one of a column of others."""

    def __init__(self, listed: pa.ListArray) -> None:
        values = listed.values
        if values.offset:
            raise ValueError("a part of a column")
        self._ends, self._size = numbers(listed.offsets), len(values)
        self._images = Strings(values.field("image"))
        self._numbers = [numbers(values.field(name)) for name in ("offset", "length")]

    def __getitem__(self, row: int) -> tuple[Place, ...]:
        low, high = self._ends[row : row + 2].tolist()
        if not 0 <= low <= high <= self._size:
            raise ValueError("a list outside of its column")
        names = self._images.all(np.arange(low, high))
        offsets, lengths = (numbers[low:high].tolist() for numbers in self._numbers)
        return tuple(Place(name.decode(), *at) for name, *at in zip(names, offsets, lengths, strict=True))
