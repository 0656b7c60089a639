"""Send all stale runs of the grid, or shards, at once: `python -m compclip.launch PROFILE`; `dvc repro` collects.

    python -m compclip.launch slurm/local.yaml -j 2    processes of this machine, two at a time, until all are over
    python -m compclip.launch slurm/a100.yaml          one array of a SLURM cluster; returns after submission
    python -m compclip.launch PROFILE --dry-run        what would be sent, and about what it will cost
    python -m compclip.launch PROFILE cancel           stop the grid's jobs and give up those that failed
    python -m compclip.launch PROFILE --stage recaption|rewrite|annotate [--data NAME ...]
                                                       the shards that a stage lacks of the grid's data sets

Runs that are finished or have a live job are not sent again. A run that was stopped, by whatever, goes on from its last
complete checkpoint when it is sent again. A shard is whole or missing: what is missing is sent.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.base.files import hold_exclusively
from compclip.config import read
from compclip.config.sections import Params
from compclip.launch import estimate, grid_runs, profiles
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm, recover_jobs, submitit_options
from compclip.runs import jobs, machine, notify, shard_tasks
from compclip.runs.jobs import Job
from compclip.runs.local_runs import LocalRunDriver
from compclip.runs.notify import News
from compclip.runs.requested_shards import STAGES
from compclip.runs.run_store import StoredRun

CANCEL_S = 120
LOCK = Path(".work/launch.lock")
BUSY = f"{LOCK}: process {{}} is sending runs already; wait for it or stop it"


def send(profile: Profile, params_path: str, dry: bool, workers: int, root: Path = Path(".")) -> int:
    """Send the stale runs of the grid; return 0 where nothing failed."""
    params = read.load_params(params_path)
    if not dry:
        grid_runs.prepare_inputs(params, root)
        recover_jobs(profile, root)
    runs = grid_runs.locate_runs(params, root)
    todo = grid_runs.list_stale(list(runs.values()), params, root)
    live = {p.key: job for p in todo if (job := jobs.find_live_job(p.folder))}
    print(
        f"{len(runs)} runs: {len(runs) - len(todo)} finished, {len(live)} on their way, "
        f"{len(todo) - len(live)} to send",
        flush=True,
    )
    if dry:
        print("\n".join(list_costs(profile, [p for p in todo if p.key not in live], root)))
    if profile.executor == "local":
        return 0 if dry else _send_local(todo, params_path, workers, profile.notify)
    return _send_slurm(profile, [p for p in todo if p.key not in live], params_path, dry, root)


def list_costs(profile: Profile, todo: Sequence[StoredRun], root: Path) -> list[str]:
    """Estimate what each remaining run will cost where the profile sends it, and their sum, as lines."""
    on_gpu = bool(machine.list_gpus() if profile.executor == "local" else profile.gpus)
    return estimate.format_costs(estimate.list_unfinished(todo), estimate.read_finished(todo, root), on_gpu)


def _send_local(todo: Sequence[StoredRun], params_path: str, workers: int, variable: str) -> int:
    def post_failure(run: StoredRun, reason: str) -> None:
        notify.post(variable, News(f"{run.cell.name} failed", {"failed": 1}, {run.cell.name: reason}))

    failed = LocalRunDriver(todo, params_path, machine.divide_gpus(workers), on_failed=post_failure).drive()
    if failed:
        print(f"{len(failed)} of {len(todo)} runs failed; `dvc repro -k` publishes the others", file=sys.stderr)
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
    writable = [p for p in todo if _write_inputs(p, params_path)]
    if writable:
        submitted = Slurm(profile, root).submit_all(writable, params_path)
        print("\n".join(f"{p.cell.name}: job {job.id}" for p, job in zip(writable, submitted, strict=True)))
        print("sent; `dvc repro` waits for them and publishes, `python -m compclip status --watch` shows them")
    return 0 if len(writable) == len(todo) else 1


def _write_inputs(run: StoredRun, params_path: str) -> bool:
    """Write what a run's job reads; False where its folder cannot be written, and the others are sent without it."""
    try:
        jobs.write_inputs(run, params_path)
    except UserError as error:
        print(f"{run.cell.name}: not sent: {error}", file=sys.stderr)
        return False
    return True


