"""Stop the grid's jobs, or send the shards that a stage lacks; runs are sent by `compclip repro --on PROFILE`.

    compclip launch PROFILE cancel          stop the grid's jobs
    compclip launch PROFILE --stage annotate --data NAME
                                            the shards that a stage lacks
    compclip launch PROFILE                 as `compclip repro --on PROFILE`

A shard is whole or missing; `compclip repro` waits for those that were sent, and collects.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser, positive_int, refuse_values
from compclip.base.errors import UserError, entry
from compclip.base.files import hold_exclusively
from compclip.base.messages import format_count
from compclip.config import read
from compclip.fetch import missing_inputs
from compclip.launch import profiles, repro, run_jobs
from compclip.launch.profiles import Profile
from compclip.runs import jobs, shard_tasks
from compclip.runs.shard_tasks import STAGES

CANCEL_S = 120


def cancel(params_path: str, stages: Sequence[str] = (), data: Sequence[str] = (), root: Path = Path(".")) -> int:
    """Stop the grid's live jobs, wait until they have saved, and forget them and those that failed before.

    With stages, those of their shards alone.
    """
    params = read.load_params(params_path)
    tasks = shard_tasks.find_tasks(stages or STAGES, data or list(params.data), root)
    folders = [task.folder for task in tasks]
    if not stages:
        try:
            folders += [run.folder for run in run_jobs.locate_runs(params, root)]
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
    parser = CommandParser(prog="compclip launch", description=__doc__, example="slurm/a100.yaml cancel")
    parser.add_argument("profile", help="a file such as slurm/a100.yaml")
    parser.add_argument("action", nargs="?", choices=("cancel",), help="stop the grid's jobs")
    parser.add_argument("--stage", choices=STAGES, metavar="STAGE", help=f"whose shards: {', '.join(STAGES)}")
    help_text = "with --stage: data sets; default: the grid's"
    parser.add_argument("--data", nargs="+", default=(), metavar="NAME", help=help_text)
    help_text = "with --stage: shards of a cluster's job"
    parser.add_argument("--shards-per-task", type=positive_int, metavar="N", help=help_text)
    parser.add_argument("--dry-run", action="store_true", help="with --stage: print what would be sent")
    help_text = "with --stage: processes of this machine; default: the profile's"
    parser.add_argument("-j", "--jobs", type=positive_int, metavar="N", help=help_text)
    parser.add_grid()
    refuse_values(argv)
    args, words = parser.parse_known_args(argv)
    if not args.action and not args.stage:
        return repro.main(["--on", args.profile, *(word for word in argv if word != args.profile)])
    if words:
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    if not args.stage and (args.data or args.shards_per_task):
        raise UserError("--data, --shards-per-task: are of shards; give --stage too, or leave them out")
    profile = profiles.load_profile(args.profile)
    with contextlib.nullcontext() if args.dry_run else hold_exclusively(run_jobs.LOCK, run_jobs.BUSY):
        if args.action == "cancel":
            return cancel(args.params, [args.stage] if args.stage else (), args.data)
        return _send_shards(args, profile)


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
