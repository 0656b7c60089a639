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
from compclip.runs import run_store


def write_keys(root: Path) -> int:
    """Write the run keys of the plan and return their number. Raises UserError where there is no plan."""
    plans = sorted((root / run_store.PLAN).glob("*.json"))
    if not plans:
        raise UserError(f"{root / run_store.PLAN}: no plan; run `dvc repro plan` first")
    for path in (root / run_store.KEYS).glob("*.json"):
        if path.name not in {plan.name for plan in plans}:
            links.remove(path)
    keys_by_name = [(plan.name, run_store.compute_keys(read_mapping(plan), root)) for plan in plans]
    for name, keys in keys_by_name:
        write_json(root / run_store.KEYS / name, keys)
    return sum(len(keys) for _, keys in keys_by_name)


def main(argv: list[str]) -> int:
    """Run the stage `keys`."""
    argparse.ArgumentParser(prog="python -m compclip.runs.keys", description=__doc__.splitlines()[0]).parse_args(argv)
    print(f"{write_keys(Path('.'))} cells")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
