"""Say why a cell would be trained again: `compclip why CELL`.

    compclip why fsc_clip-scenes-scenes-0                what its key has in it that the nearest finished run had not
    compclip why fsc_clip-scenes-scenes-0 train.lr=1e-5  the same with another value
    compclip why fsc_clip-scenes-scenes-0 --json

Compared are the finished runs of the store: first those that were made for this cell, then others of its method.
Runs that were trained before code.json was written do not say which files their code had.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.config import grid, read
from compclip.config.grid import parse_cell
from compclip.interface.method import load_method
from compclip.runs import key_parts, run_store
from compclip.runs.key_parts import KeyParts, ModuleChanges, RecordedRun
from compclip.runs.run_store import StoredRun

ABSENT = "not there"


@dataclass(frozen=True)
class Cause:
    """How a finished run differs from what a cell's key is made of now; None: not recorded.

    `parameters`: old and new value by dotted name. `new_options`: those that did not exist then, now at their defaults;
    the key has them, and numbers need not differ. `other_inputs`: files beside data and backbone that are read.
    """

    run: RecordedRun
    parameters: Mapping[str, tuple[Any, Any]]
    new_options: Sequence[str]
    data: tuple[str, str] | None
    backbone: tuple[str, str] | None
    other_inputs: bool
    modules: ModuleChanges | None

    @property
    def count(self) -> int:
        """How many things differ, for finding the nearest run."""
        inputs = [pair for pair in (self.data, self.backbone) if pair and pair[0] != pair[1]]
        return len(self.parameters) + len(inputs) + self.other_inputs + (self.modules is None or bool(self.modules))


def find_cause(cell_run: StoredRun) -> Cause | None:
    """Compare a cell with the nearest finished run; None where there is none of its method."""
    current = key_parts.describe_key(cell_run.run, cell_run.root)
    recorded = key_parts.list_recorded(cell_run.root, cell_run.run.method_name)
    runs = [run for run in recorded if run.folder.key != cell_run.key]
    same_cell = [run for run in runs if _cell_name(run) == cell_run.name]
    causes = [_compare(run, cell_run, current) for run in same_cell or runs]
    return min(causes, key=lambda cause: (cause.count, -cause.run.finished_at), default=None)


def _cell_name(run: RecordedRun) -> str:
    try:
        return parse_cell(run.config.get("cell"), f"{run.folder.path}: cell").name
    except UserError:
        return ""


def _compare(run: RecordedRun, cell_run: StoredRun, current: KeyParts) -> Cause:
    trains = load_method(cell_run.run.method_name).TRAINS
    recorded_values = key_parts.flatten(run_store.select_parameters(run.config, trains))
    old = recorded_values | _complete(run, trains)
    new = key_parts.flatten(run_store.select_parameters(cell_run.resolved, trains))
    names = [name for name in {**old, **new} if old.get(name, ABSENT) != new.get(name, ABSENT)]
    parameters = {name: (recorded_values.get(name, ABSENT), new.get(name, ABSENT)) for name in names}
    new_options = [name for name in new if new[name] and name not in recorded_values and name not in parameters]
    recorded, data = run.key_parts, str(run.facts.get("data_fingerprint") or "")
    if recorded is None:
        return Cause(run, parameters, new_options, (data, current.data) if data else None, None, False, None)
    same_named = (recorded.data, recorded.backbone) == (current.data, current.backbone)
    return Cause(
        run,
        parameters,
        new_options,
        (recorded.data, current.data),
        (recorded.backbone, current.backbone),
        same_named and recorded.inputs != current.inputs,
        key_parts.compare_modules(cell_run.run.method_name, recorded, current),
    )


def _complete(run: RecordedRun, trains: bool) -> dict[str, Any]:
    try:
        return key_parts.flatten(run_store.select_parameters(run.complete_config(), trains))
    except UserError:  # a parameter that is gone: every difference is named
        return {}


def describe(cell_run: StoredRun, cause: Cause | None) -> dict[str, Any]:
    """Return the answer as plain values, for --json."""
    answer: dict[str, Any] = {"cell": cell_run.name, "run_key": cell_run.key, "finished": cell_run.finished}
    if cause is None:
        return answer | {"nearest": None}
    changes = cause.modules
    return answer | {
        "nearest": cause.run.folder.key,
        "parameters": {name: list(values) for name, values in cause.parameters.items()},
        "new_options": list(cause.new_options),
        "data": cause.data and list(cause.data),
        "backbone": cause.backbone and list(cause.backbone),
        "other_inputs": cause.other_inputs,
        "modules": None if changes is None else asdict(changes),
        "device_seconds": cause.run.device_seconds,
    }


def format_answer(cell_run: StoredRun, cause: Cause | None) -> str:
    """Format the answer as lines for a person."""
    if cell_run.finished:
        return f"{cell_run.name}: up to date, run {cell_run.key}{_format_origin(cell_run)}"
    head = f"{cell_run.name}: no finished run has its key, {cell_run.key}"
    if cause is None:
        store = run_store.store_folder(cell_run.root)
        return f"{head}\nnor is there any other run of {cell_run.run.method_name} in {store}"
    cell = cell_run.cell
    lines = [head, f"nearest: {cause.run.folder.key}, made for {_cell_name(cause.run) or 'a cell of another layout'}"]
    lines += [f"  parameter  {name}: {old} -> {new}" for name, (old, new) in cause.parameters.items()]
    lines += [f"  option     {name}: new since then, at its default" for name in cause.new_options]
    lines += _format_input("data", cell.data, cause.data) + _format_input("backbone", cell.backbone, cause.backbone)
    if cause.other_inputs:
        lines.append("  input      a file that the method reads beside them (neighbours, or its own)")
    lines += _format_modules(cause.modules)
    lines.append(f"its training took {cause.run.device_seconds:.0f} s of a device; another one costs about that")
    return "\n".join(lines)


def _format_origin(cell_run: StoredRun) -> str:
    carried = cell_run.folder.final.facts().get("carried")
    return f", taken over from {carried['from']}" if carried else ""


def _format_input(kind: str, name: str, pair: tuple[str, str] | None) -> list[str]:
    if pair is None:
        return [f"  {kind:<9}  {name}: its fingerprint was not recorded"]
    return [f"  {kind:<9}  {name}: {pair[0][:12]} -> {pair[1][:12]}"] if pair[0] != pair[1] else []


def _format_modules(changes: ModuleChanges | None) -> list[str]:
    if changes is None:
        return ["  code       differs, or may: files not recorded"]
    words = {"changed": changes.changed, "new": changes.added, "gone": changes.removed}
    return [f"  code       {name}: {word}" for word, names in words.items() for name in names]


def main(argv: Sequence[str]) -> int:
    """Run the command `why`."""
    parser = CommandParser(
        prog="compclip why", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cell", help="method-backbone-data-seed of the grid")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="parameters to override")
    parser.add_argument("--params", default=read.DEFAULT, help="the file that holds the grid")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    args = parser.parse_args(argv)
    run = grid.resolve(read.load_params(args.params, args.overrides), args.cell)
    cell_run = run_store.locate_run(run, Path("."))
    cause = None if cell_run.finished else find_cause(cell_run)
    print(json.dumps(describe(cell_run, cause), indent=1) if args.json else format_answer(cell_run, cause))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
