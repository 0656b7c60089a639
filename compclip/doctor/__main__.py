"""Say what is missing here, or whether this machine computes as it should: `compclip doctor`.

    compclip doctor                         in ten seconds: what is installed, and what is missing with the fix
    compclip doctor --grid                  what is missing for `compclip repro`, whose first stage asks
    compclip doctor --gpu                   the GPUs, in a minute or two, without data
    compclip doctor --gpu --device cpu      the same checks where there is no GPU

With --gpu are checked: how fast a ViT-B/32 is fine-tuned, and that step's peak memory against what `config cost`
predicts; losses and gradients of two methods in float32 and bf16 against float64 on the CPU; all GPUs against one.
compclip-doctor-HOST-DATE.json has the table, versions and cards, and nothing of the user: send it along with a defect.
The exit code is 1 where a check failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.lazy_torch import torch
from compclip.base.messages import format_count
from compclip.doctor import installation
from compclip.doctor.check_rows import FAILED, HEADS, CheckRow, format_row
from compclip.runs import gpus

METHODS = ("finetune", "fsc_clip")  # a loss of whole pictures, and one of patches; tests/doctor checks all of them
MINUTES = 15.0


def main(argv: list[str]) -> int:
    """Run the command `doctor`."""
    args = _parse_arguments(argv)
    if args.gpu or args.device:
        return check_device(args.device or "cuda", args.methods, args.minutes, args.output)
    return check_grid() if args.grid else print_rows(installation.check_installation(Path(".")))[1]


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser(prog="compclip doctor", description=__doc__, example="--gpu")
    parser.add_argument("--grid", action="store_true", help="print only what a grid lacks")
    parser.add_argument("--gpu", action="store_true", help="check how the GPUs of this machine compute")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="with --gpu: where; default: cuda")
    parser.add_argument("--methods", nargs="+", default=METHODS, help="with --gpu: whose gradients are checked")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="with --gpu: no check is begun after these")
    parser.add_argument("--output", type=Path, help="with --gpu: the file to write")
    return parser.parse_args(argv)


def check_grid() -> int:
    """Print a line for each thing that a grid lacks; 1 where there is one."""
    failed = [row for row in installation.check_grid(Path(".")) if row.state == FAILED]
    for row in failed:
        print(f"error: {row.name}: {row.value or 'missing'}: {row.reason}", file=sys.stderr)
    return int(bool(failed))


def print_rows(checks: Iterable[CheckRow]) -> tuple[list[CheckRow], int]:
    """Print rows as they come; return them, and the exit code."""
    rows = []
    print(format_row(HEADS), flush=True)
    for row in checks:
        rows.append(row)
        print(format_row(row.cells()), flush=True)
    return rows, int(any(row.state == FAILED for row in rows))


def check_device(device: str, methods: Sequence[str], minutes: float, output: Path | None) -> int:
    """Print a row for each check and write the file; 1 where one failed. Raises UserError where there is no GPU."""
    from compclip.doctor.device_checks import end_in_time, name_report, run_checks, write_report

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(f"doctor --gpu: torch sees no GPU: {gpus.describe_cuda()}; repair that, or give --device cpu")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once: a deterministic run comes later
    started = time.monotonic()
    rows, code = print_rows(end_in_time(run_checks(device, methods), minutes))
    output = output or name_report()
    write_report(output, device, rows, time.monotonic() - started)
    failed = sum(row.state == FAILED for row in rows)
    print(f"{format_count(len(rows), 'check')}, {failed} failed; to send along with a defect: {output}")
    return code


if __name__ == "__main__":
    sys.exit(entry(main))
