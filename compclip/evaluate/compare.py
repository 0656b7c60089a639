"""Compare our numbers of a model with somebody else's, metric by metric.

compclip compare RESULTS THEIRS                a folder of results against a file: JSON or CSV
compclip compare RESULTS THEIRS --within 0.1   exit code 1 where a number is off by more percentage points

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


def main(argv: Sequence[str]) -> int:
    """Print a table of our numbers against theirs; return 1 where one is further off than allowed."""
    args = _parser().parse_args(argv)
    from compclip.evaluate import number_comparison

    ours = number_comparison.numbers_of_folder(Path(args.results))
    comparison = number_comparison.compare_numbers(ours, number_comparison.read_numbers(args.theirs))
    print(number_comparison.comparison_table(comparison))
    far = [] if args.within is None else comparison.beyond(args.within)
    for line in far:
        print(f"error: {line.metric}: {line.difference:+.2f} points, more than {args.within:g}", file=sys.stderr)
    return 1 if far else 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="compclip compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", metavar="RESULTS", help="a folder of result files")
    parser.add_argument("theirs", metavar="THEIRS", help="numbers of somebody's: JSON or CSV")
    parser.add_argument(
        "--within",
        type=float,
        metavar="POINTS",
        help="allowed percentage points; default: any",
    )
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
