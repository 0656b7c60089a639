"""The stage `keys`: the run key of every cell, keys/<method>.json: `python -m compclip.runs.keys`.

A method's training depends on its keys alone: they stand for parameters, code, data and backbone together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compclip.base import links
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping, write_json
from compclip.runs import store


def write(root: Path) -> int:
    """Replace the keys by those of the plan; gives their number. Raises UserError where there is no plan."""
    plans = sorted((root / store.PLAN).glob("*.json"))
    if not plans:
        raise UserError(f"{root / store.PLAN}: no plan; run `dvc repro plan` first")
    for path in (root / store.KEYS).glob("*.json"):
        if path.name not in {plan.name for plan in plans}:
            links.remove(path)
    made = [(plan.name, store.keys(read_mapping(plan), root)) for plan in plans]
    for name, keys in made:
        write_json(root / store.KEYS / name, keys)
    return sum(len(keys) for _, keys in made)


def main(argv: list[str]) -> int:
    """The stage `keys`."""
    argparse.ArgumentParser(prog="python -m compclip.runs.keys", description=__doc__.splitlines()[0]).parse_args(argv)
    print(f"{write(Path('.'))} cells")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
