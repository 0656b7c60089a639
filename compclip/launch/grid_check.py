"""Is params.yaml valid, can each method be trained on each backbone, and is all there that the grid reads?

    compclip config check

The towers are tried by their configs alone (compclip/train/tower_check.py). A backbone whose config is not on this
machine is named and not tried. What trains in one process alone is said.
"""

# `compclip repro`, `launch` and `sweep` try the same of what they are to train (`require_towers`).

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import messages, worker_processes
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.config import __main__ as config_command
from compclip.config import grid
from compclip.fetch import missing_inputs
from compclip.interface.method import load_method
from compclip.runs import run_store

if TYPE_CHECKING:
    from compclip.config.grid import Run


def main(argv: list[str]) -> int:
    """Check params.yaml, and print what its towers refuse and what it reads that is not there."""
    parser = CommandParser(prog="compclip config check", description=__doc__, example="train.lr=1e-5")
    parser.add_grid("parameters to override")
    args = parser.parse_intermixed_args(argv)
    params, counts = config_command.check_grid(args.params, args.overrides)
    missing_inputs.require_inputs(params)  # before torch is loaded
    kinds = _list_kinds(grid.resolve_all(params))
    refusals = find_refusals(kinds)
    _print(refusals)
    if refusals:
        return 2
    trainings = {(run.cell.backbone, repr(run.train)): run for run in kinds}
    for refusal in find_refusals(trainings.values(), processes=2):
        messages.warn(f"one process a run alone trains {refusal}")
    for name in sorted(set(params.grid.backbones)):
        if read_config(params.backbones[name].model) is None:
            messages.warn(f"backbones.{name}: its config is not on this machine; its towers are not tried")
    print(f"{args.params}: {counts}: OK")
    return 0


def require_towers(runs: Iterable[Run], root: Path = Path("."), processes: int = 1) -> None:
    """Print what towers refuse of runs that are not finished, and leave with exit code 2 where something is.

    Where torch is not loaded another process does it: this one may wait for days. What that cannot look at, for want
    of memory, the training refuses.
    """
    finished = {run.name: _text(run.resolved) for run in run_store.list_planned(root) if run.folder.finished}
    kinds = _list_kinds(run for run in runs if finished.get(run.cell.name) != _text(run.plain))
    refusals: list[str] = []
    if kinds and "torch" in sys.modules:
        refusals = find_refusals(kinds, processes)
    elif kinds:
        with (
            contextlib.suppress(BrokenProcessPool),
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), worker_processes.end_with_parent) as pool,
        ):
            refusals = pool.submit(find_refusals, kinds, processes).result()
    _print(refusals)
    if refusals:
        raise SystemExit(2)


def _text(resolved: Mapping[str, Any]) -> str:
    return json.dumps(resolved, sort_keys=True)


def _print(refusals: Iterable[str]) -> None:
    for refusal in refusals:
        print(f"error: {one_line(refusal)}", file=sys.stderr)


def find_refusals(kinds: Iterable[Run], processes: int = 1) -> list[str]:
    """Return a line for each run whose backbone's towers refuse its method, or an option of its training."""
    from compclip.train import tower_check

    read = functools.cache(read_config)
    refusals = []
    for run in kinds:
        model_cfg = read(run.backbone.model)
        try:
            if model_cfg is not None:
                tower_check.check_cell(run, load_method(run.method_name), model_cfg, processes)
        except UserError as error:
            refusals.append(f"methods.{run.cell.method} on backbones.{run.cell.backbone}: {error}")
    return refusals


def _list_kinds(runs: Iterable[Run]) -> list[Run]:
    """Return a run of each method, backbone and training; seeds and data sets decide no refusal."""
    kinds = {}
    for run in runs:
        if load_method(run.method_name).TRAINS:
            kinds[run.cell.method, run.cell.backbone, repr(run.method), repr(run.train)] = run
    return list(kinds.values())


def read_config(model: str) -> dict[str, Any] | None:
    """Return the config of a backbone's `model`, in open_clip's format; None where this machine has not all of it."""
    from compclip.model import backbone, hub_cache
    from compclip.model.clip_model import CONFIG

    reference = model.removeprefix("hf-hub:")
    if reference != model and not hub_cache.find_cached(reference, CONFIG):
        return None
    try:
        model_cfg = backbone.read_architecture(model)
    except UserError:  # its stage says so
        return None
    tower = (model_cfg or {}).get("text_cfg", {}).get("hf_model_name")
    is_there = not tower or Path(tower).is_dir() or hub_cache.find_cached(tower, "config.json")
    return model_cfg if is_there else None


if __name__ == "__main__":
    sys.exit(entry(main))
