"""Send all stale runs of the grid, or shards, at once; `compclip repro` collects.

    compclip launch slurm/local.yaml -j 2   processes of this machine
    compclip launch slurm/a100.yaml         an array of a SLURM cluster
    compclip launch PROFILE --dry-run       what would be sent, and its cost
    compclip launch PROFILE cancel          stop the grid's jobs
    compclip launch PROFILE --stage annotate --data NAME
                                            the shards that a stage lacks

Runs that are finished, or that somebody works on, are not sent again. A run that was stopped continues from its last
complete checkpoint. A shard is whole or missing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser, refuse_values
from compclip.base.errors import UserError, entry
from compclip.base.files import hold_exclusively
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.config import grid, read
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.fetch import missing_inputs
from compclip.launch import estimate, grid_check, profiles, repro
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm, submitit_options
from compclip.runs import follower, gpus, jobs, key_parts, local_runs, notify, run_folder, run_store, shard_tasks
from compclip.runs.local_runs import LocalRunDriver
from compclip.runs.notify import News
from compclip.runs.run_store import StoredRun
from compclip.runs.shard_tasks import STAGES

CANCEL_S = 120
LOCK = Path(".work/launch.lock")
BUSY = f"{LOCK}: process {{}} is sending runs already; wait for it or stop it"


def send(profile: Profile, params_path: str, dry: bool, workers: int, root: Path = Path(".")) -> int:
    """Send the stale runs of the grid; return 0 where nothing failed."""
    params = read.load_params(params_path)
    missing_inputs.require_inputs(params, root)
    grid_check.require_towers(grid.resolve_all(params), root, profile.processes)
    repro.make_stages(["keys", *(f"benchmark@{b}" for b in params.evaluate.benchmarks)], params, root)
    runs = locate_runs(params, root)
    if not dry:
        key_parts.take_over((run for run in runs if not run.adopt_if_finished()), root)
    todo = list_stale(runs, params, root)
    to_send = [run for run in todo if not jobs.find_worker(run.folder)]
    live = len(todo) - len(to_send)
    counts = f"{len(runs) - len(todo)} finished, {live} on their way, {len(to_send)} to send"
    print(f"{format_count(len(runs), 'run')}: {counts}", flush=True)
    if dry:
        finished_costs = estimate.read_finished(to_send, root)
        unfinished = estimate.list_unfinished(to_send)
        has_gpus = bool(gpus.list_gpus() if profile.executor == "local" else profile.gpus)
        print("\n".join(estimate.format_costs(unfinished, finished_costs, has_gpus)))
    if profile.executor == "slurm":
        return _send_slurm(profile, to_send, params_path, dry, root)
    if dry:
        return 0
    profile.require_local_gpus()
    return _send_local(todo, params_path, workers, profile.notify)


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


def _send_local(todo: Sequence[StoredRun], params_path: str, workers: int, variable: str) -> int:
    def post_failure(run: StoredRun, reason: str) -> None:
        notify.post(variable, News(f"{run.cell.name} failed", {"failed": 1}, {run.cell.name: reason}))

    failed = LocalRunDriver(todo, params_path, local_runs.divide_gpus(workers), on_failed=post_failure).drive()
    if failed:
        print(f"{len(failed)} of {len(todo)} runs failed; `compclip repro -k` publishes the others", file=sys.stderr)
    counts = {"runs": len(todo), "done": len(todo) - len(failed), "failed": len(failed)}
    if todo:
        notify.post(variable, News(f"launch ended: {counts['done']} of {len(todo)} runs done", counts, failed))
    return 1 if failed else 0


def _send_slurm(profile: Profile, todo: Sequence[StoredRun], params_path: str, dry: bool, root: Path) -> int:
    if dry and todo:
        options = submitit_options(profile, todo, root / ".work" / "code", root)
        print("\n".join(f"{name}: {value}" for name, value in options.items()))
    if dry:
        return 0
    writable = []
    for run in todo:
        try:
            jobs.write_inputs(run, params_path)
        except UserError as error:  # the others are sent without it
            print(f"{run.cell.name}: not sent: {error}", file=sys.stderr)
        else:
            writable.append(run)
    if writable:
        names = {run.key: run.cell.name for run in writable}
        for array_jobs in Slurm(profile, root).send(writable):
            for job in array_jobs:
                print(f"{names[job.folder.key]}: {job.label()}", flush=True)
        print("sent; `compclip repro` waits for them and publishes, `compclip status --watch` shows them")
    return 0 if len(writable) == len(todo) else 1


def cancel(params_path: str, stages: Sequence[str] = (), data: Sequence[str] = (), root: Path = Path(".")) -> int:
    """Stop the grid's live jobs, wait until they have saved, and forget them and those that failed before.

    With stages, those of their shards alone.
    """
    params = read.load_params(params_path)
    tasks = shard_tasks.find_tasks(stages or STAGES, data or list(params.data), root)
    folders = [task.folder for task in tasks]
    if not stages:
        try:
            folders += [run.folder for run in locate_runs(params, root)]
        except UserError as error:  # while the data's shards are made, runs have no keys
            if not tasks:
                raise
            messages.warn(f"jobs of shards are cancelled, those of runs are not: {error}")
    workers = []
    over = []
    for folder in folders:
        worker = jobs.find_worker(folder)
        if worker:
            workers.append(worker)
        elif jobs.find_job(folder):
            over.append(folder)
    stopped = _stop_workers(workers)
    idle = {*over, *(worker.folder for worker in stopped)}
    for folder in idle:
        jobs.forget_job(folder)
    for task in tasks:
        if task.folder in idle:
            task.forget()
    print(f"{format_count(len(stopped), 'job')} stopped, {len(over)} that were over forgotten; what they saved stays")
    return 0 if len(stopped) == len(workers) else 1


def _stop_workers(workers: Sequence[jobs.Worker]) -> list[jobs.Worker]:
    """Stop those that may be stopped from here, and wait until they have saved; print why the others work on."""
    stopped = []
    for worker in workers:
        try:
            worker.cancel()
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
        else:
            stopped.append(worker)
    deadline = time.monotonic() + CANCEL_S
    while any(worker.state() in jobs.LIVE for worker in stopped):
        if time.monotonic() > deadline:
            raise UserError(f"jobs still live after {CANCEL_S} s; look at `compclip status`, then try again")
        time.sleep(0.5)
    return stopped


def main(argv: list[str]) -> int:
    """Run the command `launch`."""
    parser = CommandParser(prog="compclip launch", description=__doc__, example="slurm/local.yaml -j 2")
    parser.add_argument("profile", help="a file such as slurm/local.yaml")
    help_text = "send jobs, which is the default, or cancel them"
    parser.add_argument("action", nargs="?", choices=("send", "cancel"), default="send", help=help_text)
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="processes at a time; default: the profile's")
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent")
    parser.add_argument("--track", action="store_true", help="show the runs in MLflow while they run")
    help_text = f"send its shards, not runs: {', '.join(STAGES)}"
    parser.add_argument("--stage", choices=STAGES, metavar="STAGE", help=help_text)
    help_text = "with --stage: data sets; default: the grid's"
    parser.add_argument("--data", nargs="+", default=(), metavar="NAME", help=help_text)
    parser.add_argument("--shards-per-task", type=int, metavar="N", help="with --stage: shards of a cluster's job")
    parser.add_grid()
    refuse_values(argv)
    args = parser.parse_args(argv)
    profile = profiles.load_profile(args.profile)
    for option, number in (("-j", args.jobs), ("--shards-per-task", args.shards_per_task)):
        if number is not None and number < 1:
            raise UserError(f"{option} {number}: must be >= 1")
    if not args.stage and (args.data or args.shards_per_task):
        raise UserError("--data, --shards-per-task: are of shards; give --stage too, or leave them out")
    with contextlib.nullcontext() if args.dry_run else hold_exclusively(LOCK, BUSY):
        try:
            if args.action == "cancel":
                return cancel(args.params, [args.stage] if args.stage else (), args.data)
            if args.stage:
                return _send_shards(args, profile)
            if not args.dry_run and (args.track or follower.is_wanted()):
                follower.start_follower(args.params)
            return send(profile, args.params, args.dry_run, args.jobs or profile.jobs)
        except KeyboardInterrupt:
            print("stopped; jobs that run go on: the same command attaches, `cancel` ends them", file=sys.stderr)
            return 130


def _send_shards(args: argparse.Namespace, profile: Profile) -> int:
    from compclip.launch import shard_jobs  # loads the captions' annotator, which takes seconds

    params = read.load_params(args.params)
    root = Path(".")
    missing_inputs.require_inputs(params, root, here=profile.executor == "local")
    names = shard_jobs.select_data(args.stage, args.data, params)
    repro.make_stages(shard_jobs.list_prerequisites(args.stage, names, params), params, root)
    stages = [shard_jobs.find_missing(args.stage, name, params.data[name], root) for name in names]
    print("\n".join(shards.describe() for shards in stages), flush=True)
    if profile.executor == "slurm":
        shard_jobs.send_tasks(stages, profile, args.shards_per_task or 0, args.dry_run, root)
    elif not args.dry_run:
        for shards in stages:
            shards.complete_here(args.jobs or profile.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
