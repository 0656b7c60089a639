"""Train runs of the grid.

    compclip train --method fsc_clip                   all cells of a method: the stage train@fsc_clip
    compclip train --cell fsc_clip-scenes-scenes-0     one cell, in this process (also under torchrun)
    compclip train --cell CELL train.max_steps=30      a trial with other values: in the store alone, never published

A run works in store/<run key>/ and is published, when done, as links in runs/<method>/<backbone-data-seed>/. One that
was killed goes on from its last complete checkpoint and ends with the same bits; one that is finished is published
without training. Where `compclip launch` sent a run, this waits for its job and publishes what that made. The
cells of a method train side by side, a process each; one that fails is named, and the others go on.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from compclip.base import messages, safe_names, worker_processes
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.runs import follower, run_store
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
    if todo:
        todo = run_store.unite_snapshots(todo, run_store.list_planned(root))
        from compclip.train import driver

        if follower.is_wanted():
            follower.start_follower(params, root)
        lost = driver.train_runs(todo, method, params, publish)
    count = sum(map(len, cells.values()))
    shared = count - len(cells)
    words = {"trained now": len(todo) - len(lost), "failed": len(lost), "finished before": len(cells) - len(todo)}
    counts = ", ".join(f"{number} {word}" for word, number in words.items() if number)
    same = f" (another's run: {format_count(shared, 'cell')})" if shared else ""
    print(f"{method}: {format_count(count, 'cell')}, {format_count(len(cells), 'run')}{same}: {counts}", flush=True)
    for name, reason in (failed | lost).items():
        print(f"error: {name}: {reason}", file=sys.stderr)
    run_store.write_trained(method, (run for equal_runs in cells.values() for run in equal_runs), root)
    return 1 if failed or lost else 0


def train_cell(name: str, params: str, overrides: Sequence[str]) -> int:
    """Train one cell in this process; return 130 where a person no longer waits for its job, else 0.

    It is published, but for a run with other values than those of the cell in the file.
    """
    import json

    from compclip.config import grid, read
    from compclip.runs import key_parts
    from compclip.train import driver

    run = run_store.locate_run(grid.resolve(read.load_params(params, overrides), name))
    is_first = not int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    if is_first and not run.adopt_if_finished():
        key_parts.take_over([run], run.root)
    is_trial = is_first and bool(overrides) and _has_other_values(run, params)
    try:
        driver.run_cell(run, publishes=not is_trial)
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
