"""Read the nearest pictures of each picture of a data set, which the stage `neighbours` wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import check_regular

STAGE = "neighbours"


def map_neighbours(path: Path, samples: int) -> np.ndarray:
    """Map each sample's nearest neighbours by number, nearest first: uint32 [samples, neighbours].

    Raises UserError where the file is missing, damaged, or of a data set with another number of samples.
    """
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro {STAGE}` first")
    try:
        neighbours = np.load(check_regular(path), mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); remove it and run `dvc repro {STAGE}`") from error
    if len(neighbours) != samples:
        raise UserError(f"{path}: not the neighbours of {samples} samples; remove it and run `dvc repro {STAGE}`")
    return neighbours
