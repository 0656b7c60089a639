"""Read which captions of a data set share a noun, from a mapped file: CLIC chooses its partners by it.

    data/<name>/nouns.arrow    one row per noun, sorted by UTF-8: the captions that have it in their first sentence

Captions are numbered in the order of the data set's samples and of each sample's captions.
"""

from __future__ import annotations

import bisect
from pathlib import Path

import numpy as np
import pyarrow as pa

from compclip.base.errors import UserError
from compclip.data.shard_files import read_batch
from compclip.text.annotation_rows import ListColumn, StringColumn

FILE = "nouns.arrow"
STAGE = "annotate"
SHAPES = ("tall", "wide")  # indexed by the boolean `wide`
LISTS = pa.large_list(pa.uint32())
SCHEMA = pa.schema([("noun", pa.string()), *((shape, LISTS) for shape in SHAPES)])


class NounIndex:
    """The captions of each noun. Raises UserError where the file is missing or another one."""

    def __init__(self, path: Path) -> None:
        batch = read_batch(path, STAGE, mapped=True)
        if batch.schema != SCHEMA:
            raise UserError(f"{path}: not a list of nouns; run `dvc repro {STAGE}` again")
        self._nouns, self._count = StringColumn(batch["noun"]), len(batch)
        self._captions = [ListColumn(batch[shape]) for shape in SHAPES]

    def captions(self, noun: str, wide: bool) -> np.ndarray:
        """Return the captions that have `noun`, of wide or of tall pictures, in ascending order."""
        key = noun.encode()
        row = bisect.bisect_left(range(self._count), key, key=self._nouns.__getitem__)
        if row == self._count or self._nouns[row] != key:
            return np.empty(0, np.uint32)
        return self._captions[wide][row][0]
