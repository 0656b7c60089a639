"""The runs of the grid as jobs of a profile: which are stale, what they cost, and sending them.

`compclip repro --on PROFILE` calls this between preparing and collecting. Runs that are finished, or that somebody
works on, are not sent again. A run that was stopped continues from its last complete checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from compclip.base.command_line import GRID_FILE
from compclip.base.errors import UserError
from compclip.base.files import hold_exclusively
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.config import grid
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.launch import estimate, forecast, slurm
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm
from compclip.runs import follower, gpus, jobs, key_parts, local_runs, notify, run_folder, run_store
from compclip.runs.local_runs import LocalRunDriver
from compclip.runs.notify import News
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun

LOCK = Path(".work/launch.lock")
BUSY = f"{LOCK}: process {{}} is sending runs already; wait for it or stop it"


def check_place(profile: Profile, returns: bool) -> None:
    """Raise UserError where a profile's GPUs are not here, its cluster does not answer, or nobody would send the rest.

    `returns`: whether the command ends when all is sent.
    """
    if profile.executor == "slurm":
        slurm.read_max_array_size()
    elif returns:
        raise UserError("--send: this profile's runs are processes of this machine, a few at a time; leave it out")
    else:
        profile.require_local_gpus()


def send(profile: Profile, params: Params, workers: int, root: Path = Path(".")) -> None:
    """Send the stale runs of the grid, whose keys are written; runs of this machine are driven to their ends."""
    with hold_exclusively(root / LOCK, BUSY):
        runs = locate_runs(params, root)
        key_parts.take_over((run for run in runs if not run.adopt_if_finished()), root)
        todo = list_stale(runs, params, root)
        to_send = [run for run in todo if not jobs.find_worker(run.folder)]
        print(describe_counts(runs, todo, to_send), flush=True)
        if to_send and follower.is_wanted():
            follower.start_follower(GRID_FILE, root)
        if profile.executor == "slurm":
            _send_slurm(profile, to_send, root)
        else:
            _drive_here(todo, workers, profile.notify)


def describe_sending(profile: Profile, params: Params, root: Path = Path(".")) -> Iterator[str]:
    """Yield what would be sent and what it costs. Before the data is prepared, runs/ alone says what is finished."""
    try:
        runs = locate_runs(params, root)
        todo = list_stale(runs, params, root)
    except UserError as error:
        yield f"What the store has is not known yet ({error}); by what runs/ has:"
        runs = [name_unprepared(run, root) for run in grid.resolve_all(params)]
        todo = [run for run in runs if not forecast.is_trained(run.run)]
    to_send = [run for run in todo if not jobs.find_worker(run.folder)]
    yield describe_counts(runs, todo, to_send)
    yield from describe_costs(profile, to_send, root)
    if profile.executor == "slurm" and to_send:
        options = slurm.submitit_options(profile, to_send, root / ".work" / "code", root)
        yield from (f"{name}: {value}" for name, value in options.items())


def describe_costs(profile: Profile, to_send: Sequence[StoredRun], root: Path) -> Iterator[str]:
    """Yield what runs cost by finished ones; where none tells, the bounds of `config cost` for a cluster's card."""
    has_gpus = bool(gpus.list_gpus() if profile.executor == "local" else profile.gpus)
    finished = estimate.read_finished(to_send, root)
    yield from estimate.format_costs(estimate.list_unfinished(to_send), finished, has_gpus)
    unknown = [run.run for run in to_send if estimate.estimate_cost(run.resolved, 0, finished, has_gpus) is None]
    if profile.executor == "slurm" and has_gpus and unknown:
        from compclip.launch import cost_table  # loads torch

        yield from cost_table.describe_costs(unknown, profile, None, root)


def describe_counts(runs: Sequence[StoredRun], todo: Sequence[StoredRun], to_send: Sequence[StoredRun]) -> str:
    """Say in one line how many runs are finished, on their way, and to be sent."""
    on_their_way = len(todo) - len(to_send)
    counts = f"{len(runs) - len(todo)} finished, {on_their_way} on their way, {len(to_send)} to send"
    return f"{format_count(len(runs), 'run')}: {counts}"


def name_unprepared(run: grid.Run, root: Path) -> StoredRun:
    """Return a run whose key is not known yet, as one that the store has nothing of."""
    folder = RunFolder(run_store.store_folder(root) / "unknown")
    return StoredRun(run.cell, "-", run.plain, "", folder, root)


def locate_runs(params: Params, root: Path) -> list[StoredRun]:
    """Return the runs of all cells; cells with equal keys share one."""
    runs = [run_store.locate_run(resolved, root) for resolved in grid.resolve_all(params)]
    return list({run.key: run for run in run_store.unite_snapshots(runs, ())}.values())


def list_stale(runs: Sequence[StoredRun], params: Params, root: Path = Path(".")) -> list[StoredRun]:
    """List the runs that lack their training, or the results of the present evaluation."""
    stale = []
    task = None
    for run in runs:
        if _is_published(run, params):
            continue
        if run.adopt_if_complete():
            task = task or result_store.task_from_params(params, root)
            shares = (*run.shares, run_folder.END)
            if all(result_store.find_results(task, run.folder.snapshot(share)) for share in shares):
                continue
        stale.append(run)
    return stale


def _is_published(run: StoredRun, params: Params) -> bool:
    """Return whether runs/ has this run, with a result for every benchmark.

    Of a run with snapshots the store is asked.
    """
    results = run.published.results
    if run.published.trained.run_key != run.key or run.shares:
        return False
    paths = [run_folder.result_path(results, SafeName(name, "benchmark")) for name in params.evaluate.benchmarks]
    return all(map(Path.is_file, paths))


def _drive_here(todo: Sequence[StoredRun], workers: int, variable: str) -> None:
    def post_failure(run: StoredRun, reason: str) -> None:
        notify.post(variable, News(f"{run.cell.name} failed", {"failed": 1}, {run.cell.name: reason}))

    failed = LocalRunDriver(todo, GRID_FILE, local_runs.divide_gpus(workers), on_failed=post_failure).drive()
    counts = {"runs": len(todo), "done": len(todo) - len(failed), "failed": len(failed)}
    if todo:
        notify.post(variable, News(f"runs ended: {counts['done']} of {len(todo)} done", counts, failed))


def _send_slurm(profile: Profile, todo: Sequence[StoredRun], root: Path) -> None:
    writable = []
    for run in todo:
        try:
            jobs.write_inputs(run, GRID_FILE)
        except UserError as error:  # the others are sent without it
            print(f"{run.cell.name}: not sent: {error}", file=sys.stderr)
        else:
            writable.append(run)
    for sent in Slurm(profile, root).send(writable) if writable else ():
        print(slurm.describe_sent(sent, "run"), flush=True)
