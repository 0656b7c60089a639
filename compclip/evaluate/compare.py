"""Compare our numbers of a model with somebody else's, metric by metric.

compclip compare RESULTS THEIRS                a folder of results against a file: JSON or CSV
compclip compare RESULTS THEIRS --within 0.1   exit code 1 where a number is off by more percentage points
compclip compare RESULTS THEIRS --within items  exit code 1 where theirs is outside of our 95 % interval over items

RESULTS is what `compclip evaluate --out` or `compclip vqascore --out` wrote, or results/<method>/<cell>. THEIRS names
metrics as ours or as CLIP_benchmark does (docs/benchmarks.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import entry

ITEMS = "items"


def main(argv: Sequence[str]) -> int:
    """Print a table of our numbers against theirs; return 1 where one is further off than allowed."""
    args = _parser().parse_args(argv)
    from compclip.evaluate import number_comparison

    ours = number_comparison.numbers_of_folder(Path(args.results))
    comparison = number_comparison.compare_numbers(ours, number_comparison.read_numbers(args.theirs))
    print(number_comparison.comparison_table(comparison))
    far, limit = comparison.decided(), "the items leave open"
    if args.within != ITEMS:
        far = comparison.beyond(args.within) if args.within is not None else []
        limit = f"{args.within:g}" if far else ""
    for line in far:
        print(f"error: {line.metric}: {line.difference:+.2f} points, more than {limit}", file=sys.stderr)
    return 1 if far else 0


def _parse_limit(text: str) -> float | str:
    """Return points, or the word that stands for the items. Raises ArgumentTypeError for anything else."""
    if text == ITEMS:
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of points, as 0.1, nor `{ITEMS}`") from None


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="compclip compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", metavar="RESULTS", help="a folder of result files")
    parser.add_argument("theirs", metavar="THEIRS", help="numbers of somebody's: JSON or CSV")
    parser.add_argument(
        "--within",
        type=_parse_limit,
        metavar=f"POINTS|{ITEMS}",
        help=f"allowed percentage points, or {ITEMS}: the 95 %% interval of ours over its items; default: any",
    )
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
