"""What does the report's search for slices cost, at two sizes tenfold apart?

python -m perf.slice_cost [--pictures 2000]

One comparison of two rows on a made benchmark with seven records a picture and 250 slices, and ten times as many
pictures: seconds of CPU for preparing the slices (once a benchmark) and for one comparison, and the ratio of the sizes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from compclip.report import slice_search
from compclip.report.slice_tables import FLIPS, MOST

EACH, SLICES = 7, 250  # records of a picture; slices


def measure(pictures: int) -> tuple[float, float]:
    """Return the seconds of CPU for preparing slices, and for one comparison."""
    rng = np.random.default_rng(0)
    unit_I = np.repeat(np.arange(pictures), EACH)
    members = {f"slice {k}": np.flatnonzero(rng.random(len(unit_I)) < rng.uniform(0.01, 0.3)) for k in range(SLICES)}
    difference_I = rng.choice([-1.0, 0.0, 0.0, 1.0], len(unit_I))
    started = time.process_time()
    candidates = slice_search.choose_candidates(unit_I, np.zeros(len(unit_I), np.int64), members, MOST)
    prepared = time.process_time()
    slice_search.score_slices(candidates, difference_I, rng, FLIPS)
    return prepared - started, time.process_time() - prepared


def main() -> None:
    """Measure both sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    pictures = parser.parse_args().pictures
    small, large = measure(pictures), measure(10 * pictures)
    for name, (prepare, compare) in ((pictures, small), (10 * pictures, large)):
        print(f"{name:,} pictures: slices prepared in {prepare:.2f} s, a comparison in {compare:.3f} s")
    print(f"ten times the pictures: {large[0] / small[0]:.1f} and {large[1] / small[1]:.1f} times the seconds")


if __name__ == "__main__":
    main()
