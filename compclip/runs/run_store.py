"""Where runs live: store/<run key>/, or a folder that a team shares, named by COMPCLIP_STORE.

What is finished there can be read only, since links in everybody's checkouts are the same files.

A cell of the grid, a trial of a sweep and a run of another checkout with equal keys are one run. What is finished is
published by links: runs/<method>/<backbone-data-seed>/.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compclip.base import links
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, hash_unchanged, read_mapping, understand, update, update_json, write_json
from compclip.base.safe_names import SafeName
from compclip.config.cell import Cell
from compclip.interface.views import PICTURE_COLUMNS
from compclip.model import run_weights
from compclip.runs import tower_versions
from compclip.runs.run_folder import Inputs, Published, RunFolder, Trained, read_neighbours_record

if TYPE_CHECKING:
    from compclip.config.grid import Run

VARIABLE = "COMPCLIP_STORE"
PLAN = Path("plan/train")
KEYS = Path("keys")
TRAINED = Path("trained")
TUNE_PLAN = Path("plan/tune/tune.json")
# What may differ between two runs that give the same bits.
RESOURCES = ("workers", "checkpoint_every_min", "checkpoint_every_steps", "snapshots", "choose", "validate")


@dataclass(frozen=True)
class StoredRun:
    """A cell, its run key, and the run's folder in the store of a project.

    `resolved`: as config.yaml has it.
    """

    cell: Cell
    key: str
    resolved: Mapping[str, Any]
    data_fingerprint: str
    folder: RunFolder
    root: Path

    @property
    def name(self) -> str:
        """The cell's."""
        return self.cell.name

    @property
    def threads(self) -> int:
        """Those that compute, and those that make batches, where their number is given."""
        return self.resolved["train"]["threads"] + (self.resolved["train"]["workers"] or 0)

    @property
    def published(self) -> Published:
        """The cell's files beside the store."""
        return Published(self.root, self.cell)

    @functools.cached_property
    def run(self) -> Run:
        """The run with its parameters as dataclasses."""
        from compclip.config import grid

        return grid.parse_run(self.resolved, str(self.published.trained.config))

    def adopt_if_finished(self) -> bool:
        """Return whether training is through; published files of this key are taken into a store that lacks them."""
        trained = self.published.trained
        if not self.folder.finished and trained.run_key == self.key and trained.checkpoint.is_dir():
            adopt_published(trained, self.folder)
        return self.folder.finished

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of the training at which the weights are kept as well."""
        return tuple(self.resolved["train"].get("snapshots", ()))

    def adopt_if_complete(self) -> bool:
        """Return whether training is through, as `adopt_if_finished`, and all snapshots are there."""
        return self.adopt_if_finished() and all(self.folder.snapshot(share).finished for share in self.shares)

    def config_text(self) -> str:
        """The cell's config.yaml."""
        from compclip.base.yaml_text import dump_yaml

        return dump_yaml(self.resolved)

    def publish(self) -> None:
        """Link the finished files to the cell's place; its config.yaml is the cell's own.

        Where a snapshot is to be chosen the last checkpoint is not published: the evaluation publishes the best one.
        Raises UserError where they cannot be written, or where not all of the run is its own.
        """
        self.folder.check()
        trained = self.published.trained
        final = self.folder.final
        if is_shared():
            links.protect(final.path)
        update(trained.config, self.config_text())
        left_out = trained.checkpoint if self.resolved["train"].get("choose") else None
        for stored_path, published_path in zip(final.published_files[1:], trained.published_files[1:], strict=True):
            if published_path == left_out:
                links.remove(published_path)
            else:
                links.link_or_copy(stored_path, published_path)
        if is_shared():
            project = str(self.root.resolve())
            note = self.folder.users / f"{hashlib.sha256(project.encode()).hexdigest()[:16]}.json"
            if not note.is_file():
                with contextlib.suppress(UserError):  # a store that can only be read
                    write_json(note, {"project": project})


def is_shared() -> bool:
    """Return whether the store may be that of several projects."""
    return bool(os.environ.get(VARIABLE))


def list_projects(folder: RunFolder) -> set[str]:
    """Return the roots of the projects that worked on the run or published it; "" for one that did not say."""
    projects = set()
    for path in (*folder.users.glob("*.json"), *folder.lives.glob("*.json")):
        try:
            projects.add(str(read_mapping(path)["project"]))
        except (UserError, KeyError):
            projects.add("")
    return projects


