"""Bring the MLflow store up to date with the run files: once, or again and again while runs are under way.

`compclip track --follow` is a process beside the trainers, which know nothing of it. It reads what their files gained,
and ends when nothing runs any more and MLflow has all of it. Killed or offline it loses nothing: files are the truth,
and the next one goes on.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, one_line
from compclip.base.files import read_mapping, replace_lone, write_json
from compclip.base.messages import format_count
from compclip.base.progress_line import ProgressLine
from compclip.base.safe_names import SafeName
from compclip.config import drawn_scenes, read
from compclip.config import grid as config_grid
from compclip.report import tables
from compclip.runs import jobs, run_folder
from compclip.runs.result_files import FinishedRun
from compclip.runs.run_folder import Trained
from compclip.track import entries as track_entries
from compclip.track import report_rows, tracking_store
from compclip.track.entries import EntryOptions, LiveRun, MlflowEntry

HEADLINES = 8  # columns that a row of the report has as metrics
OVERALL = ("Comp", "General")  # of the report's summary; they come first
PROJECT = "COMPCLIP_PROJECT"
PROJECT_FILE = Path("mlflow/project.json")
EVERY_S = 5.0
SHORT_NOTICE = "These numbers are of drawings; they do not rank methods (docs/claims.md)."  # MLflow shows one line
BUSY = "process {} follows the runs of this project already; stop it, or leave it to it"


def name_project(uri: str, root: Path = Path()) -> SafeName:
    """Return the first word of our experiments' names: COMPCLIP_PROJECT, or the name of the folder `root`.

    A folder gets its name once. Outside of the folder's own store six random digits follow, so that two checkouts that
    log to one server differ. Raises UserError for what is no name: it stands in filters, addresses and folders.
    """
    if os.environ.get(PROJECT):
        return SafeName(os.environ[PROJECT], PROJECT)
    file = root / PROJECT_FILE
    with tracking_store.lock_store(file.with_suffix(".lock")):
        name = _read_project(root)
        if not name:
            word = re.sub(r"[^\w.+-]", "_", root.resolve().name, flags=re.ASCII)[:40].lstrip(".+-") or "compclip"
            name = SafeName(f"{word}-{secrets.token_hex(3)}", str(file))
            write_json(file, {"project": name, "folder": replace_lone(str(root.resolve()))})
    database = tracking_store.sqlite_file(uri)
    is_own_store = database is not None and database.resolve().is_relative_to(root.resolve())
    return SafeName(name.rpartition("-")[0], str(file)) if is_own_store else name


def _read_project(root: Path) -> SafeName | None:
    """Return the stored name; None where there is none yet, or where the folder is a copy of the one that was named."""
    file = root / PROJECT_FILE
    if not file.is_file():
        return None
    state = read_mapping(file)
    origin = Path(str(state.get("folder", ""))) / PROJECT_FILE
    is_copy = origin.is_file() and not origin.samefile(file) and read_mapping(origin) == state
    return None if is_copy else SafeName(state.get("project", ""), f"{file}: project")


@dataclass(frozen=True)
class TrackedProject:
    """Everything that the store is made from; `runs` are those of the grid, `live` those that are not published yet."""

    entries: tuple[MlflowEntry, ...]
    options: EntryOptions
    methods: tuple[str, ...] = ()
    runs: tuple[FinishedRun, ...] = ()
    live: tuple[LiveRun, ...] = ()


def load_project(
    params_path: str | Path, uri: str, root: Path = Path(), studies_folder: Path = Path("studies")
) -> TrackedProject:
    """Read the runs below `root` and the studies, as the store `uri` will have them.

    Raises UserError where there is neither a run nor a study.
    """
    params = read.load_params(params_path)
    grid = config_grid.list_cells(params)
    names = frozenset(cell.name for cell in grid)
    folders = run_folder.published_folders(root / run_folder.RUNS)
    summaries = []
    all_runs = []
    grid_runs = []
    for path in ProgressLine("runs", len(folders), folders):
        results = root / run_folder.RESULTS / path.parent.name / path.name
        summary = track_entries.read_run(Trained(path), results)
        summaries.append(summary)
        all_runs.append(summary.run)
        if summary.run.cell.name in names:
            grid_runs.append(summary.run)
    sweeps = []
    for file in sorted(studies_folder.glob("*/trials.json")):
        sweeps.append(report_rows.read_study(file.parent))
        all_runs += sweeps[-1].runs
    live_runs = tuple(run for run in track_entries.list_runs(root) if run.is_shown)
    if not (summaries or sweeps or live_runs):
        raise UserError(f"{root}: holds no run; train one with `compclip repro` or give --root")
    project = name_project(uri, root)
    columns = track_entries.select_columns(grid_runs or all_runs, params.report.columns)
    notice = SHORT_NOTICE if drawn_scenes.describe_drawings(params) else ""
    overall = [column for column in tables.summary_columns(columns, grid_runs) if column.metric in OVERALL]
    experiment = track_entries.name_experiment(project, grid)
    options = EntryOptions(experiment, names, project, columns, notice, (*overall, *columns)[:HEADLINES])
    entries = report_rows.make_report_entries(root, grid_runs, options)
    entries += track_entries.make_cell_entries(summaries, options, {entry.key for entry in entries})
    for study in sweeps:
        entries += report_rows.make_study_entries(study, options)
    return TrackedProject(tuple(entries), options, tuple(params.grid.methods), tuple(grid_runs), live_runs)


def update_store(project: TrackedProject, uri: str, anew: bool = False) -> Counter[str]:
    """Add the runs that the store lacks and replace those whose files changed; counts what was done.

    `anew` logs every run again and removes what the project has there besides. What others have in the store stays,
    also what they log meanwhile: the database is never replaced, only rows that carry the project's tag are deleted.
    """
    options = project.options
    with tracking_store.open_client(uri) as client:
        from compclip.track.writer import StoreWriter

        # a server keeps the artifacts itself
        artifacts = None if tracking_store.is_server(uri) else tracking_store.path_beside(uri, "artifacts").absolute()
        writer = StoreWriter(client, options.project, artifacts)
        count = sum(map(len, writer.tracked_runs.values()))
        if anew and count:
            runs = format_count(count, "run")
            print(f"{options.project} has {runs} there; each is removed as its files are logged again", flush=True)
        for entry in ProgressLine("entries for MLflow", len(project.entries), project.entries):
            writer.update_entry(entry, anew)
        writer.update_live(project.live, options.experiment, anew)
        if project.runs or project.live:
            writer.describe_experiment(options, project.methods, project.runs)
        writer.drop_empty()
        view = {"experiment": writer.experiment(options.experiment)}
        write_json(tracking_store.path_beside(uri, "view.json"), view)
        synced = {entry.name: entry.content_of_files for entry in project.entries if entry.tags["kind"] == "cell"}
        write_json(tracking_store.path_beside(uri, "synced.json"), synced)
        return writer.counts


@dataclass
class StoreFollower:
    """Brings MLflow up to date, call by call. `load` reads the whole project, which only a published run asks for."""

    load: Callable[[], TrackedProject]
    uri: str
    root: Path = Path()
    project: TrackedProject | None = field(default=None, init=False)
    _logged: dict[str, tuple[Any, ...]] = field(default_factory=dict, init=False)  # signatures by key

    def poll(self) -> bool:
        """Log what is new; return whether a run is under way or queued.

        A run that is published, or gone, has everything read again; of others their new lines alone. Raises UserError
        where the store cannot be reached, or a file is damaged; the next call goes on.
        """
        runs = {run.key: run for run in track_entries.list_runs(self.root)}
        signatures = {key: run.signature for key, run in runs.items()}
        changed = [run for key, run in runs.items() if self._logged.get(key) != signatures[key]]
        if self.project is None or self._logged.keys() - runs.keys() or not all(run.is_shown for run in changed):
            is_begun = any(run.is_shown for run in runs.values())
            if is_begun or run_folder.published_folders(self.root / run_folder.RUNS):
                self.update()
        elif changed:
            with tracking_store.open_client(self.uri) as client:
                from compclip.track import writer

                is_logged = writer.append_live(client, self.project.options, changed)
            if not is_logged:
                self.update()
        self._logged = signatures
        return any(run.status in track_entries.UNDER_WAY for run in runs.values())

    def update(self) -> None:
        """Do what `compclip track` does."""
        project = self.load()
        update_store(project, self.uri)
        self.project = project


def follow(follower: StoreFollower, every_s: float, beside: int | None = None) -> int:
    """Poll until nothing runs, the process `beside` is gone, and the store has everything; or until Ctrl-C or SIGTERM.

    Raises UserError where another process follows this project already; while `beside` is there, it waits instead.
    """
    began = jobs.read_start_time(beside) if beside else ""

    def is_awaited() -> bool:
        return bool(beside and began) and jobs.read_start_time(beside or 0) == began

    shown_failure = ""
    try:
        with tracking_store.take_turn(tracking_store.path_beside(follower.uri, "follow.lock"), BUSY, is_awaited):
            while True:
                is_last = not is_awaited()  # asked before the poll, which sees what that process left
                try:
                    if not follower.poll() and is_last:
                        if follower.project:
                            follower.update()  # studies, and what else a poll does not look at
                        print("nothing runs any more; MLflow is up to date", flush=True)
                        return 0
                    shown_failure = ""
                except UserError as error:
                    failure = one_line(str(error))
                    if failure != shown_failure:
                        print(f"{failure}; trying again every {every_s:g} s", flush=True)
                    shown_failure = failure
                time.sleep(every_s)
    except KeyboardInterrupt:
        print("stopped; nothing is lost: `compclip track` or another --follow goes on", flush=True)
        return 0
