"""Train runs of the grid.

    python -m compclip.train --method fsc_clip                   all cells of a method: the stage train@fsc_clip
    python -m compclip.train --cell fsc_clip-scenes-scenes-0     one cell, in this process (also under torchrun)

A run works in store/<run key>/ and is published, when done, as links in runs/<method>/<backbone-data-seed>/. One that
was killed goes on from its last complete checkpoint and ends with the same bits; one that is finished is published
without training. Where `python -m compclip.launch` sent a run, this waits for its job and publishes what that made. The
cells of a method train side by side, a process each; one that fails is named, and the others go on.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import safe_names, thread_waiting
from compclip.base.errors import UserError, entry
from compclip.base.safe_names import SafeName
from compclip.runs import run_store
from compclip.runs.run_store import StoredRun

if TYPE_CHECKING:
    import argparse

PARAMS = "params.yaml"


def train_method(method: SafeName, params: str, root: Path = Path(".")) -> int:
    """Train and publish every cell of a method; return 1 where one failed, else 0.

    What is finished costs no training and none of its imports.
    """
    cells: dict[str, list[StoredRun]] = defaultdict(list)
    for run in run_store.load_planned(method, root):
        cells[run.key].append(run)
    todo = [equal_runs[0] for equal_runs in cells.values() if not any(run.finished for run in equal_runs)]
    waiting, failed = {run.key for run in todo}, dict[str, str]()
    for equal_runs in (equal_runs for key, equal_runs in cells.items() if key not in waiting):
        failed |= _publish_cells(equal_runs)
    lost = _train_todo(todo, method, params, functools.partial(_publish_finished, cells, failed)) if todo else {}
    count = sum(map(len, cells.values()))
    print(f"{method}: {count} cells, {len(todo) - len(lost)} of {len(todo)} runs trained", flush=True)
    for name, reason in (failed | lost).items():
        print(f"error: {name}: {reason}", file=sys.stderr)
    run_store.write_trained(method, (run for equal_runs in cells.values() for run in equal_runs), root)
    return 1 if failed or lost else 0


def _publish_finished(cells: Mapping[str, Sequence[StoredRun]], failed: dict[str, str], run: StoredRun) -> None:
    """Publish a run that came to its end, in the place of every cell that it is."""
    failed |= _publish_cells(cells[run.key])


def _publish_cells(equal_runs: Sequence[StoredRun]) -> dict[str, str]:
    """Publish cells of one run; why those are not that could not be written."""
    failed = {}
    for run in equal_runs:
        try:
            run.publish()
        except UserError as error:
            failed[run.cell.name] = str(error)
    return failed


def _train_todo(
    todo: Sequence[StoredRun], method: str, params: str, on_finished: Callable[[StoredRun], None]
) -> dict[str, str]:
    from compclip.train import driver

    return driver.train_runs(todo, method, params, on_finished)


def _train_cell(args: argparse.Namespace) -> int:
    import json

    from compclip.config import grid, read
    from compclip.train import driver

    run = run_store.locate_run(grid.resolve(read.load_params(args.params, args.overrides), args.cell))
    try:
        driver.run_cell(run)
    except KeyboardInterrupt:
        print(f"{args.cell}: no longer waiting; its job goes on, and the same command waits again", file=sys.stderr)
        return 130
    if not int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0"))):
        print(json.dumps({"cell": args.cell, "run_key": run.key}))
    return 0


def main(argv: list[str]) -> int:
    """Train the cells of a method, or one cell."""
    os.environ.update(thread_waiting.passive_waiting(os.environ))  # before torch is loaded, which reads it
    if method := safe_names.parse_only_option(argv, "--method"):
        return train_method(method, PARAMS)
    args = _arguments(argv)
    return (
        train_method(safe_names.parse_name(args.method, "--method"), args.params) if args.method else _train_cell(args)
    )


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m compclip.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--method", help="a method of the grid, name or name.variant: all its cells")
    which.add_argument("--cell", help="method-backbone-data-seed of the grid")
    parser.add_argument("--params", default=PARAMS)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="with --cell")
    args = parser.parse_args(argv)
    if args.method and args.overrides:
        raise UserError(f"--method {args.method}: is trained as plan/ has it; leave out {args.overrides[0]}")
    return args


if __name__ == "__main__":
    sys.exit(entry(main))
