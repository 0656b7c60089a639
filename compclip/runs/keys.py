"""The stage `keys`: the run key of every cell, keys/<method>.json: `compclip stage keys`.

A method's training depends on its keys alone: they stand for parameters, code, data and backbone together. Finished
runs of an older kind of key are entered under the new one here (`key_parts.take_over`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base import links
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping, understand, write_json
from compclip.base.messages import format_count
from compclip.config import tuning
from compclip.runs import key_parts, run_store


def write_keys(root: Path) -> int:
    """Write the run keys of the plan and return their number. Raises UserError where there is no plan."""
    plans = sorted((root / run_store.PLAN).glob("*.json"))
    if not plans:
        raise UserError(f"{root / run_store.PLAN}: no plan; run `compclip repro plan` first")
    for path in (root / run_store.KEYS).glob("*.json"):
        if path.name not in {plan.name for plan in plans}:
            links.remove(path)
    path = root / run_store.TUNE_PLAN
    tune = read_mapping(path) if path.is_file() else {"studies": {}}
    keys_by_name = {}
    for plan in plans:
        with understand(path, "run `compclip repro plan` again"):
            chosen = read_chosen(plan.stem, tune["studies"].get(plan.stem, {}), root)
        with understand(plan, "run `compclip repro plan` again"):
            keys_by_name[plan.name] = run_store.compute_keys(read_mapping(plan), root, chosen)
    for name, keys in keys_by_name.items():
        write_json(root / run_store.KEYS / name, keys)
    return sum(map(len, keys_by_name.values()))


def read_chosen(method: str, requests: Mapping[str, Any], root: Path) -> dict[str, tuning.Values]:
    """Read the values that `tune` chose for a method, by place. Raises UserError where it has not chosen yet."""
    document = tuning.read_document(method, root) if requests else {}
    for place, request in requests.items():
        if place not in document or document[place]["request"] != request:
            path = root / tuning.TUNED / f"{method}.json"
            raise UserError(f"{path}: has no values of {place} for the present `tune`; run `compclip repro tune`")
    return {place: document[place]["values"] for place in requests}


def main(argv: list[str]) -> int:
    """Run the stage `keys`."""
    CommandParser(prog="compclip stage keys", description=__doc__.splitlines()[0], example="").parse_args(argv)
    root = Path(".")
    count = write_keys(root)
    key_parts.take_over((run for run in run_store.list_planned(root) if not run.adopt_if_finished()), root)
    print(format_count(count, "cell"))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