def store_folder(root: Path) -> Path:
    """Return the store of a project: the folder that COMPCLIP_STORE names, or its own."""
    configured = os.environ.get(VARIABLE)
    if configured and not Path(configured).is_absolute():
        raise UserError(
            f"{VARIABLE}={configured!r}: must be an absolute path, the same for everyone who shares the store"
        )
    return Path(configured) if configured else root / "store"


def find_folder(run_key: str, root: Path = Path(".")) -> RunFolder:
    """Return a run's folder by its key. Raises UserError for a text that is no key: files of others may have any."""
    return RunFolder(store_folder(root) / SafeName(run_key, "run key"))


def adopt_published(trained: Trained, into: RunFolder) -> None:
    """Take published files into the store, which does not have their run: a checkout may have pulled them."""
    into.make()
    for published_path, stored_path in zip(trained.published_files, into.final.published_files, strict=True):
        links.link_or_copy(published_path, stored_path)


def list_folders(root: Path = Path(".")) -> list[RunFolder]:
    """List every run of the store, sorted by key."""
    return [run for run in map(RunFolder, sorted(store_folder(root).glob("*"))) if os.path.lexists(run.lock)]


def compute_key(run: Mapping[str, Any], trains: bool, inputs: str, code: str) -> str:
    """Return the run key: 16 hex digits over a resolved run, as config.yaml has it, and hashes of inputs and code.

    Equal keys give equal bits, so that nothing is trained twice and nothing stale is served.
    """
    return _hash([_leave_out_off(select_parameters(run, trains)), inputs, code])


def hash_parameters(run: Mapping[str, Any], trains: bool) -> str:
    """Return a hash such that runs with different ones have different keys, whatever their data and code are."""
    return _hash(_leave_out_off(select_parameters(run, trains)))


def select_parameters(run: Mapping[str, Any], trains: bool) -> dict[str, Any]:
    """Return what a key takes from a resolved run; what is off is left out of the key itself.

    The names of backbone and data are no part of it: their contents are. Of a method that trains nothing, schedule and
    seed are none either, but for the context length, to which its text tower is cut.
    """
    method = run["cell"]["method"].partition(".")[0]
    parameters = {"method": method, "config": run["method"]}
    if trains:
        parameters["train"] = {name: value for name, value in run["train"].items() if name not in RESOURCES}
        parameters["seed"] = run["cell"]["seed"]
    elif run["train"].get("context_length"):
        parameters["context_length"] = run["train"]["context_length"]
    return parameters


