"""The stage `neighbours`: of each picture the nearest ones by a backbone: `compclip stage neighbours`.

    data/neighbours/<data>/<backbone>.npy     numbers of samples, nearest first: uint32 [N, K]
    data/neighbours/made.json                 of what each was made, and how many pictures could not be read

It makes what the methods of the grid ask for, and is done at once where none does. `--data NAME --backbone NAME` makes
those of a method outside of the grid, as of a sweep. What is there and still of the same data, backbone and code stays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from compclip.base import safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import atomic, read_mapping, update_json
from compclip.base.safe_names import SafeName
from compclip.config import plan
from compclip.config.cell import PRETRAINED, Cell
from compclip.runs import run_store
from compclip.runs.run_folder import NEIGHBOURS_RECORD, Inputs, read_neighbours_record

STAGE = "neighbours"
SPOOL = Path(".work/neighbours")


def write_missing(pairs: list[tuple[SafeName, SafeName]], code: str, root: Path = Path()) -> list[str]:
    """Make what is missing for pairs of data and backbone; gives what was made. Raises UserError for missing inputs."""
    records = read_neighbours_record(root)
    new_pairs = []
    for data, backbone in pairs:
        inputs = Inputs(root, Cell(SafeName(PRETRAINED, "method"), backbone, data, 0))
        pictures = run_store.hash_pictures(inputs)
        record = records.get(inputs.pair, {})
        is_current = record.get("code") == code and record.get("inputs") == pictures.all
        if not inputs.neighbours.is_file() or not is_current:
            records[inputs.pair] = {"inputs": pictures.all, "code": code} | _write_neighbours(inputs)
            update_json(root / NEIGHBOURS_RECORD, records)
            new_pairs.append(inputs.pair)
    update_json(root / NEIGHBOURS_RECORD, records)
    return new_pairs


def _write_neighbours(inputs: Inputs) -> dict[str, Any]:
    """Write the neighbours of one pair; gives what is to be known of them."""
    import numpy as np

    from compclip.data.prepared_dataset import PreparedDataset
    from compclip.model import backbone
    from compclip.train import distributed, nearest

    data = PreparedDataset(inputs.data)
    near_NK, unreadable = nearest.compute_neighbours(
        backbone.load(inputs.backbone, device=distributed.process_device()), data, inputs.root / SPOOL
    )
    with atomic(inputs.neighbours) as tmp, open(tmp, "wb") as file:
        np.save(file, near_NK)
    return {"samples": len(data), "unreadable": unreadable}


def main(argv: list[str]) -> int:
    """Run the stage `neighbours`, or make one pair of data and backbone."""
    parser = CommandParser(prog="compclip stage neighbours", description=__doc__.splitlines()[0], example="")
    parser.add_argument("--data", help="with --backbone: of this data set, whatever the grid asks for")
    parser.add_argument("--backbone", help="with --data: by the pictures' vectors of this backbone")
    args = parser.parse_args(argv)
    if bool(args.data) != bool(args.backbone):
        raise UserError("--data and --backbone: belong together; give both or neither")
    if args.data:
        pair = safe_names.parse_name(args.data, "--data"), safe_names.parse_name(args.backbone, "--backbone")
        new_pairs = write_missing([pair], plan.hash_stage_code(STAGE))
    else:
        path = plan.FOLDER / STAGE / f"{STAGE}.json"
        if not path.is_file():
            raise UserError(f"{path}: not there; run `dvc repro plan` first")
        with plan.reading(path):
            content = read_mapping(path)
            pairs = [(SafeName(data, "data"), SafeName(backbone, "backbone")) for data, backbone in content["pairs"]]
            code = content["code"]
        new_pairs = write_missing(pairs, code)
    print(f"{', '.join(new_pairs) or 'nothing'} made")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
