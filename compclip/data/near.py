"""The nearest pictures of each picture of a data set, as the stage `neighbours` wrote them: mapped, never loaded.

N samples, K neighbours.
"""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError

import numpy as np

from compclip.base.errors import UserError
from compclip.base.files import regular

STAGE = "neighbours"
# Whatever the bytes are: NumPy reads a header as Python's literals.
FAULTS = (OSError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError, SyntaxError, TokenError)
SPOILT = (*FAULTS, EOFError, MemoryError, RecursionError)


def opened(path: Path, samples: int) -> np.ndarray:
    """The numbers of each sample's nearest ones, nearest first: uint32 [N, K].

    Raises UserError where the file is missing, damaged, or of another data set than one of so many samples.
    """
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro {STAGE}` first")
    try:
        near_NK = np.load(regular(path), mmap_mode="r", allow_pickle=False)
        good = isinstance(near_NK, np.ndarray) and _sound(near_NK, samples)
    except SPOILT as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); remove it and run `dvc repro {STAGE}`") from error
    if not good:
        raise UserError(f"{path}: not the neighbours of {samples} samples; remove it and run `dvc repro {STAGE}`")
    return near_NK


def _sound(near_NK: np.ndarray, samples: int) -> bool:
    """Whether they are numbers of samples, and nobody is near to itself."""
    if near_NK.dtype != np.uint32 or near_NK.ndim != 2 or len(near_NK) != samples or not near_NK.size:
        return False
    return bool(near_NK.max() < samples) and not (near_NK == np.arange(samples, dtype=np.uint32)[:, None]).any()
