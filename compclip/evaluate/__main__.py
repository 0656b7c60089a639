"""Checkpoint x benchmarks -> results/<benchmark>.json.

python -m compclip.evaluate --cell NAME                                     a cell of the grid, into runs/<cell>/results
python -m compclip.evaluate --checkpoint F [--benchmarks a b] [--out DIR]   any open_clip checkpoint, a table on stdout

F is a folder in open_clip's format, a weights file with --model, or MODEL::TAG. Parameters follow as key=value.
What the job of a cell has scored already is taken over.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from compclip.base.errors import UserError, entry
from compclip.base.files import read_json
from compclip.config import grid, read
from compclip.evaluate.score import PRETRAINED, Job, kept, load_benchmarks, publish, run, table, warnings, write
from compclip.model import backbone


def _kept_by_cell(job: Job, name: str, root: Path) -> dict[str, dict] | None:
    """The results that the job of a cell made, found by the run key that its published files name."""
    facts = root / "runs" / name / "environment.json"
    if not name or not facts.is_file():
        return None
    return kept(job, root / ".work" / read_json(facts).get("run_key", "none") / "final")


def cell_checkpoint(cell: Any, root: Path) -> Path:
    """The checkpoint of a cell: its own, or for the method `pretrained` the backbone as the stage of that name made it.

    Raises UserError where it was not made yet.
    """
    own = root / "runs" / cell.name / "checkpoint"
    base = root / "models" / cell.backbone
    path = base if cell.method == PRETRAINED and not own.exists() else own
    if not path.exists():
        stage = f"train@{cell.name}" if path == own else "backbone"
        raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    return path


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Evaluate a cell or a checkpoint as the arguments say; 0, or UserError."""
    args, overrides = _arguments(argv)
    backbone.check(args.device, args.activation)
    params = read.load(args.params, overrides)
    benchmarks, module_of = load_benchmarks(params, args.benchmarks or params.evaluate.benchmarks)
    checkpoint = args.checkpoint or str(cell_checkpoint(grid.resolve(params, args.cell).cell, root))
    size, threads = params.evaluate.batch_size, params.evaluate.threads
    job = Job(
        checkpoint, benchmarks, module_of, size, threads, args.model, args.device, args.tokenizer, args.activation
    )
    documents = _kept_by_cell(job, args.cell, root) or run(job)
    for line in warnings(documents):
        print(line, file=sys.stderr)
    print(table(documents))
    if args.cell:
        publish(documents, root / "runs" / args.cell / "results")
    elif args.out:
        write(documents, Path(args.out))
    return 0


def _arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Arguments, and the key=value parameters among them (also those that follow --benchmarks)."""
    parser = argparse.ArgumentParser(prog="python -m compclip.evaluate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cell", default="", help="a cell of the grid; writes runs/<cell>/results")
    which.add_argument("--checkpoint", default="", help="folder, weights file or MODEL::TAG")
    parser.add_argument("--model", default="", help="open_clip architecture of a weights file")
    parser.add_argument("--tokenizer", default="", help="folder of a tokenizer, or clip: a stand-in")
    parser.add_argument("--activation", default="", help="gelu or quickgelu, of a weights file that does not tell")
    parser.add_argument(
        "--benchmarks", nargs="+", default=[], help="names, with --checkpoint; default: evaluate.benchmarks"
    )
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("--out", default="", help="folder for the results of --checkpoint")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="parameters to override")
    args = parser.parse_intermixed_args(argv)
    overrides = [a for a in (*args.overrides, *args.benchmarks) if "=" in a]
    args.benchmarks = [a for a in args.benchmarks if "=" not in a]
    _check_cell(args)
    return args, overrides


def _check_cell(args: argparse.Namespace) -> None:
    """A cell's results are replaced as a whole: fewer benchmarks would delete the others' results."""
    for option, given in (("--benchmarks", args.benchmarks), ("--out", args.out)):
        if args.cell and given:
            raise UserError(
                f"--cell {args.cell}: is scored on evaluate.benchmarks of params.yaml into its own folder; "
                f"leave out {option}, or give --checkpoint runs/{args.cell}/checkpoint instead of --cell"
            )


if __name__ == "__main__":
    sys.exit(entry(main))
