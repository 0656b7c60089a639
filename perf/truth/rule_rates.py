"""How often the rule of composition decides, and how often Comp's interval alone: `python -m perf.truth.rule_rates`.

K benchmarks with independent errors of one size, which is known; differences in units of the error of Comp. A gain is
alike on all benchmarks, on all but one, on a single one, or absent; the first three lift Comp alike.

Takes a second; needs nothing.
"""

from __future__ import annotations

import sys

import numpy as np

REPEATS = 200_000
BOUND = 1.959964  # of a 95 % interval
GAIN = 2.80  # that Comp's interval decides in 8 of 10 repeats
LARGER = 3.75


def count_decided(gain_K: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the shares of repeats in which Comp's interval lies above 0, and in which the rule says better."""
    size = len(gain_K)
    difference_NK = gain_K * np.sqrt(size) + rng.standard_normal((REPEATS, size))  # in errors of one benchmark
    sum_N1 = difference_NK.sum(1, keepdims=True)
    is_above_N = sum_N1[:, 0] / np.sqrt(size) > BOUND
    is_above_NK = (sum_N1 - difference_NK) / np.sqrt(size - 1) > BOUND
    return float(is_above_N.mean()), float((is_above_N & is_above_NK.all(1)).mean())


def main() -> int:
    """Print the shares in percent, a line a kind of gain and number of benchmarks."""
    rng = np.random.default_rng(0)
    print(f"{'gain':<28}{'benchmarks':>10}{'Comp alone':>12}{'the rule':>10}")
    for size in (2, 3, 4, 5, 8):
        one = np.eye(size)[0]
        gains = {
            "alike on all": np.full(size, GAIN / size),
            f"alike, {LARGER / GAIN:.2f} times as large": np.full(size, LARGER / size),
            "alike on all but one": GAIN * (1 - one) / (size - 1),
            "on one": GAIN * one,
            "on one, ten times as large": 10 * GAIN * one,
            "none": 0 * one,
        }
        for name, gain_K in gains.items():
            comp, rule = count_decided(gain_K, rng)
            print(f"{name:<28}{size:>10}{100 * comp:>12.1f}{100 * rule:>10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
