"""Say why a cell would be trained again: `compclip runs why CELL`.

    compclip runs why fsc_clip-scenes-scenes-0                what its key has that the nearest finished run had not
    compclip runs why fsc_clip-scenes-scenes-0 train.lr=1e-5  the same with another value
    compclip runs why fsc_clip-scenes-scenes-0 --json

Compared are the finished runs of the store: first those that were made for this cell, then others of its method.
Runs that were trained before code.json was written do not say which files their code had.
"""

# A run records what its key was made of (code.json) when it is trained. So it can be compared with a cell of now, and
# taken over where its code gives the numbers of now.

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from compclip.base import links, messages, yaml_text
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping, temporary_path, write_atomic, write_json
from compclip.config import grid, read, training_code
from compclip.config.grid import Run, parse_cell
from compclip.interface.method import load_method
from compclip.runs import jobs, run_store, run_table
from compclip.runs.run_folder import Inputs, RunFolder, Trained
from compclip.runs.run_store import Fingerprints, StoredRun

# The modules that differ between two runs' code, by what became of them: changed, added, removed.
ModuleChanges: TypeAlias = Mapping[str, list[str]]


@dataclass(frozen=True)
class KeyParts:
    """Fingerprints of the data, of the backbone and of all that was read; each module's hash by its name.

    `code` is what the key has of the modules; empty of runs that are older than versions of numbers. `columns` are the
    hashes behind `data`; empty of runs that are older than hashes of columns, whose `data` is the whole manifest's.
    """

    data: str
    backbone: str
    inputs: str
    modules: Mapping[str, str]
    code: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedRun:
    """A finished run of the store: config.yaml as it is, environment.json, and code.json, which older ones lack."""

    folder: RunFolder
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    key_parts: KeyParts | None

    @property
    def method_name(self) -> str:
        """The name of its method's module."""
        return str(self.config["cell"]["method"]).partition(".")[0]

    @property
    def device_seconds(self) -> float:
        """Seconds times devices that its training took."""
        return float(self.facts.get("device_seconds") or 0.0)

    def complete_config(self) -> Mapping[str, Any]:
        """Return its parameters with options that are new since then at their defaults.

        Raises UserError for a parameter that is gone.
        """
        return grid.parse_run(self.config, str(self.folder.final.config)).plain

    @property
    def finished_at(self) -> float:
        """When it was finished, in seconds since the epoch."""
        return self.folder.final.environment.stat().st_mtime


def describe_key(run: Run, root: Path) -> KeyParts:
    """Return what a run's key is made of now, parameters aside. Raises UserError for inputs that are not there."""
    fingerprints = run_store.hash_run_inputs(run, root)
    backbone = run_store.hash_backbone(Inputs(root, run.cell))
    method = run.method_name
    modules = training_code.hash_training_modules(method)
    code = training_code.hash_training_code(method)
    return KeyParts(fingerprints.data, backbone, fingerprints.all, modules, code, fingerprints.columns)


def renew_parts(parts: KeyParts, inputs: Fingerprints) -> KeyParts:
    """Return what a run's key was made of, by the columns of now where it was recorded by former ones.

    Such a key has where pictures lie, or the whole manifest. Where that is the present one, so are the pictures;
    `inputs` are those of a run of the same method and parameters now.
    """
    for former in inputs.former:
        if parts.data == former.data:
            parts = replace(parts, data=inputs.data, columns=inputs.columns)
        if parts.inputs == former.all:
            parts = replace(parts, inputs=inputs.all)
    return parts


def write_parts(folder: RunFolder, key: KeyParts) -> None:
    """Write code.json."""
    write_json(folder.code, asdict(key))


def read_parts(folder: RunFolder) -> KeyParts | None:
    """Read code.json; None where the run is older than that file. Raises UserError for a damaged one."""
    if not folder.code.is_file():
        return None
    try:
        return KeyParts(**read_mapping(folder.code))
    except TypeError as error:
        raise UserError(f"{folder.code}: damaged ({error}); remove the file") from error


