"""Bring the MLflow store up to date with the entries: add, replace what changed, leave the rest; or log all again."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.base.json_text import replace_lone
from compclip.base.number_text import format_count
from compclip.base.progress_line import ProgressLine
from compclip.base.safe_names import SafeName
from compclip.config import grid as config_grid
from compclip.config import read
from compclip.track import entries as track_entries
from compclip.track import report_rows, tracked_files, tracking_store
from compclip.track.entries import EntryOptions, TrackedProject
from compclip.track.item_tables import ItemTables
from compclip.track.live_runs import LiveListing, LiveRun
from compclip.track.tracked_files import SummaryCache

CHECKPOINT_MIB = 64.0
TABLE_ROWS = 100  # items of a benchmark in a run's table
PROJECT = "COMPCLIP_PROJECT"
PROJECT_FILE = Path("mlflow/project.json")


def name_project(given_name: str = "", root: Path = Path()) -> SafeName:
    """Return the first word of our experiments' names: `given`, COMPCLIP_PROJECT, or the name of the folder `root`.

    A folder gets its name once: its own and six random digits, so that two checkouts that log to one server differ.
    Raises UserError for what is no name: it stands in filters, addresses and folders.
    """
    if given_name or os.environ.get(PROJECT):
        return SafeName(given_name or os.environ[PROJECT], "--project" if given_name else PROJECT)
    file = root / PROJECT_FILE
    if name := _read_project(root):
        return name
    with tracking_store.lock_store(file.with_suffix(".lock")):
        if name := _read_project(root):  # of a process that was faster
            return name
        word = re.sub(r"[^\w.+-]", "_", root.resolve().name, flags=re.ASCII)[:40].lstrip(".+-") or "compclip"
        name = SafeName(f"{word}-{secrets.token_hex(3)}", str(file))
        write_json(file, {"project": name, "folder": replace_lone(str(root.resolve()))})
    messages.note(f"{file}: the project of this folder is {name}; {PROJECT} gives another name")
    return name


def _read_project(root: Path) -> SafeName | None:
    """Return the stored name; None where there is none yet, or where the folder is a copy of the one that was named."""
    file = root / PROJECT_FILE
    if not file.is_file():
        return None
    state = read_mapping(file)
    origin = Path(str(state.get("folder", ""))) / PROJECT_FILE
    is_copy = origin.is_file() and not origin.samefile(file) and read_mapping(origin) == state
    return None if is_copy else SafeName(state.get("project", ""), f"{file}: project")


def load_project(
    params_path: str | Path = read.DEFAULT, root: Path = Path(), studies_folder: Path = Path("studies"),
    project: str = "", checkpoint_mib: float = CHECKPOINT_MIB, cache_file: Path | None = None,
    table_rows: int = TABLE_ROWS,
) -> TrackedProject:  # fmt: skip
    """Read the runs below `root` and the studies; `cache_file` holds what earlier calls read.

    Raises UserError where there is neither a run nor a study.
    """
    params, summaries = read.load_params(params_path), SummaryCache(cache_file)
    locations = list(tracked_files.list_published(root))
    cells = [summaries.summary(*location) for location in ProgressLine("runs", len(locations), locations)]
    study_files = sorted(studies_folder.glob("*/trials.json"))
    sweeps = [tracked_files.read_study(file.parent, summaries) for file in study_files]
    summaries.save()
    live = LiveListing(root).poll()
    if not cells and not sweeps and not any(run.has_begun for run in live):
        raise UserError(f"{root}: holds no run; train one with `dvc repro` or give --root")
    project = name_project(project, root)
    names = frozenset(c.name for c in config_grid.list_cells(params))
    grid_runs = [b.run for b in cells if b.run.cell.name in names]
    all_runs = [b.run for b in (*cells, *(t.run for s in sweeps for t in s.trials if t.run))]
    experiment = track_entries.name_experiment(project, (), params.grid.backbones, params.grid.data)
    columns = track_entries.select_columns(grid_runs or all_runs, params.report.columns)
    tables = ItemTables(params.benchmarks, params.evaluate.ties, table_rows) if table_rows else None
    options = EntryOptions(experiment, names, project, columns, checkpoint_mib, tables)
    entries = track_entries.make_cell_entries(cells, options)
    grid = tuple((b.run, e.scores) for b, e in zip(cells, entries, strict=True) if e.at_home)
    report = report_rows.make_report_entries(root, grid_runs, options)
    entries = report_rows.set_parents(report, entries)
    entries += [e for s in sweeps for e in track_entries.make_study_entries(s, options)]
    return TrackedProject(tuple(entries), tuple(cells), options, tuple(params.grid.methods), True, grid, tuple(live))


def update_study(folder: Path, uri: str | None = None, params_path: str | Path = read.DEFAULT) -> Counter[str]:
    """Bring one study and its trials up to date, as the driver of a sweep does after its trials' files are written."""
    params, address = read.load_params(params_path), tracking_store.store_uri(uri)
    summaries = SummaryCache(summary_cache(address))
    study = tracked_files.read_study(folder, summaries)
    summaries.save()
    columns = track_entries.select_columns([t.run.run for t in study.trials if t.run], params.report.columns)
    options = EntryOptions("", frozenset(), name_project("", folder.parent.parent), columns)
    entries = tuple(track_entries.make_study_entries(study, options))
    return update_store(TrackedProject(entries, (), options, is_complete=False), address)


