"""What the programs of made files have in common: how many, from which seed, and what is printed."""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def try_all(description: str | None, files: int, try_files: Callable[[int, int, Path], list[str]]) -> int:
    """Try the files that the command line asks for, and print the defects; return 1 where there is one."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=files)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        defects = try_files(args.files, args.seed, Path(folder))
    print(f"{args.files} files: {len(defects)} defects", *defects, sep="\n")
    return 1 if defects else 0
