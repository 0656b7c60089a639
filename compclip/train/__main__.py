"""Train runs of the grid.

    compclip train --method fsc_clip                   all cells of a method: the stage train@fsc_clip
    compclip train --cell fsc_clip-scenes-scenes-0     one cell, in this process (also under torchrun)
    compclip train --cell CELL train.max_steps=30      a trial with other values: in the store alone, never published

A run works in store/<run key>/ and is published, when done, as links in runs/<method>/<backbone-data-seed>/. One that
was killed goes on from its last complete checkpoint and ends with the same bits; one that is finished is published
without training. Where `compclip repro --on` sent a run, this waits for its job and publishes what that made. The
cells of a method train side by side, a process each; one that fails is named, and the others go on.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from compclip.base import messages, safe_names, worker_processes
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import read_mapping
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.runs import follower, jobs, local_runs, run_store
from compclip.runs.local_runs import DriverStopped, LocalRunDriver
from compclip.runs.progress import Follower
from compclip.runs.run_store import StoredRun


def train_method(method: SafeName, params: str, root: Path = Path(".")) -> int:
    """Train and publish every cell of a method; return 1 where one failed, else 0.

    What is finished costs no training and none of its imports.
    """
    cells: dict[str, list[StoredRun]] = defaultdict(list)
    for run in run_store.load_planned(method, root):
        cells[run.key].append(run)
    failed: dict[str, str] = {}

    def publish(run: StoredRun) -> None:
        """Publish a finished run in the place of every cell that it is."""
        for equal_run in cells[run.key]:
            try:
                equal_run.publish()
            except UserError as error:
                failed[equal_run.cell.name] = str(error)

    unfinished = [runs[0] for runs in cells.values() if not any(run.adopt_if_finished() for run in runs)]
    if unfinished:
        from compclip.runs import key_parts

        key_parts.take_over(unfinished, root)
    todo = []
    for equal_runs in cells.values():
        if any(run.adopt_if_finished() for run in equal_runs) and equal_runs[0].adopt_if_complete():
            publish(equal_runs[0])
        else:
            todo.append(equal_runs[0])
    lost = {}
    trained_before = {run.key for run in todo if run.folder.finished}  # whose snapshots are made now
    if todo:
        todo = run_store.unite_snapshots(todo, run_store.list_planned(root))
        if follower.is_wanted():
            follower.start_follower(params, root)
        lost = train_runs(todo, method, params, publish)
    count = sum(map(len, cells.values()))
    trains = read_mapping(root / run_store.PLAN / f"{method}.json").get("trains")
    ours = sum(run.key in trained_before or _is_trained_here(run) for run in todo if run.cell.name not in lost)
    words = {
        "trained now" if trains else "taken over untrained": ours,
        "trained by another command": len(todo) - len(lost) - ours,
        "failed": len(lost),
        "finished before": len(cells) - len(todo),
    }
    counts = ", ".join(f"{number} {word}" for word, number in words.items() if number)
    same = " (equal cells share one)" if count > len(cells) else ""
    print(f"{method}: {format_count(count, 'cell')}, {format_count(len(cells), 'run')}{same}: {counts}", flush=True)
    for name, reason in (failed | lost).items():
        print(f"error: {name}: {one_line(reason)}", file=sys.stderr)
    run_store.write_trained(method, (run for equal_runs in cells.values() for run in equal_runs), root)
    return 1 if failed or lost else 0


def _is_trained_here(run: StoredRun) -> bool:
    """Return whether this process started the one that trained a run; two commands may bring one store up to date."""
    facts = run.folder.final.facts()
    return (facts.get("host"), facts.get("started_by")) == (socket.gethostname(), os.getpid())


def train_cell(name: str, params: str, overrides: Sequence[str]) -> int:
    """Train one cell in this process; return 130 where a person no longer waits for its job, else 0.

    It is published, but for a run with other values than those of the cell in the file.
    """
    import json

    from compclip.config import grid, read
    from compclip.runs import key_parts

    run = run_store.locate_run(grid.resolve(read.load_params(params, overrides), name))
    is_first = not int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    if is_first and not run.adopt_if_finished():
        key_parts.take_over([run], run.root)
    is_trial = is_first and bool(overrides) and _has_other_values(run, params)
    try:
        run_cell(run, publishes=not is_trial)
    except KeyboardInterrupt:
        print(f"{name}: no longer waiting; its job goes on, and the same command waits again", file=sys.stderr)
        return 130
    if is_trial:
        messages.note(f"{name}: with other values than in {params}, so it stays in {run.folder.path}")
    if is_first:
        print(json.dumps({"cell": name, "run_key": run.key}))
    return 0


def _has_other_values(run: StoredRun, params: str) -> bool:
    """Return whether the file has the run's cell, and as another run."""
    from compclip.config import grid, read

    file_params = read.load_params(params)
    if run.cell not in grid.list_cells(file_params):
        return False
    return run_store.locate_run(grid.resolve(file_params, run.cell.name)).key != run.key


