"""Say why a cell would be trained again: `compclip runs why CELL`.

    compclip runs why fsc_clip-scenes-scenes-0                what its key has that the nearest finished run had not
    compclip runs why fsc_clip-scenes-scenes-0 train.lr=1e-5  the same with another value
    compclip runs why fsc_clip-scenes-scenes-0 --json

Compared are the finished runs of the store: first those that were made for this cell, then others of its method. Each
line is one difference, old value -> new one. An `option` is newer than the run and at its default; an `input` is a file
that the method reads beside data and backbone.
"""

# A run records what its key was made of (code.json) when it is trained. So it can be compared with a cell of now, and
# taken over where its code gives the numbers of now.

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from compclip.base import links, messages, yaml_text
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_mapping, temporary_path, write_atomic, write_json, write_sealed
from compclip.config import grid, read, training_code
from compclip.config.grid import Run
from compclip.config.validation import load_section
from compclip.interface.method import load_method
from compclip.runs import jobs, run_store, run_table
from compclip.runs.run_folder import Inputs, RunFolder, Trained
from compclip.runs.run_store import Fingerprints, StoredRun

NOT_THERE = "not there"
HASH_DIGITS = 12  # that are shown
PARAMETER = "parameter"
OPTION = "option"


@dataclass(frozen=True)
class KeyParts:
    """Fingerprints of the data, of the backbone and of all that was read; each module's hash by its name.

    `code` is what the key has of the modules, `columns` are the hashes behind `data`; runs of before 1.0.0 lack both.
    `towers` says how towers are trained where that changed once (compclip/runs/tower_versions.py).
    """

    data: str
    backbone: str
    inputs: str
    modules: Mapping[str, str]
    code: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    towers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedRun:
    """A finished run of the store: config.yaml as it is, environment.json, and code.json."""

    folder: RunFolder
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    key_parts: KeyParts

    @property
    def method_name(self) -> str:
        """The name of its method's module."""
        return str(self.config["cell"]["method"]).partition(".")[0]

    @property
    def finished_at(self) -> float:
        """When it was finished, in seconds since the epoch."""
        return self.folder.final.environment.stat().st_mtime

    @property
    def current_code(self) -> str:
        """Its code by the names of now, which may have another one for the same numbers."""
        if self.key_parts.code == training_code.hash_training_code(self.method_name):
            return self.key_parts.code
        return training_code.name_code(self.method_name, self.key_parts.modules)

    def complete_config(self) -> Mapping[str, Any]:
        """Return its parameters with newer options at their defaults; as they are where an option is gone."""
        try:
            return grid.parse_run(self.config, str(self.folder.final.config)).plain
        except UserError:
            return self.config


def describe_key(run: Run, root: Path) -> KeyParts:
    """Return what a run's key is made of now, parameters aside. Raises UserError for inputs that are not there."""
    fingerprints = run_store.hash_run_inputs(run, root)
    backbone = run_store.hash_backbone(Inputs(root, run.cell))
    modules = training_code.hash_training_modules(run.method_name)
    code = training_code.hash_training_code(run.method_name)
    return KeyParts(
        fingerprints.data, backbone, fingerprints.all, modules, code, fingerprints.columns, fingerprints.towers
    )


def write_parts(folder: RunFolder, key: KeyParts) -> None:
    """Write code.json."""
    write_json(folder.code, asdict(key))


def list_recorded(root: Path, methods: Collection[str]) -> Iterator[RecordedRun]:
    """Yield the finished runs of methods' modules, variants included; what cannot be read is left out."""
    for folder in run_table.list_folders(root) if methods else ():
        with contextlib.suppress(UserError):  # somebody else's, or damaged: `compclip runs` says so
            folder.check()
            cell = run_table.read_cell(folder.final.config) if folder.finished else {}
            if str(cell.get("method", "")).partition(".")[0] in methods:
                config = yaml_text.read_yaml(folder.final.config, "must be a mapping of sections")
                plain_config = yaml_text.to_plain(config, str(folder.final.config))
                key_parts = load_section(KeyParts, read_mapping(folder.code), str(folder.code))
                yield RecordedRun(folder, plain_config, folder.final.facts(), key_parts)


# Take finished runs over whose key was another one, although their code gives the numbers of now.
#
# A run records which modules it was trained by (code.json). They are looked up in the shipped `numbers.json`, which
# also names those of an edit that was shown to give the numbers of now since. Files are shared, and nothing is trained
# or compared. The entry is complete or not there: `final` gets its name in one go.


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
    """Return the newest run that has the key of a cell, which reads `inputs`; None where there is none."""
    newest = None
    for run in runs:
        if run.method_name != cell_run.run.method_name or run.folder.key == cell_run.key:
            continue
        # the key that it would have now: newer options count at their defaults, and what is gone since as it was
        recorded = run.key_parts.inputs
        read_then = inputs.all if recorded in inputs.former else recorded
        trains = load_method(run.method_name).TRAINS
        key = run_store.compute_key(run.complete_config(), trains, read_then, run.current_code)
        if key == cell_run.key and (newest is None or run.finished_at > newest.finished_at):
            newest = run
    return newest


def enter_run(source: RecordedRun, cell_run: StoredRun, inputs: Fingerprints) -> None:
    """Make `source` the finished run of a cell's key, results included.

    Raises UserError where somebody works on that key, or the store cannot be written.
    """
    folder = cell_run.folder
    with jobs.hold_idle(folder):
        key_parts = replace(
            source.key_parts, data=inputs.data, columns=inputs.columns, inputs=inputs.all, towers=inputs.towers
        )
        write_parts(folder, key_parts)
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
        write_sealed(staging.environment, {**source.facts, "run_key": cell_run.key, "carried": origin})
        links.remove(target.path)  # unfinished: the key has no finished run
        os.replace(staging.path, target.path)
    finally:
        links.remove(staging.path)