def _leave_out_off(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that are off (null, false, 0, empty), those of inner mappings alike.

    A new option that is off by default changes no key.
    """
    left_in = {}
    for name, value in options.items():
        inner = _leave_out_off(value) if isinstance(value, Mapping) else value
        if inner:
            left_in[name] = inner
    return left_in


def _hash(value: Any) -> str:
    return _hash_text(json.dumps(value, sort_keys=True))[:16]


def locate_run(run: Run, root: Path = Path(".")) -> StoredRun:
    """Compute the key and the folder of any run, in the grid or not.

    Raises UserError for inputs that were not made yet.
    """
    from compclip.config.training_code import hash_training_code
    from compclip.interface.method import load_method

    fingerprints = hash_run_inputs(run, root)
    trains = load_method(run.method_name).TRAINS
    key = compute_key(run.plain, trains, fingerprints.all, hash_training_code(run.method_name))
    return StoredRun(run.cell, key, run.plain, fingerprints.data, find_folder(key, root), root)


def absent_plan(path: Path, stage: str, target: str, root: Path) -> UserError:
    """Return the error of a stage's file that is not there: who writes it, close names, whether this is a project."""
    close_names = get_close_matches(path.stem, [plan.stem for plan in path.parent.glob("*.json")])
    hint = f"; did you mean {' or '.join(map(repr, close_names))}?" if close_names else ""
    if not (root / "params.yaml").is_file():
        hint = "; there is no params.yaml here: run from a project's root, or begin one with `compclip init`"
    return UserError(f"{path}: not there; run `compclip repro {stage}` first, or `compclip repro {target}`{hint}")


def load_planned(method: SafeName, root: Path = Path(".")) -> list[StoredRun]:
    """Read the cells of a method as the stages `plan` and `keys` wrote them.

    Raises UserError where these did not run.
    """
    plan = root / PLAN / f"{method}.json"
    keys = root / KEYS / f"{method}.json"
    for path, stage in ((plan, "plan"), (keys, "keys")):
        if not path.is_file():
            raise absent_plan(path, stage, f"train@{method}", root)
    with understand(plan, "run `compclip repro plan` and `compclip repro keys` again"):
        return list(_read_planned(plan, keys, root))


def _read_planned(plan: Path, keys: Path, root: Path) -> Iterator[StoredRun]:
    """Yield the cells of a plan with their keys. Raises UserError where a cell has none."""
    keys_by_cell = read_mapping(keys)
    for name, run in read_mapping(plan)["cells"].items():
        keyed = keys_by_cell.get(name)
        if keyed is None:
            raise UserError(f"{keys}: has no key of {name}, which {plan} has; run `compclip repro keys`")
        if keyed.get("tuned"):
            from compclip.config import tuning  # loads all of the configuration, which most grids can do without

            run = tuning.apply_values(run, keyed["tuned"])
        folder = find_folder(keyed["key"], root)
        yield StoredRun(Cell(**run["cell"]), keyed["key"], run, keyed["data"], folder, root)


def unite_snapshots(runs: Iterable[StoredRun], further_runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Return runs that keep the snapshots of all runs with their keys: what differs in these alone is one training."""
    runs = list(runs)
    shares_by_key: dict[str, set[float]] = defaultdict(set)
    for run in (*runs, *further_runs):
        shares_by_key[run.key].update(run.shares)
    united = []
    for run in runs:
        train = {**run.resolved["train"], "snapshots": sorted(shares_by_key[run.key])}
        united.append(replace(run, resolved={**run.resolved, "train": train}))
    return united


def list_planned(root: Path = Path(".")) -> list[StoredRun]:
    """List the cells of all methods of the plan; those without keys are left to their own stages."""
    runs = []
    for path in sorted((root / PLAN).glob("*.json")):
        with contextlib.suppress(UserError):
            runs += load_planned(SafeName(path.stem, "method"), root)
    return runs


def write_trained(method: SafeName, cells: Iterable[StoredRun], root: Path = Path(".")) -> None:
    """Write trained/<method>.json, the fingerprint of what is published of each cell.

    The stages behind training depend on it: DVC would walk all runs again for each of them.
    """
    published = {run.name: run.published.trained for run in cells}
    fingerprints = {name: files.fingerprint for name, files in published.items() if files.environment.is_file()}
    update_json(root / TRAINED / f"{method}.json", fingerprints)


def compute_keys(
    plan: Mapping[str, Any], root: Path, chosen: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Compute each cell's run key and the fingerprint of its data from a method's plan.

    `chosen` are the values that `tune` found, by backbone and data; they are in the keys' file as `tuned`.
    """
    from compclip.config import tuning

    keys: dict[str, dict[str, Any]] = {}
    for name, planned in plan["cells"].items():
        values = (chosen or {}).get(tuning.place_name(Cell(**planned["cell"])), {})
        run = tuning.apply_values(planned, values)
        reads = plan.get("reads", {}).get(name, {})
        needs_neighbours = name in plan["near"]
        inputs = Inputs(root, Cell(**run["cell"]))
        train = run["train"] if plan["trains"] else None
        fingerprints = hash_inputs(inputs, plan["columns"][name], reads, needs_neighbours, train)
        key = compute_key(run, plan["trains"], fingerprints.all, plan["code"])
        keys[name] = {"key": key, "data": fingerprints.data}
        if values:
            keys[name]["tuned"] = dict(values)
        shares = run["train"].get("snapshots")
        if shares:  # no part of the key, and yet the stage is to make them
            keys[name] |= {"snapshots": shares, "chooses": bool(run["train"].get("choose"))}
    return keys


def hash_run_inputs(run: Run, root: Path) -> Fingerprints:
    """Hash what any run reads. Raises UserError as `hash_inputs`."""
    from compclip.config.grid import first_views
    from compclip.interface.method import list_columns, load_method

    method = load_method(run.method_name)
    needs_neighbours = first_views(run.method_name, run.method).neighbours > 0
    columns = list_columns(method, run.method)
    train = asdict(run.train) if method.TRAINS else None
    return hash_inputs(Inputs(root, run.cell), columns, method.reads(run.method), needs_neighbours, train)


def hash_backbone(inputs: Inputs) -> str:
    """Hash the files of a backbone alone. Raises UserError for one that is not what its stage wrote."""
    run_weights.check_files(inputs.backbone)
    return _fingerprint_current(sorted(inputs.backbone.iterdir()))


class Fingerprints(NamedTuple):
    """Of the columns of its data that a run reads, of these together, and of data and backbone together.

    `former`: the last one as the keys of earlier runs had it, with the pictures' places for their checksums, or before
    that with the whole manifest. Where these are the present ones, so are the pictures.
    """

    columns: dict[str, str]
    data: str
    all: str
    former: tuple[str, ...]
    towers: Mapping[str, str]


def hash_inputs(
    inputs: Inputs,
    columns: Iterable[str],
    reads: Mapping[str, str] | None = None,
    needs_neighbours: bool = False,
    train: Mapping[str, Any] | None = None,
) -> Fingerprints:
    """Hash what a run reads: columns of its data, its backbone, and `reads`, its method's own files by what makes them.

    A column that the data lack is in the hash as well, so that a run is stale once they have it. `train`: the options
    of a run that trains; what compclip/runs/tower_versions.py says of them on this backbone is in the hash. Raises
    UserError for what was not made, or fetched, yet.
    """
    from compclip.data import column_hashes  # imports pyarrow: not in a process that lists runs

    method_files = {inputs.root / path: fix for path, fix in (reads or {}).items()}
    stages = {inputs.manifest: "run `compclip repro annotate`", inputs.backbone: "run `compclip repro backbone`"}
    for path, fix in (stages | method_files).items():
        if not path.exists():
            raise UserError(f"{path}: not there; {fix}")
    hashes = column_hashes.read_columns(inputs.data) if columns else {}
    read_columns = {name: hashes.get(name, "") for name in column_hashes.list_names(hashes, columns)}
    former_columns = {name: hashes.get(name, "") for name in column_hashes.list_names(hashes, columns, former=True)}
    run_weights.check_files(inputs.backbone)
    files = [*sorted(inputs.backbone.iterdir()), *method_files]
    if needs_neighbours:
        files.append(_find_neighbours(inputs))
    data = _hash_text(json.dumps(read_columns))
    places = _hash_text(json.dumps(former_columns))
    beside_data = _fingerprint_current(files)
    towers = {} if train is None else tower_versions.list_versions(inputs.backbone, train)
    former: tuple[str, ...] = ()
    if towers:  # runs of before these have none of its fingerprints
        beside_data = _hash_text(f"{beside_data} {json.dumps(towers)}")
    else:
        former = (_hash_text(f"{places} {beside_data}"), _fingerprint_current((inputs.manifest, *files)))
    return Fingerprints(read_columns, data, _hash_text(f"{data} {beside_data}"), former, towers)


def hash_pictures(inputs: Inputs) -> Fingerprints:
    """Hash what neighbours are made of: pictures, and the backbone. Raises UserError as `hash_inputs`."""
    return hash_inputs(inputs, PICTURE_COLUMNS)


def _find_neighbours(inputs: Inputs) -> Path:
    """Return the file of a pair's neighbours. Raises UserError where it is not there, or of other pictures."""
    path = inputs.neighbours
    made_of = read_neighbours_record(inputs.root).get(inputs.pair, {}).get("inputs")
    pictures = hash_pictures(inputs)
    if not path.is_file() or made_of not in (pictures.all, *pictures.former):
        raise UserError(
            f"{path}: not there, or of other data; run `compclip repro neighbours`, or for a method outside of the "
            f"grid `compclip stage neighbours --data {inputs.cell.data} --backbone {inputs.cell.backbone}`"
        )
    return path


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _fingerprint_current(paths: Iterable[Path]) -> str:
    """Hash files, each read once for all runs of a process as long as it does not change."""
    return fingerprint(*paths, read_hash=hash_unchanged)


def load_sent_run(run_key: str, root: Path = Path(".")) -> StoredRun:
    """Read the run of a job that was sent.

    Raises UserError where there is none, or where its key is no longer this one.
    """
    from compclip.config import grid

    path = find_folder(run_key, root).run
    if not path.is_file():
        raise UserError(f"{path}: no such run; give the key of one that was sent")
    run = locate_run(grid.read_run(path), root)
    if run.key != run_key:
        raise UserError(
            f"{path.parent}: code or data changed since it was submitted (its key is now {run.key}); "
            "undo that, or send it again"
        )
    return run
