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
from compclip.config import read, structured
from compclip.runs import folder as folders
from compclip.runs import key, known
from compclip.runs.folder import Folder, Trained

GRIDS = Path("experiments/grids")
SYNCED = Path("mlflow/synced.json")  # what MLflow holds: cells by name
STUDIES, STORAGES = Path("studies"), Path(".work/studies")


@dataclass(frozen=True)
class Uses:
    """By run key, who names the run.

    `open`: cells whose data or backbone are not here, by what is known of their keys. `lost`: cells that MLflow holds
    and that are not published any more, by name.
    """

    named: Mapping[str, Sequence[str]]
    open: Mapping[str, str]
    lost: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()  # a line for each grid with such cells

    def of(self, folder: Folder) -> list[str]:
        """Who names a run, or may name it."""
        found = list(self.named.get(folder.key, ()))
        if self.open or self.lost:
            found += self._perhaps(folder)
        return found

    def _perhaps(self, folder: Folder) -> list[str]:
        try:
            run = written(folder)
            if not run:
                return ["perhaps a cell whose data is not here"] if self.open else []
            name = structured.cell(run.get("cell"), f"{folder.path}: cell").name
            cell = self.open.get(key.request(run, known.trains(run["cell"]["method"]))) if self.open else None
        except (UserError, KeyError, TypeError, AttributeError) as error:
            return [f"perhaps a cell: {error}"]
        return [f"MLflow: {name}"] * (name in self.lost) + ([f"perhaps {cell}"] if cell else [])


def written(folder: Folder) -> Mapping[str, Any]:
    """A run as whoever sent or finished it wrote it; empty where nobody has."""
    path = next((p for p in (folder.final.config, folder.run) if p.is_file()), None)
    return read.raw(path, ()) if path else {}


def find(params_path: str, grids: Iterable[Path], root: Path) -> Uses:
    """Who names which run: the cells of params.yaml and of other grids, studies, MLflow.

    Raises UserError where one of them cannot be read.
    """
    named: dict[str, list[str]] = defaultdict(list)
    unknown: dict[str, str] = {}
    missing = []
    for path, prefix in ((Path(params_path), ""), *((path, f"{path.stem}: ") for path in grids)):
        lacking = [one for one in _cells(path, root, prefix, named) if not one.key]
        unknown |= {one.request: f"{prefix}{one.cell.name}" for one in lacking}
        if lacking:
            missing.append(f"{path}: {len(lacking)} cells not judged ({lacking[0].error}); what may be theirs stays")
    for run_key, name in trials(root):
        named[run_key].append(name)
    lost = set()
    for name, run_key in _tracked(root):
        named[run_key].append(f"MLflow: {name}") if run_key else lost.add(name)
    return Uses({k: list(dict.fromkeys(v)) for k, v in named.items()}, unknown, frozenset(lost), tuple(missing))


def _cells(path: Path, root: Path, prefix: str, named: dict[str, list[str]]) -> list[known.Known]:
    found = known.cells(path, root)
    for one in found:
        if one.key:
            named[one.key].append(f"{prefix}{one.cell.name}")
    return found


def trials(root: Path) -> Iterator[tuple[str, str]]:
    """Run key and name of every trial of every study, of those that are under way as well."""
    for path in sorted((root / STUDIES).glob("*/trials.json")):
        yield from _tried(path)
    for path in sorted((root / STORAGES).glob("*.db")):
        yield from _stored(path)


def _tried(path: Path) -> list[tuple[str, str]]:
    study, name = read_mapping(path), path.parent.name
    try:
        reference = study.get("reference")
        found = [(str(reference["run_key"]), f"{name}: pretrained")] if reference else []
        return found + [(str(t["run_key"]), f"{name}#{t['number']}") for t in study["trials"] if t["run_key"]]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: not a study's trials ({error!r}); run the sweep again with --page") from error


def _stored(path: Path) -> Iterator[tuple[str, str]]:
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


def _tracked(root: Path) -> Iterator[tuple[str, str]]:
    """Name and run key of every cell that MLflow holds; no key for one that is not published any more."""
    if not (root / SYNCED).is_file():
        return
    published = {f"{p.parent.name}-{p.name}": p for p in folders.published(root / folders.RUNS)}
    for name in read_mapping(root / SYNCED):
        yield name, Trained(published[name]).run_key if name in published else ""
