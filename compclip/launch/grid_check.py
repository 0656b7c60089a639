"""Is params.yaml valid, can each method be trained on each backbone, and is all there that the grid reads?

    compclip config check

The towers are tried by their configs alone (compclip/train/tower_check.py). A backbone whose config is not on this
machine is named and not tried.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.config import __main__ as config_command
from compclip.config import grid
from compclip.fetch import missing_inputs
from compclip.interface.method import load_method

if TYPE_CHECKING:
    from compclip.config.grid import Run
    from compclip.config.sections import Params


def main(argv: list[str]) -> int:
    """Check params.yaml, and print what its towers refuse and what it reads that is not there."""
    parser = CommandParser(prog="compclip config check", description=__doc__, example="train.lr=1e-5")
    parser.add_grid("parameters to override")
    args = parser.parse_intermixed_args(argv)
    params, counts = config_command.check_grid(args.params, args.overrides)
    missing_inputs.require_inputs(params)  # before torch is loaded
    refusals = list(find_refusals(params))
    for refusal in refusals:
        print(f"error: {one_line(refusal)}", file=sys.stderr)
    if refusals:
        return 2
    print(f"{args.params}: {counts}: OK")
    return 0


def find_refusals(params: Params) -> Iterator[str]:
    """Yield a line for each method on a backbone whose towers refuse it, or an option of its training."""
    from compclip.train import tower_check

    configs = {name: read_config(section.model) for name, section in params.backbones.items()}
    for run in _list_kinds(grid.resolve_all(params)):
        model_cfg = configs[run.cell.backbone]
        if model_cfg is None:
            continue
        try:
            tower_check.check_cell(run, load_method(run.method_name), model_cfg)
        except UserError as error:
            yield f"methods.{run.cell.method} on backbones.{run.cell.backbone}: {error}"
    for name in sorted(set(params.grid.backbones)):
        if configs[name] is None:
            messages.warn(f"backbones.{name}: its config is not on this machine; its towers are not tried")


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