# Runs of a method that are not there yet: trained side by side here, or waited for where a job was sent.


def train_runs(
    todo: Sequence[StoredRun], method: str, params: str, on_finished: Callable[[StoredRun], None]
) -> dict[str, str]:
    """Train runs side by side; call `on_finished` for each that is done, and return why others failed, by cell name."""
    given_up = {run.cell.name: why for run in todo if (why := _failed_on_cluster(run))}
    runs_to_train = [run for run in todo if run.cell.name not in given_up]
    threads = max((run.threads for run in runs_to_train), default=1)
    driver = LocalRunDriver(
        runs_to_train,
        params,
        local_runs.list_slots(threads),
        jobs.TRAINS,
        on_finished,
        should_stop=_orphan_check(),
    )
    previous = signal.signal(signal.SIGTERM, local_runs.raise_stopped)
    try:
        return given_up | driver.drive()
    except KeyboardInterrupt:
        print("stopping; what trains saves first, and the same command goes on", file=sys.stderr, flush=True)
        driver.stop()
        raise SystemExit(130) from None
    except DriverStopped:
        raise SystemExit(local_runs.report_detached(driver, f"compclip repro train@{method}")) from None
    finally:
        signal.signal(signal.SIGTERM, previous)  # what publishes afterwards ends by it as any command


def _orphan_check() -> Callable[[], bool]:
    """Return a function that says whether a parent process (`compclip repro`, or the shell between) has ended."""
    parents = _ancestors()
    return lambda: _ancestors() != parents


def _ancestors() -> tuple[int, int]:
    parent = os.getppid()
    try:
        stat = Path(f"/proc/{parent}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return parent, 0
    return parent, int(stat.rpartition(")")[2].split()[1])


def _failed_on_cluster(run: StoredRun) -> str:
    """Return why a run is not trained here: its folder cannot be used, or its job on a cluster failed; else "".

    What needs a cluster should not start here by itself. A process of this machine that is gone is no obstacle.
    """
    try:
        job = jobs.find_job(run.folder)
        worker = jobs.find_worker(run.folder)
    except UserError as error:
        return str(error)
    if worker or not isinstance(job, jobs.SlurmJob) or job.state() != jobs.FAILED:
        return ""
    return _report_cluster_failure(run, job)


def _report_cluster_failure(run: StoredRun, job: jobs.Job) -> str:
    _, lines = jobs.read_end(run.folder)
    print("\n".join(f"    {line}" for line in lines), file=sys.stderr)
    return (
        f"{job.label()} failed: {job.reason()}; `compclip repro --on PROFILE` goes on from its last checkpoint, or "
        "`compclip launch PROFILE cancel` and it is trained here"
    )


def run_cell(run: StoredRun, publishes: bool = True) -> None:
    """Publish one cell's files, after its job has trained it where one was sent, else after training it here.

    Started by torchrun or srun, the processes share the training; the first one waits, locks and publishes. Without
    `publishes` the run stays in the store alone.
    """
    from compclip.train import job, process_group

    if process_group.read_process().rank == 0:
        _await_job(run)
    job.hold_and_complete(run)
    if publishes and process_group.read_process().rank == 0:
        run.publish()


def _await_job(run: StoredRun) -> None:
    """Wait for who works on the run. Raises UserError with the reason where a job ended without finishing it."""
    worker = jobs.find_worker(run.folder)
    job = worker or jobs.find_job(run.folder)
    if worker:
        state = worker.state()
        reason = f", {worker.waits_by}" if worker.waits_by else ""
        print(f"{run.cell.name}: {worker.label()} trains this run ({state}{reason}); waiting for it", flush=True)
        jobs.wait_for_job(worker, Follower(run))
    elif isinstance(job, jobs.LocalJob):
        return
    if isinstance(job, jobs.Job) and job.state() == jobs.FAILED and not run.adopt_if_finished():
        raise UserError(f"{run.cell.name}: {_report_cluster_failure(run, job)}")


def main(argv: list[str]) -> int:
    """Train the cells of a method, or one cell."""
    os.environ.update(worker_processes.passive_waiting(os.environ))  # before torch is loaded, which reads it
    parser = CommandParser(prog="compclip train", description=__doc__, example="--cell fsc_clip-scenes-scenes-0")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--method", help="a method of the grid, name or name.variant: all its cells")
    which.add_argument("--cell", help="method-backbone-data-seed of the grid")
    parser.add_grid("parameters to override, with --cell")
    args = parser.parse_args(argv)
    if args.cell:
        return train_cell(args.cell, args.params, args.overrides)
    if args.overrides:
        raise UserError(f"--method {args.method}: is trained as plan/ has it; leave out {args.overrides[0]}")
    return train_method(safe_names.parse_name(args.method, "--method"), args.params)


if __name__ == "__main__":
    sys.exit(entry(main))
