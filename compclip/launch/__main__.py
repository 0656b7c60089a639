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
from compclip.base.files import sole
from compclip.config import read
from compclip.config.asked import STAGES
from compclip.config.sections import Params
from compclip.launch import estimate, grid, profiles
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm, parameters, recovered
from compclip.runs import jobs, machine, notify, tasks
from compclip.runs.jobs import Job
from compclip.runs.local import SideBySide
from compclip.runs.notify import News
from compclip.runs.store import StoredRun

CANCEL_S = 120
LOCK = Path(".work/launch.lock")
BUSY = f"{LOCK}: process {{}} is sending runs already; wait for it or stop it"


def send(profile: Profile, params_path: str, dry: bool, workers: int, root: Path = Path(".")) -> int:
    """Send what is stale; 0 where nothing failed."""
    params = read.load(params_path)
    if not dry:
        grid.prepare(params, root)
    if not dry:
        recovered(profile, root)
    every = grid.runs(params, root)
    todo = grid.stale(list(every.values()), params, root)
    live = {p.key: job for p in todo if (job := jobs.attach(p.folder))}
    print(
        f"{len(every)} runs: {len(every) - len(todo)} finished, {len(live)} on their way, "
        f"{len(todo) - len(live)} to send",
        flush=True,
    )
    if dry:
        print("\n".join(costs(profile, [p for p in todo if p.key not in live], root)))
    if profile.executor == "local":
        return 0 if dry else _local(todo, params_path, workers, profile.notify)
    return _slurm(profile, [p for p in todo if p.key not in live], params_path, dry, root)


def costs(profile: Profile, todo: Sequence[StoredRun], root: Path) -> list[str]:
    """What each run that is left will cost where the profile sends it, and all together."""
    on_gpu = bool(machine.gpus() if profile.executor == "local" else profile.gpus)
    return estimate.report(estimate.asked(todo), estimate.finished(todo, root), on_gpu)


def _local(todo: Sequence[StoredRun], params_path: str, workers: int, variable: str) -> int:
    def lost(stored: StoredRun, reason: str) -> None:
        notify.post(variable, News(f"{stored.cell.name} failed", {"failed": 1}, {stored.cell.name: reason}))

    failed = SideBySide(todo, params_path, machine.slots_for(workers), lost=lost).drive()
    if failed:
        print(f"{len(failed)} of {len(todo)} runs failed; `dvc repro -k` publishes the others", file=sys.stderr)
    counts = {"runs": len(todo), "done": len(todo) - len(failed), "failed": len(failed)}
    if todo:
        notify.post(variable, News(f"launch ended: {counts['done']} of {len(todo)} runs done", counts, failed))
    return 1 if failed else 0


def _slurm(profile: Profile, todo: Sequence[StoredRun], params_path: str, dry: bool, root: Path) -> int:
    if dry and todo:
        options = parameters(profile, todo, root / ".work" / "code", root)
        print("\n".join(f"{name}: {value}" for name, value in options.items()))
    if dry:
        return 0
    ready = [p for p in todo if _writable(p, params_path)]
    if ready:
        sent = Slurm(profile, root).submit_all(ready, params_path)
        print("\n".join(f"{p.cell.name}: job {job.id}" for p, job in zip(ready, sent, strict=True)))
        print("sent; `dvc repro` waits for them and publishes, `python -m compclip status --watch` shows them")
    return 0 if len(ready) == len(todo) else 1


def _writable(stored: StoredRun, params_path: str) -> bool:
    """Whether a run's folder takes what its job reads; the others are sent without it."""
    try:
        jobs.write_inputs(stored, params_path)
    except UserError as error:
        print(f"{stored.cell.name}: not sent: {error}", file=sys.stderr)
        return False
    return True


def cancel(params_path: str, stages: Sequence[str] = (), data: Sequence[str] = (), root: Path = Path(".")) -> int:
    """Stop the grid's live jobs, wait until they have saved, and forget them and those that failed before.

    With stages, those of their shards alone.
    """
    params = read.load(params_path)
    sent = tasks.of(stages or STAGES, data or list(params.data), root)
    found = [job for task in sent if (job := jobs.find(task.folder))]
    found += [] if stages else _jobs_of_runs(params, root, bool(sent))
    live = [job for job in found if job.state() in jobs.LIVE]
    for job in live:
        job.cancel()
    deadline = time.monotonic() + CANCEL_S
    while any(job.state() in jobs.LIVE for job in live):
        if time.monotonic() > deadline:
            raise UserError(f"jobs still live after {CANCEL_S} s; look at `python -m compclip status`, then try again")
        time.sleep(0.5)
    for job in found:
        jobs.forget(job.folder)
    for task in sent:
        task.forget()
    print(f"{len(live)} jobs stopped, {len(found) - len(live)} that were over forgotten; what they saved stays")
    return 0


def _jobs_of_runs(params: Params, root: Path, shards: bool) -> list[Job]:
    """Those of the grid; as long as shards are made there may be none, and runs have no keys."""
    try:
        return [job for p in grid.runs(params, root).values() if (job := jobs.find(p.folder))]
    except UserError as error:
        if not shards:
            raise
        print(f"of shards alone: {error}", file=sys.stderr)
        return []


def main(argv: list[str]) -> int:
    """Send or cancel."""
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
    profile = profiles.load(args.profile)
    _check(args)
    with contextlib.nullcontext() if args.dry_run else sole(LOCK, BUSY):
        try:
            if args.action == "cancel":
                return cancel(args.params, [args.stage] if args.stage else (), args.data)
            if args.stage:
                return _shards(args, profile)
            return send(profile, args.params, args.dry_run, args.jobs or profile.jobs)
        except KeyboardInterrupt:
            print("stopped; jobs that run go on: the same command attaches, `cancel` ends them", file=sys.stderr)
            return 130


def _check(args: argparse.Namespace) -> None:
    for option, number in (("-j", args.jobs), ("--shards-per-task", args.shards_per_task)):
        if number is not None and number < 1:
            raise UserError(f"{option} {number}: must be >= 1")
    if not args.stage and (args.data or args.shards_per_task):
        raise UserError("--data, --shards-per-task: are of shards; give --stage too, or leave them out")


def _shards(args: argparse.Namespace, profile: Profile) -> int:
    from compclip.launch.shards import Sender  # which loads what analyses captions: seconds

    sender = Sender(profile, args.jobs or profile.jobs, args.shards_per_task or 0, args.dry_run)
    return sender.send(args.stage, args.data, read.load(args.params))


if __name__ == "__main__":
    sys.exit(entry(main))
