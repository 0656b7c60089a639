"""Bring the MLflow store up to date with the entries: add, replace what changed, leave the rest; or make it anew."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, write_json
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.runs.results import FinishedRun, files
from compclip.track import entries as track_entries
from compclip.track import notes, overall, records, store, view
from compclip.track.entries import Entry, Shown
from compclip.track.records import Study

if TYPE_CHECKING:
    from compclip.track.store import MlflowClient

CHECKPOINT_MIB = 64.0


def own_project() -> str:
    """The first word of our experiments' names; COMPCLIP_PROJECT tells users of one server apart."""
    return os.environ.get("COMPCLIP_PROJECT") or "compclip"


@dataclass(frozen=True)
class Source:
    """Everything that the store is made from; `whole`: the stamp of what it holds may be written."""

    entries: tuple[Entry, ...]
    cells: tuple[FinishedRun, ...]
    shown: Shown
    methods: tuple[str, ...] = ()
    whole: bool = True
    grid_runs: dict[str, FinishedRun] = field(default_factory=dict)


def source(
    params_path: str | Path = read.DEFAULT, root: Path = Path(), studies: Path = Path("studies"),
    project: str = "", checkpoint_mib: float = CHECKPOINT_MIB,
) -> Source:  # fmt: skip
    """Read run directories and studies. Raises UserError where there is neither."""
    params = read.load(params_path)
    cells, sweeps = records.read(root), records.studies(studies)
    if not cells and not sweeps:
        raise UserError(f"{root}: holds no run; train one with `dvc repro` or give --root")
    grid = {c.name for c in config_grid.cells(params)}
    inside = {r.cell.name: r for r in cells if r.cell.name in grid}
    every = list(cells) + [t.run for s in sweeps for t in s.trials if t.run]
    columns = overall.columns(list(inside.values()) or every, params.report.columns)
    project = project or own_project()
    name = track_entries.experiment(project, (), params.grid.backbones, params.grid.data)
    shown = Shown(name, frozenset(grid), project, columns, checkpoint_mib)
    made = (*track_entries.of_cells(cells, shown), *(e for s in sweeps for e in track_entries.of_study(s, shown)))
    return Source(made, tuple(cells), shown, tuple(params.grid.methods), True, inside)


def study(folder: Path, uri: str | None = None, params_path: str | Path = read.DEFAULT) -> Counter[str]:
    """Bring one study and its trials up to date, as the driver of a sweep does after its trials' files are written."""
    params = read.load(params_path)
    found: Study = records.study(folder)
    runs = [t.run for t in found.trials if t.run]
    shown = Shown("", frozenset(), own_project(), overall.columns(runs, params.report.columns))
    return update(Source(tuple(track_entries.of_study(found, shown)), (), shown, whole=False), store.store_uri(uri))


def update(made: Source, uri: str) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done."""
    with store.client(uri) as client:
        done = _update(client, made, _artifacts(uri))
        _stamp(client, made, uri)
    return done


def rebuild(made: Source, uri: str) -> Counter[str]:
    """Make the store from the files alone: a new database takes the old one's place only when it is complete.

    On a server the runs are deleted and logged again; runs that others logged there stay.
    """
    file = store.database(uri)
    if file is not None:
        with store.lock(file.with_suffix(".lock")):
            return _rebuild_file(made, file)
    with store.client(uri) as client:
        for runs in _tracked(client, made.shown.project).values():
            for run in runs:
                _remove(client, run, None)
        done = _update(client, made, None)
        _stamp(client, made, uri)
    return done


def _rebuild_file(made: Source, file: Path) -> Counter[str]:
    artifacts = _artifacts(f"sqlite:///{file}", fresh=True)
    fresh = file.with_name(f"{file.stem}.{artifacts.name}.db")
    for stale in file.parent.glob(f"{file.stem}.[0-9]*.db"):  # of a rebuild that was killed
        stale.unlink()
    with store.client(f"sqlite:///{fresh}") as client:
        done = _update(client, made, artifacts)
        _stamp(client, made, f"sqlite:///{file}")
    os.replace(fresh, file)
    fresh.with_suffix(".lock").unlink()
    for old in artifacts.parent.iterdir():
        if old != artifacts:
            shutil.rmtree(old)
    return done


def _artifacts(uri: str, fresh: bool = False) -> Path | None:
    """The folder of artifacts; None for a server, which keeps them itself. Rebuilding a SQLite store takes a new
    number: the old store stays whole until the end."""
    if store.is_server(uri):
        return None
    root = store.beside(uri, "artifacts").absolute()
    last = max((int(p.name) for p in root.glob("[0-9]*")), default=0)
    return root / f"{max(last + fresh, 1):04d}"


def stamp(uri: str) -> Path:
    """The file that names what the store holds: a run's name and the hash of its files."""
    return store.beside(uri, "synced.json")


def _stamp(client: MlflowClient, made: Source, uri: str) -> None:
    if made.whole:
        found = client.get_experiment_by_name(made.shown.experiment)
        write_json(store.beside(uri, "view.json"), {"experiment": found.experiment_id if found else ""})
        write_json(stamp(uri), {r.cell.name: fingerprint(*files(r.trained, r.results_folder)) for r in made.cells})


