"""The stage `neighbours`: of each picture the nearest ones by a backbone: `python -m compclip.train.neighbours`.

    data/neighbours/<data>/<backbone>.npy     numbers of samples, nearest first: uint32 [N, K]
    data/neighbours/made.json                 of what each was made, and how many pictures could not be read

It makes what the methods of the grid ask for, and is done at once where none does. `--data NAME --backbone NAME` makes
those of a method outside of the grid, as of a sweep. What is there and still of the same data, backbone and code stays.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from compclip.base import names
from compclip.base.errors import UserError, entry
from compclip.base.files import atomic, read_mapping, update_json
from compclip.base.names import Name
from compclip.config import planned
from compclip.config.cell import PRETRAINED, Cell
from compclip.runs import store
from compclip.runs.folder import NEAR_MADE, Inputs, near_made

STAGE = "neighbours"
SPOOL = Path(".work/neighbours")


def bring(pairs: list[tuple[Name, Name]], code: str, root: Path = Path()) -> list[str]:
    """Make what is missing for pairs of data and backbone; gives what was made. Raises UserError for missing inputs."""
    known, done = near_made(root), []
    for data, backbone in pairs:
        given = Inputs(root, Cell(Name(PRETRAINED, "method"), backbone, data, 0))
        wanted = {"inputs": store.inputs(given).all, "code": code}
        if not given.near.is_file() or not wanted.items() <= known.get(given.pair, {}).items():
            known[given.pair] = wanted | _make(given)
            update_json(root / NEAR_MADE, known)
            done.append(given.pair)
    update_json(root / NEAR_MADE, known)
    return done


def _make(given: Inputs) -> dict[str, Any]:
    """Write the neighbours of one pair; gives what is to be known of them."""
    import numpy as np

    from compclip.data.prepared import Prepared
    from compclip.model import backbone
    from compclip.train import distributed, nearest

    data = Prepared(given.data)
    near_NK, unreadable = nearest.of(
        backbone.load(given.backbone, device=distributed.device()), data, given.root / SPOOL
    )
    with atomic(given.near) as tmp, open(tmp, "wb") as file:
        np.save(file, near_NK)
    return {"samples": len(data), "unreadable": unreadable}


def _planned(root: Path) -> tuple[list[tuple[Name, Name]], str]:
    """What the plan asks for, and with which code."""
    path = root / planned.FOLDER / STAGE / f"{STAGE}.json"
    if not path.is_file():
        raise UserError(f"{path}: not there; run `dvc repro plan` first")
    with planned.undamaged(path):
        found = read_mapping(path)
        return [(Name(data, "data"), Name(backbone, "backbone")) for data, backbone in found["pairs"]], found["code"]


def main(argv: list[str]) -> int:
    """The stage `neighbours`, or one pair of data and backbone."""
    parser = argparse.ArgumentParser(prog="python -m compclip.train.neighbours", description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="with --backbone: of this data set, whatever the grid asks for")
    parser.add_argument("--backbone")
    args = parser.parse_args(argv)
    if bool(args.data) != bool(args.backbone):
        raise UserError("--data and --backbone: belong together; give both or neither")
    if args.data:
        from compclip.config import plan

        pair = names.given(args.data, "--data"), names.given(args.backbone, "--backbone")
        done = bring([pair], plan.code_of(STAGE))
    else:
        done = bring(*_planned(Path()))
    print(f"{', '.join(done) or 'nothing'} made")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
