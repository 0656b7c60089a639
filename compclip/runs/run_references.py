"""Who names a run: the cells of grids, the trials of studies, MLflow. What cannot be judged is taken for used."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config import read
from compclip.config.grid import parse_cell
from compclip.runs import grid_keys
from compclip.runs import run_folder as folders
from compclip.runs.run_folder import RunFolder, Trained
from compclip.runs.run_key import hash_parameters

GRIDS = Path("experiments/grids")
SYNCED = Path("mlflow/synced.json")  # what MLflow holds: cells by name
STUDIES, STORAGES = Path("studies"), Path(".work/studies")


@dataclass(frozen=True)
class RunUsers:
    """By run key, who names the run.

    `open`: cells whose data or backbone are not here, by what is known of their keys. `lost`: cells that MLflow holds
    and that are not published any more, by name.
    """

    names_by_key: Mapping[str, Sequence[str]]
    open: Mapping[str, str]
    lost: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()  # a line for each grid with such cells

    def list_users(self, folder: RunFolder) -> list[str]:
        """List who names a run, or may name it."""
        users = list(self.names_by_key.get(folder.key, ()))
        if self.open or self.lost:
            users += self._list_possible_users(folder)
        return users

    def _list_possible_users(self, folder: RunFolder) -> list[str]:
        try:
            run = read_resolved_run(folder)
            if not run:
                return ["perhaps a cell whose data is not here"] if self.open else []
            name = parse_cell(run.get("cell"), f"{folder.path}: cell").name
            trains = grid_keys.trains_anything(run["cell"]["method"])
            cell = self.open.get(hash_parameters(run, trains)) if self.open else None
        except (UserError, KeyError, TypeError, AttributeError) as error:
            return [f"perhaps a cell: {error}"]
        return [f"MLflow: {name}"] * (name in self.lost) + ([f"perhaps {cell}"] if cell else [])


def read_resolved_run(folder: RunFolder) -> Mapping[str, Any]:
    """Read the resolved run from config.yaml or run.yaml; empty where there is neither."""
    path = next((p for p in (folder.final.config, folder.run) if p.is_file()), None)
    return read.read_values(path, ()) if path else {}


def find_references(params_path: str, grids: Iterable[Path], root: Path) -> RunUsers:
    """Find who names which run: the cells of params.yaml and of other grids, studies, MLflow.

    Raises UserError where one of them cannot be read.
    """
    names_by_key: dict[str, list[str]] = defaultdict(list)
    unknown: dict[str, str] = {}
    missing = []
    for path, prefix in ((Path(params_path), ""), *((path, f"{path.stem}: ") for path in grids)):
        cells = grid_keys.list_cells(path, root)
        for cell in cells:
            if cell.key:
                names_by_key[cell.key].append(f"{prefix}{cell.cell.name}")
        unkeyed = [cell for cell in cells if not cell.key]
        unknown |= {cell.parameters: f"{prefix}{cell.cell.name}" for cell in unkeyed}
        if unkeyed:
            missing.append(f"{path}: {len(unkeyed)} cells not judged ({unkeyed[0].error}); what may be theirs stays")
    for run_key, name in list_trials(root):
        names_by_key[run_key].append(name)
    lost = set()
    for name, run_key in _list_tracked(root):
        names_by_key[run_key].append(f"MLflow: {name}") if run_key else lost.add(name)
    return RunUsers(
        {k: list(dict.fromkeys(v)) for k, v in names_by_key.items()}, unknown, frozenset(lost), tuple(missing)
    )


def list_trials(root: Path) -> Iterator[tuple[str, str]]:
    """Yield run key and name of every trial of every study, running ones included."""
    for path in sorted((root / STUDIES).glob("*/trials.json")):
        yield from _finished_trials(path)
    for path in sorted((root / STORAGES).glob("*.db")):
        yield from _storage_trials(path)


def _finished_trials(path: Path) -> list[tuple[str, str]]:
    study, name = read_mapping(path), path.parent.name
    try:
        reference = study.get("reference")
        names = [(str(reference["run_key"]), f"{name}: pretrained")] if reference else []
        return names + [(str(t["run_key"]), f"{name}#{t['number']}") for t in study["trials"] if t["run_key"]]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: not a study's trials ({error!r}); run the sweep again with --page") from error


def _storage_trials(path: Path) -> Iterator[tuple[str, str]]:
    """The trials of a study's own storage: trials.json learns of one when it is over."""
    query = (
        "SELECT number, json_extract(value_json, '$') FROM trial_user_attributes JOIN trials USING (trial_id) "
        "WHERE key = 'run_key' ORDER BY number"
    )
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as storage:
            rows = storage.execute(query).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"{path}: not a study's storage ({error}); remove the file or give it another name") from error
    yield from ((run_key, f"{path.stem}#{number}") for number, run_key in rows)


def _list_tracked(root: Path) -> Iterator[tuple[str, str]]:
    """Name and run key of every cell that MLflow holds; no key for one that is not published any more."""
    if not (root / SYNCED).is_file():
        return
    published = {f"{p.parent.name}-{p.name}": p for p in folders.published_folders(root / folders.RUNS)}
    for name in read_mapping(root / SYNCED):
        yield name, Trained(published[name]).run_key if name in published else ""
