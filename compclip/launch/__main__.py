"""Send all stale runs of the grid at once: `python -m compclip.launch slurm/local.yaml -j 2`; `dvc repro` collects.

    python -m compclip.launch slurm/local.yaml -j 2    processes of this machine, two at a time, until all are over
    python -m compclip.launch slurm/a100.yaml          one array of a SLURM cluster; returns after submission
    python -m compclip.launch PROFILE --dry-run        what would be sent, and about what it will cost
    python -m compclip.launch PROFILE cancel           stop the grid's jobs and give up those that failed

Runs that are finished or have a live job are not sent again. A run that was stopped, by whatever, goes on from its last
complete checkpoint when it is sent again.
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
from compclip.launch import estimate, grid, profiles
from compclip.launch.profiles import Profile
from compclip.launch.slurm import Slurm, parameters
from compclip.runs import jobs, machine, notify
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
    if profile.executor == "slurm" and not dry and (found := Slurm(profile, root).recover()):
        print(f"{found} jobs of an interrupted command found in the queue")
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


def cancel(params_path: str, root: Path = Path(".")) -> int:
    """Stop the grid's live jobs, wait until they have saved, and forget them and those that failed before."""
    found = [job for p in grid.runs(read.load(params_path), root).values() if (job := jobs.find(p.folder))]
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
    print(f"{len(live)} jobs stopped, {len(found) - len(live)} that were over forgotten; what they saved stays")
    return 0


def main(argv: list[str]) -> int:
    """Send or cancel."""
    parser = argparse.ArgumentParser(prog="python -m compclip.launch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("profile", help="a file such as slurm/local.yaml")
    parser.add_argument("action", nargs="?", choices=("send", "cancel"), default="send")
    parser.add_argument("-j", "--jobs", type=int, help="processes of this machine at a time; default: the profile's")
    parser.add_argument("--dry-run", action="store_true", help="print what would be sent")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    profile = profiles.load(args.profile)
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"-j {args.jobs}: must be >= 1")
    with contextlib.nullcontext() if args.dry_run else sole(LOCK, BUSY):
        try:
            if args.action == "cancel":
                return cancel(args.params)
            return send(profile, args.params, args.dry_run, args.jobs or profile.jobs)
        except KeyboardInterrupt:
            print("stopped; jobs that run go on: the same command attaches, `cancel` ends them", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(entry(main))
