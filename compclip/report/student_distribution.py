"""Quantiles of Student's t by degrees of freedom and level.

With v degrees of freedom and t = sqrt(v) / tan(angle), the share beyond t is the integral of sin(angle)^(v - 1) from 0,
which a table holds for each v. N values of t, K levels.
"""

from __future__ import annotations

from functools import lru_cache
from math import erfc, pi, sqrt

import numpy as np

LEVEL = 0.05
LEVELS_K = np.geomspace(1.0, 1e-12, 400)  # of p values; none is said to be smaller
_VALUES_N = np.sinh(np.linspace(0.0, 25.0, 5001))[::-1]
TABLES = 512  # of so many degrees of freedom are remembered


@lru_cache(maxsize=TABLES)
def _tail_table(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return values of t in falling order and the logarithm of the share beyond each."""
    if freedom == np.inf:
        value_N = _VALUES_N[_VALUES_N < 8.0]
        return value_N, np.log([erfc(value / sqrt(2)) for value in value_N])
    angle_N = np.concatenate([np.arctan(sqrt(freedom) / _VALUES_N[:-1]), [pi / 2]])
    density_N = np.sin(angle_N) ** (freedom - 1)
    step_N = np.diff(angle_N) * (density_N[1:] + density_N[:-1]) / 2
    first = angle_N[0] ** freedom / freedom  # beyond the largest value, where the sine is its angle
    tail_N = first + np.concatenate([[0.0], np.cumsum(step_N)])
    with np.errstate(divide="ignore"):
        log_N = np.log(tail_N / tail_N[-1])
    is_apart = log_N > -80
    return _VALUES_N[is_apart], log_N[is_apart]


def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the value that Student's t exceeds, on either side, in a share `level` of draws."""
    value_N, log_N = _tail_table(freedom)
    return float(np.interp(np.log(level), log_N, value_N))


@lru_cache(maxsize=TABLES)
def student_quantiles(freedom: float) -> np.ndarray:
    """Return the quantile of each level of `LEVELS_K`, in rising order."""
    value_N, log_N = _tail_table(freedom)
    return np.interp(np.log(LEVELS_K), log_N, value_N)
