"""Losses of methods beside released programs, float64: `python -m perf.truth.released_losses METHOD=FOLDER …`.

FOLDER is a clone of the program that experiments/log/2026-11.md names. Their code is run: give clones that you trust.
Without arguments the methods are listed. Prints the largest relative difference of the value and the largest
difference of a slope over some drawn batches, in which all texts are there but where a name says otherwise. Exit code 2
for a method that has no comparison, or no folder.

Takes 10 seconds; needs clones of the released programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from compclip.base.errors import UserError, entry, unknown
from perf.truth import losses_composites, losses_negatives, losses_newer, losses_pictures, losses_positives
from perf.truth.loss_comparison import Compared, compute_slopes

SEEDS = range(5)
PREFIX = "compare_"
CHAPTERS = (losses_newer, losses_positives, losses_negatives, losses_composites, losses_pictures)
COMPARE: dict[str, Callable[[Path, int], Compared]] = {
    name.removeprefix(PREFIX): function
    for chapter in CHAPTERS
    for name, function in vars(chapter).items()
    if name.startswith(PREFIX)
}


def measure(name: str, folder: Path) -> tuple[float, float]:
    """Return the largest relative difference of the value, and the largest of a slope, over all seeds."""
    values, slopes = [], []
    for seed in SEEDS:
        ours, theirs, f, names = COMPARE[name](folder, seed)
        values.append(abs(float(ours.detach() - theirs.detach())) / max(1.0, abs(float(theirs.detach()))))
        pairs = zip(compute_slopes(ours, f, names), compute_slopes(theirs, f, names), strict=True)
        slopes.append(max(float((a - b).abs().max()) for a, b in pairs))
    return max(values), max(slopes)


def main(argv: Sequence[str]) -> int:
    """Print a line for each METHOD=FOLDER."""
    for argument in argv:
        name, _, folder = argument.partition("=")
        if name not in COMPARE:
            raise unknown("method", name, COMPARE, "METHOD=FOLDER")
        if not folder or not Path(folder).is_dir():
            raise UserError(
                f"{argument}: {folder or 'nothing'} is no folder; give a clone of the program: {name}=FOLDER"
            )
        value, slope = measure(name, Path(folder))
        print(f"{name}: value {value:.1e}, slope {slope:.1e}", flush=True)
    if not argv:
        print("\n".join(COMPARE))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