def _update(client: MlflowClient, made: Source, artifacts: Path | None) -> Counter[str]:
    known, done, now = _tracked(client, made.shown.project), Counter(), {}
    for entry in made.entries:
        now[entry.key] = _one(client, entry, known.pop(entry.key, []), now.get(entry.parent, ""), artifacts, done)
    if made.grid_runs:
        _finish_grid(client, made, now)
    if made.whole:
        _drop_empty(client, made.shown.project)
    return done


def _one(
    client: MlflowClient, entry: Entry, old: list[Any], parent: str, artifacts: Path | None, done: Counter[str]
) -> str:
    """Bring one entry up to date; gives its MLflow run's id. What replaces is complete before the old run goes."""
    from compclip.track import log

    same = [run for run in old if _current(client, run, entry)]
    done["skipped"] += 0 if same else len(entry.values) - len(entry.finite)
    done["unchanged" if same else "replaced" if old else "added"] += 1
    run_id = same[0].info.run_id if same else log.write(client, entry, _experiment(client, entry, artifacts), parent)
    if same:
        _refresh(client, same[0], {log.NOTE: entry.note} | ({log.PARENT: parent} if parent else {}))
    for run in old:
        if run.info.run_id != run_id:
            _remove(client, run, artifacts)
    return run_id


def _current(client: MlflowClient, run: Any, entry: Entry) -> bool:
    """Whether a run was logged whole, from these files, and where it belongs."""
    tags = run.data.tags
    whole = tags.get(track_entries.COMPLETE) == "true" and tags.get(track_entries.CONTENT) == entry.content
    return whole and (not entry.at_home or client.get_experiment(run.info.experiment_id).name == entry.experiment)


def _refresh(client: MlflowClient, run: Any, tags: dict[str, str]) -> None:
    for key, value in tags.items():
        if run.data.tags.get(key) != value:
            client.set_tag(run.info.run_id, key, value)


def _remove(client: MlflowClient, run: Any, artifacts: Path | None) -> None:
    from compclip.track import log

    log.remove(client, run, artifacts.parent if artifacts else None)


def _tracked(client: MlflowClient, project: str) -> dict[str, list[Any]]:
    """Our runs in the store by key; more than one of a key only where writers did not share a lock."""
    ids = [e.experiment_id for e in _experiments(client, project)]
    runs, token = [], None
    while ids:
        page = client.search_runs(ids, max_results=1000, page_token=token)
        runs, token = runs + [run for run in page if _key(run)], page.token
        if not token:
            break
    found: dict[str, list[Any]] = {}
    for run in runs:
        found.setdefault(_key(run), []).append(run)
    return found


def _key(run: Any) -> str:
    """The entry that a run was made from; none for a run that others logged. Stores of old have the name alone."""
    tags = run.data.tags
    return tags.get(track_entries.KEY) or (f"cell/{run.info.run_name}" if "content" in tags else "")


def _experiments(client: MlflowClient, project: str) -> list[Any]:
    return list(client.search_experiments(filter_string=f"name LIKE '{project}: %'", max_results=1000))


def _experiment(client: MlflowClient, entry: Entry, artifacts: Path | None) -> str:
    found = client.get_experiment_by_name(entry.experiment)
    if found is not None:
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        return found.experiment_id
    folder = entry.experiment.partition(": ")[2].replace(", ", "+").replace(" ", "-").replace("/", "_")
    tags = {"mlflow.experimentKind": "custom_model_development"}
    return client.create_experiment(entry.experiment, (artifacts / folder).as_uri() if artifacts else None, tags)


def _finish_grid(client: MlflowClient, made: Source, now: dict[str, str]) -> None:
    """Versions and aliases of the grid's checkpoints, the experiment's description and its ready-made view."""
    from compclip.track import models

    name = models.registered_name(made.shown.experiment)
    runs = {e.key: client.get_run(now[e.key]) for e in made.entries if e.at_home and e.checkpoint}
    best = overall.winners(list(made.grid_runs.values()), made.shown.columns)
    if runs:
        versions = models.register(client, name, made.shown.experiment, runs)
        keys = {notes.alias(b): f"cell/{run.cell.name}" for b, (run, _) in best.items()}
        models.set_aliases(client, name, {a: versions[k] for a, k in keys.items() if k in versions})
        best = {b: found for b, found in best.items() if keys[notes.alias(b)] in versions}
    experiment = client.get_experiment_by_name(made.shown.experiment)
    note = notes.of_grid(made.methods, best if runs else {}, name)
    tags = {"mlflow.note.content": note, **view.tags(_scores(made))}
    for key, value in tags.items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(experiment.experiment_id, key, value)


def _scores(made: Source) -> list[str]:
    """The names of the grid's whole-benchmark numbers, the summary's first."""
    numbers = (overall.numbers(r, made.shown.columns) for r in made.grid_runs.values())
    return list(dict.fromkeys(name for found in numbers for name in found))


def _drop_empty(client: MlflowClient, project: str) -> None:
    """Hide experiments of ours whose runs have all moved elsewhere."""
    for experiment in _experiments(client, project):
        if not client.search_runs([experiment.experiment_id], max_results=1):
            client.delete_experiment(experiment.experiment_id)