def compare_modules(method: str, recorded: KeyParts, current: KeyParts) -> ModuleChanges:
    """Return which modules differ, sorted by name; none where both have the same version of the numbers."""
    old = recorded.modules
    new = current.modules
    if current.code == (recorded.code or training_code.name_code(method, old)):
        return {"changed": [], "added": [], "removed": []}
    changed = [name for name in old.keys() & new.keys() if old[name] != new[name]]
    return {
        "changed": sorted(changed),
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
    }


def list_recorded(root: Path, methods: Collection[str]) -> Iterator[RecordedRun]:
    """Yield the finished runs of methods' modules, variants included; what cannot be read is left out."""
    for folder in run_table.list_folders(root) if methods else ():
        try:
            folder.check()
            cell = run_table.read_cell(folder.final.config) if folder.finished else {}
            if str(cell.get("method", "")).partition(".")[0] not in methods:
                continue
            config = yaml_text.to_plain(
                yaml_text.read_yaml(folder.final.config, "must be a mapping of sections"), str(folder.final.config)
            )
            yield RecordedRun(folder, config, folder.final.facts(), read_parts(folder))
        except UserError:  # somebody else's, or damaged: `compclip runs` says so
            continue


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys; tuples become lists, as files have them."""
    if isinstance(value, Mapping) and value:
        items = [flatten(inner, f"{prefix}.{key}" if prefix else str(key)) for key, inner in value.items()]
        return {key: inner for item in items for key, inner in item.items()}
    return {prefix: list(value) if isinstance(value, tuple) else value} if prefix else {}


# Take finished runs over whose key was another one, although their code gives the numbers of now.
#
# A run records which modules it was trained by (code.json). They are looked up in the shipped `numbers.json`: those
# of a run from before there were versions, and those of an edit that has been shown to give the numbers of now since.
# Files are shared, and nothing is trained or compared. The entry is complete or not there: `final` gets its name in
# one go.


def take_over(cell_runs: Iterable[StoredRun], root: Path) -> None:
    """Enter older runs under the keys of unfinished ones, publish those that were, and note it line by line.

    What cannot be entered is noted too: it is trained, or somebody trains it already. The store is read once.
    """
    cell_runs = list(cell_runs)
    recorded = list(list_recorded(root, {cell_run.run.method_name for cell_run in cell_runs}))
    for cell_run in cell_runs:
        inputs = run_store.hash_run_inputs(cell_run.run, root)
        source = find_older(cell_run, recorded, inputs)
        if source is None:
            continue
        try:
            if not cell_run.folder.finished:  # as another cell's run of this key
                enter_run(source, cell_run, inputs)
            if cell_run.published.trained.run_key == source.folder.key:
                cell_run.publish()
        except UserError as error:
            messages.note(str(error))
        else:
            messages.note(f"taken over: {cell_run.name} from {source.folder.key} to {cell_run.key}: equal numbers")


def find_older(cell_run: StoredRun, runs: Iterable[RecordedRun], inputs: Fingerprints) -> RecordedRun | None:
    """Return the newest run that has a cell's key by the names of now, None where there is none.

    `inputs` are the cell's.
    """
    others = [run for run in runs if run.method_name == cell_run.run.method_name and run.folder.key != cell_run.key]
    equal_runs = [run for run in others if compute_current_key(run, inputs) == cell_run.key]
    return max(equal_runs, key=lambda run: run.finished_at, default=None)


def compute_current_key(run: RecordedRun, inputs: Fingerprints) -> str:
    """Return the key that a finished run would have now; empty where its code was not recorded.

    Options that are newer than the run count at their defaults, and what is gone since as it was.
    """
    if run.key_parts is None:
        return ""
    code = run.key_parts.code
    if code != training_code.hash_training_code(run.method_name):  # by another name, perhaps of the same numbers
        code = training_code.name_code(run.method_name, run.key_parts.modules)
    try:
        config = run.complete_config()
    except UserError:
        config = run.config
    parts = renew_parts(run.key_parts, inputs)
    return run_store.compute_key(config, load_method(run.method_name).TRAINS, parts.inputs, code)


def enter_run(source: RecordedRun, cell_run: StoredRun, inputs: Fingerprints) -> None:
    """Make `source` the finished run of a cell's key, results included; `inputs` are the cell's.

    Raises UserError where somebody works on that key, or the store cannot be written.
    """
    folder = cell_run.folder
    with jobs.hold_idle(folder):
        if source.key_parts:
            write_parts(folder, renew_parts(source.key_parts, inputs))
        _enter_final(source, cell_run)
        for path in (folder.metrics, *folder.checkpoints()):  # of a training that is not needed any more
            path.unlink(missing_ok=True)
        for scores in sorted(source.folder.scores("").glob("[!.]*")):
            links.link_or_copy(scores, folder.scores(scores.name))


def _enter_final(source: RecordedRun, cell_run: StoredRun) -> None:
    old = source.folder.final
    target = cell_run.folder.final
    staging = Trained(temporary_path(target.path, "new"))
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    origin: dict[str, Any] = {"from": source.folder.key, "date": date}
    try:
        links.link_or_copy(old.checkpoint, staging.checkpoint)
        links.link_or_copy(old.metrics, staging.metrics)
        write_atomic(staging.config, cell_run.config_text())
        write_json(staging.environment, {**source.facts, "run_key": cell_run.key, "carried": origin})
        links.remove(target.path)  # unfinished: the key has no finished run
        os.replace(staging.path, target.path)
    finally:
        links.remove(staging.path)


NOT_THERE = "not there"


@dataclass(frozen=True)
class Cause:
    """How a finished run differs from what a cell's key is made of now; None: not recorded.

    `parameters`: old and new value by dotted name. `new_options`: those that did not exist then, now at their defaults;
    the key has them, and numbers need not differ. `columns`: those of the data that differ, where they were recorded.
    `other_inputs`: files beside data and backbone that are read.
    """

    run: RecordedRun
    parameters: Mapping[str, tuple[Any, Any]]
    new_options: Sequence[str]
    data: tuple[str, str] | None
    columns: Sequence[str]
    backbone: tuple[str, str] | None
    other_inputs: bool
    modules: ModuleChanges | None

    @property
    def count(self) -> int:
        """How many things differ, for finding the nearest run."""
        inputs = [pair for pair in (self.data, self.backbone) if pair and pair[0] != pair[1]]
        other_code = self.modules is None or any(self.modules.values())
        return len(self.parameters) + len(inputs) + self.other_inputs + other_code


def find_cause(cell_run: StoredRun) -> Cause | None:
    """Compare a cell with the nearest finished run; None where there is none of its method."""
    current = describe_key(cell_run.run, cell_run.root)
    inputs = run_store.hash_run_inputs(cell_run.run, cell_run.root)
    recorded = list_recorded(cell_run.root, {cell_run.run.method_name})
    runs = [run for run in recorded if run.folder.key != cell_run.key]
    same_cell = [run for run in runs if _cell_name(run) == cell_run.name]
    causes = [_compare(run, cell_run, current, inputs) for run in same_cell or runs]
    return min(causes, key=lambda cause: (cause.count, -cause.run.finished_at), default=None)


def _cell_name(run: RecordedRun) -> str:
    try:
        return parse_cell(run.config.get("cell"), f"{run.folder.path}: cell").name
    except UserError:
        return ""


def _compare(run: RecordedRun, cell_run: StoredRun, current: KeyParts, inputs: Fingerprints) -> Cause:
    trains = load_method(cell_run.run.method_name).TRAINS
    recorded_values = flatten(run_store.select_parameters(run.config, trains))
    old = recorded_values | _complete(run, trains)
    new = flatten(run_store.select_parameters(cell_run.resolved, trains))
    names = [name for name in {**old, **new} if old.get(name, NOT_THERE) != new.get(name, NOT_THERE)]
    parameters = {name: (recorded_values.get(name, NOT_THERE), new.get(name, NOT_THERE)) for name in names}
    new_options = [name for name in new if new[name] and name not in recorded_values and name not in parameters]
    if run.key_parts is None:
        return Cause(run, parameters, new_options, None, [], None, False, None)
    recorded = renew_parts(run.key_parts, inputs)
    columns = sorted(dict(recorded.columns.items() ^ current.columns.items())) if recorded.columns else []
    same_named = (recorded.data, recorded.backbone) == (current.data, current.backbone)
    return Cause(
        run,
        parameters,
        new_options,
        (recorded.data, current.data),
        columns,
        (recorded.backbone, current.backbone),
        same_named and recorded.inputs != current.inputs,
        compare_modules(cell_run.run.method_name, recorded, current),
    )


def _complete(run: RecordedRun, trains: bool) -> dict[str, Any]:
    try:
        return flatten(run_store.select_parameters(run.complete_config(), trains))
    except UserError:  # a parameter that is gone: every difference is named
        return {}


def describe(cell_run: StoredRun, cause: Cause | None) -> dict[str, Any]:
    """Return the answer as plain values, for --json."""
    answer: dict[str, Any] = {"cell": cell_run.name, "run_key": cell_run.key, "finished": cell_run.adopt_if_finished()}
    if cause is None:
        return answer | {"nearest": None}
    return answer | {
        "nearest": cause.run.folder.key,
        "parameters": {name: list(values) for name, values in cause.parameters.items()},
        "new_options": list(cause.new_options),
        "data": cause.data and list(cause.data),
        "columns": list(cause.columns),
        "backbone": cause.backbone and list(cause.backbone),
        "other_inputs": cause.other_inputs,
        "modules": cause.modules,
        "device_seconds": cause.run.device_seconds,
    }


def format_answer(cell_run: StoredRun, cause: Cause | None) -> str:
    """Format the answer as lines for a person."""
    if cell_run.adopt_if_finished():
        return f"{cell_run.name}: up to date, run {cell_run.key}{_format_origin(cell_run)}"
    head = f"{cell_run.name}: no finished run has its key, {cell_run.key}"
    if cause is None:
        store = run_store.store_folder(cell_run.root)
        return f"{head}\nnor is there any other run of {cell_run.run.method_name} in {store}"
    cell = cell_run.cell
    lines = [head, f"nearest: {cause.run.folder.key}, made for {_cell_name(cause.run) or 'a cell of another layout'}"]
    lines += [f"  parameter  {name}: {old} -> {new}" for name, (old, new) in cause.parameters.items()]
    lines += [f"  option     {name}: new since then, at its default" for name in cause.new_options]
    lines += _format_input("data", cell.data, cause.data)
    lines += [f"  column     {name}: other values" for name in cause.columns]
    lines += _format_input("backbone", cell.backbone, cause.backbone)
    if cause.other_inputs:
        lines.append("  input      a file that the method reads beside them (neighbours, or its own)")
    lines += _format_modules(cause.modules)
    lines.append(f"its training took {cause.run.device_seconds:.0f} s of a device; another one costs about that")
    return "\n".join(lines)


def _format_origin(cell_run: StoredRun) -> str:
    origin = run_table.describe_origin(cell_run.folder.final)
    return f", {origin}" if origin else ""


def _format_input(kind: str, name: str, pair: tuple[str, str] | None) -> list[str]:
    if pair is None:
        return [f"  {kind:<9}  {name}: its fingerprint was not recorded"]
    return [f"  {kind:<9}  {name}: {pair[0][:12]} -> {pair[1][:12]}"] if pair[0] != pair[1] else []


def _format_modules(changes: ModuleChanges | None) -> list[str]:
    if changes is None:
        return ["  code       differs, or may: files not recorded"]
    words = {"changed": "changed", "added": "new", "removed": "gone"}
    return [f"  code       {name}: {words[change]}" for change, names in changes.items() for name in names]


def main(argv: Sequence[str]) -> int:
    """Run the command `why`."""
    parser = CommandParser(prog="compclip runs why", description=__doc__, example="fsc_clip-scenes-scenes-0")
    parser.add_argument("cell", help="method-backbone-data-seed of the grid")
    parser.add_grid("parameters to override")
    parser.add_json("print the answer as JSON")
    args = parser.parse_args(argv)
    run = grid.resolve(read.load_params(args.params, args.overrides), args.cell)
    cell_run = run_store.locate_run(run, Path("."))
    cause = None if cell_run.adopt_if_finished() else find_cause(cell_run)
    print(json.dumps(describe(cell_run, cause), indent=1) if args.json else format_answer(cell_run, cause))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