def summary_cache(uri: str) -> Path:
    """Return the path of the file that caches what was read of the runs."""
    return tracking_store.path_beside(uri, "read.jsonl")


def update_store(project: TrackedProject, uri: str, anew: bool = False) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done.

    `anew` logs every run again and removes what the project has there besides. What others have in the store stays,
    also what they log meanwhile: the database is never replaced, only rows that carry the project's tag are deleted.
    """
    with tracking_store.open_client(uri) as client:
        from compclip.track.mlflow_runs import ModelTemplate
        from compclip.track.store_writer import StoreWriter

        with closing(ModelTemplate(tracking_store.path_beside(uri, "template").absolute())) as template:
            writer = StoreWriter(client, project.options.project, _artifact_folder(uri), template)
            if anew and (count := sum(map(len, writer.tracked_runs.values()))):
                name = project.options.project
                runs = format_count(count, "run")
                print(f"{name} has {runs} there; each is removed as its files are logged again", flush=True)
            for entry in ProgressLine("entries for MLflow", len(project.entries), project.entries):
                writer.update_entry(entry, anew)
            if anew:
                writer.remove_stale()
            if project.is_complete:
                writer.update_live(project)
            if project.grid:
                writer.finish(project)
            if project.is_complete:
                writer.drop_empty()
                view = {"experiment": writer.experiment(project.options.experiment)}
                write_json(tracking_store.path_beside(uri, "view.json"), view)
                write_json(synced_file(uri), {summary.name: summary.content for summary in project.cells})
        return writer.counts


def append_live(live: Sequence[LiveRun], options: EntryOptions, uri: str) -> bool:
    """Log what runs that are not published yet have gained; nothing is read of other runs, here or in MLflow.

    Return False where the grid's experiment is not there (any more): `update_store` makes it.
    """
    with tracking_store.open_client(uri) as client:
        from compclip.track import live_writer

        experiment = client.get_experiment_by_name(options.experiment)
        if experiment is None or experiment.lifecycle_stage == "deleted":
            return False
        logged = live_writer.find_live(client, experiment.experiment_id, options.project)
        live_writer.update_live_runs(client, experiment.experiment_id, live, logged, options.project)
        return True


def _artifact_folder(uri: str) -> Path | None:
    """Return the folder of artifacts; None for a server, which keeps them itself. Rebuilds took a new number once."""
    if tracking_store.is_server(uri):
        return None
    root = tracking_store.path_beside(uri, "artifacts").absolute()
    return root / f"{max((int(p.name) for p in root.glob('[0-9]*') if p.name.isdecimal()), default=1):04d}"


def synced_file(uri: str) -> Path:
    """Return the file that names what the store holds: a run's name and the hash of its files."""
    return tracking_store.path_beside(uri, "synced.json")