def cancel(params_path: str, stages: Sequence[str] = (), data: Sequence[str] = (), root: Path = Path(".")) -> int:
    """Stop the grid's live jobs, wait until they have saved, and forget them and those that failed before.

    With stages, those of their shards alone.
    """
    params = read.load_params(params_path)
    tasks = shard_tasks.find_tasks(stages or STAGES, data or list(params.data), root)
    grid_jobs = [job for task in tasks if (job := jobs.find_job(task.folder))]
    grid_jobs += [] if stages else _find_run_jobs(params, root, bool(tasks))
    live = [job for job in grid_jobs if job.state() in jobs.LIVE]
    for job in live:
        job.cancel()
    deadline = time.monotonic() + CANCEL_S
    while any(job.state() in jobs.LIVE for job in live):
        if time.monotonic() > deadline:
            raise UserError(f"jobs still live after {CANCEL_S} s; look at `python -m compclip status`, then try again")
        time.sleep(0.5)
    for job in grid_jobs:
        jobs.forget_job(job.folder)
    for task in tasks:
        task.forget()
    print(f"{len(live)} jobs stopped, {len(grid_jobs) - len(live)} that were over forgotten; what they saved stays")
    return 0


def _find_run_jobs(params: Params, root: Path, shards: bool) -> list[Job]:
    """Find the jobs of the grid's runs; none while the data's shards are made, since runs have no keys then."""
    try:
        return [job for p in grid_runs.locate_runs(params, root).values() if (job := jobs.find_job(p.folder))]
    except UserError as error:
        if not shards:
            raise
        print(f"of shards alone: {error}", file=sys.stderr)
        return []


def main(argv: list[str]) -> int:
    """Run the command `launch`."""
    parser = argparse.ArgumentParser(prog="python -m compclip.launch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("profile", help="a file such as slurm/local.yaml")
    parser.add_argument("action", nargs="?", choices=("send", "cancel"), default="send")
    parser.add_argument("-j", "--jobs", type=int, help="processes of this machine at a time; default: the profile's")
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent")
    parser.add_argument("--stage", choices=STAGES, help="send the shards that this stage lacks, in place of runs")
    parser.add_argument("--data", nargs="+", default=(), help="with --stage: these data sets; default: the grid's")
    parser.add_argument("--shards-per-task", type=int, help="with --stage: how many shards a job of the cluster makes")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    profile = profiles.load_profile(args.profile)
    _check_options(args)
    with contextlib.nullcontext() if args.dry_run else hold_exclusively(LOCK, BUSY):
        try:
            if args.action == "cancel":
                return cancel(args.params, [args.stage] if args.stage else (), args.data)
            if args.stage:
                return _send_shards(args, profile)
            return send(profile, args.params, args.dry_run, args.jobs or profile.jobs)
        except KeyboardInterrupt:
            print("stopped; jobs that run go on: the same command attaches, `cancel` ends them", file=sys.stderr)
            return 130


def _check_options(args: argparse.Namespace) -> None:
    for option, number in (("-j", args.jobs), ("--shards-per-task", args.shards_per_task)):
        if number is not None and number < 1:
            raise UserError(f"{option} {number}: must be >= 1")
    if not args.stage and (args.data or args.shards_per_task):
        raise UserError("--data, --shards-per-task: are of shards; give --stage too, or leave them out")


def _send_shards(args: argparse.Namespace, profile: Profile) -> int:
    from compclip.launch.shard_sender import ShardSender  # loads the captions' annotator, which takes seconds

    sender = ShardSender(profile, args.jobs or profile.jobs, args.shards_per_task or 0, args.dry_run)
    return sender.send(args.stage, args.data, read.load_params(args.params))


if __name__ == "__main__":
    sys.exit(entry(main))
