"""The outcomes of one metric, item by item: what a benchmark makes, a result file keeps and the report compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Items:
    """The outcomes of one metric, whose value is their mean, in the order of `ids`.

    `subset` tells a benchmark which of its groups apply; it is not kept with the results.
    """

    ids: tuple[str, ...]
    values: np.ndarray
    subset: str = ""