# Why a cell has no finished run: how the nearest one differs.


@dataclass(frozen=True)
class Difference:
    """One difference between a finished run and what a cell's key is made of now; hashes are cut."""

    kind: str  # parameter, option, data, column, backbone, towers, input or code
    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Comparison:
    """A finished run, and how it differs from what a cell's key is made of now."""

    run: RecordedRun
    differences: Sequence[Difference]

    @property
    def distance(self) -> int:
        """How many parameters differ, and kinds of other things; newer options need not change a number."""
        differing = {d.name if d.kind == PARAMETER else d.kind for d in self.differences}
        return len(differing - {OPTION})


def find_nearest(cell_run: StoredRun) -> Comparison | None:
    """Compare a cell with the nearest finished run; None where there is none of its method."""
    current = describe_key(cell_run.run, cell_run.root)
    recorded = list_recorded(cell_run.root, {cell_run.run.method_name})
    runs = [run for run in recorded if run.folder.key != cell_run.key]
    same_cell = [run for run in runs if run_table.cell_name(run.folder) == cell_run.name]
    comparisons = [compare(run, cell_run, current) for run in same_cell or runs]
    return min(comparisons, key=lambda nearest: (nearest.distance, -nearest.run.finished_at), default=None)


def compare(run: RecordedRun, cell_run: StoredRun, current: KeyParts) -> Comparison:
    """Compare a finished run with a cell, whose key is made of `current`."""
    recorded = run.key_parts
    cell = cell_run.cell
    differences = [
        *_compare_hashes("data", {cell.data: recorded.data}, {cell.data: current.data}),
        *_compare_hashes("backbone", {cell.backbone: recorded.backbone}, {cell.backbone: current.backbone}),
        *_compare_values("towers", recorded.towers, current.towers),
    ]
    if not differences:
        differences += _compare_hashes("input", {"beside them": recorded.inputs}, {"beside them": current.inputs})
    differences += _compare_hashes("column", recorded.columns, current.columns)
    if run.current_code != current.code:
        differences += _compare_hashes("code", recorded.modules, current.modules)
    return Comparison(run, [*_compare_parameters(run, cell_run), *differences])


def _compare_hashes(kind: str, recorded: Mapping[str, str], current: Mapping[str, str]) -> Iterator[Difference]:
    for difference in _compare_values(kind, recorded, current):
        yield replace(difference, old=difference.old[:HASH_DIGITS], new=difference.new[:HASH_DIGITS])


def _compare_values(kind: str, recorded: Mapping[str, str], current: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({**recorded, **current}):
        old = recorded.get(name, NOT_THERE)
        new = current.get(name, NOT_THERE)
        if old != new:
            yield Difference(kind, name, old, new)


def _compare_parameters(run: RecordedRun, cell_run: StoredRun) -> Iterator[Difference]:
    trains = load_method(cell_run.run.method_name).TRAINS
    recorded = yaml_text.flatten(run_store.select_parameters(run.config, trains))
    completed = yaml_text.flatten(run_store.select_parameters(run.complete_config(), trains))
    current = yaml_text.flatten(run_store.select_parameters(cell_run.resolved, trains))
    for name in {**recorded, **current}:
        old = recorded.get(name, NOT_THERE)
        new = current.get(name, NOT_THERE)
        if completed.get(name, old) != new:
            yield Difference(PARAMETER, name, old, new)
        elif name not in recorded and new:
            yield Difference(OPTION, name, old, new)


def describe(cell_run: StoredRun, nearest: Comparison | None) -> dict[str, Any]:
    """Return the answer as plain values, for --json."""
    answer: dict[str, Any] = {"cell": cell_run.name, "run_key": cell_run.key, "nearest": None}
    answer["finished"] = cell_run.adopt_if_finished()
    if nearest:
        answer["nearest"] = nearest.run.folder.key
        answer["differences"] = [asdict(difference) for difference in nearest.differences]
        answer["device_seconds"] = nearest.run.facts.get("device_seconds")
    return answer


def format_answer(cell_run: StoredRun, nearest: Comparison | None) -> str:
    """Format the answer as lines for a person."""
    if cell_run.adopt_if_finished():
        origin = run_table.describe_origin(cell_run.folder.final)
        return f"{cell_run.name}: up to date, run {cell_run.key}" + (f", {origin}" if origin else "")
    lines = [f"{cell_run.name}: no finished run has its key, {cell_run.key}"]
    if nearest is None:
        store = run_store.store_folder(cell_run.root)
        return f"{lines[0]}\nnor is there any other run of {cell_run.run.method_name} in {store}"
    folder = nearest.run.folder
    lines.append(f"nearest: {folder.key}, made for {run_table.cell_name(folder)}")
    lines += [f"  {d.kind:<9}  {d.name}: {d.old} -> {d.new}" for d in nearest.differences]
    seconds = float(nearest.run.facts.get("device_seconds") or 0.0)
    lines.append(f"its training took {seconds:.0f} s of a device; another one costs about that")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Run the command `why`."""
    parser = CommandParser(prog="compclip runs why", description=__doc__, example="fsc_clip-scenes-scenes-0")
    parser.add_argument("cell", help="method-backbone-data-seed of the grid")
    parser.add_grid("parameters to override")
    parser.add_json("print the answer as JSON")
    args = parser.parse_args(argv)
    run = grid.resolve(read.load_params(args.params, args.overrides), args.cell)
    cell_run = run_store.locate_run(run, Path("."))
    nearest = None if cell_run.adopt_if_finished() else find_nearest(cell_run)
    print(json.dumps(describe(cell_run, nearest), indent=1) if args.json else format_answer(cell_run, nearest))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
