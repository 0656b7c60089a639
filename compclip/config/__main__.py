"""Check params.yaml, show one cell of the grid, change values, switch to another grid, write the plan.

`compclip config cost` trains one step to say what a grid costs on a card; it is in compclip/launch/cost_table.py.

compclip config check [key=value ...]   validate params.yaml
compclip config show CELL               print one cell with all its parameters
compclip config set key=value ...       change values in place; comments are kept
compclip config vary METHOD key=a,b     declare a variant for each value, and add them to the grid
compclip config use FILE                make another grid the current params.yaml
compclip config ablate METHOD           write a grid that leaves out one part of a method at a time
compclip config plan                    write what each stage has to do and with which code (the stage `plan`)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.command_line import CommandParser
from compclip.base.errors import entry
from compclip.base.files import check_output_folder
from compclip.base.messages import format_count

if TYPE_CHECKING:
    from compclip.config.sections import Params

PARAMS = "params.yaml"


def main(argv: list[str]) -> int:
    """Run one of the commands check, show, set, vary, use, ablate and plan."""
    args = _parse_arguments(argv)
    from compclip.config import ablate, change, grid, plan, read

    if args.command == "use":
        read.use_grid(args.file, force=args.force)
        print(f"{PARAMS} is now {args.file}")
    elif args.command == "ablate":
        path, ablation, params = ablate.write_grid(args.method, args.params, args.overrides, args.out, args.force)
        count = format_count(len(grid.list_cells(params)), "cell")
        print(f"{path}: {count}", *ablate.describe(ablation), sep="\n")
        print(f"Next: `compclip config use {path}`, then `compclip repro report track`")
    elif args.command in ("set", "vary"):
        if args.command == "set":
            lines = change.set_values(args.params, args.assignments)
        else:
            lines = change.vary_method(args.params, args.method, args.assignments)
        print(*lines or [f"{args.params}: nothing changed, the values are set already"], sep="\n")
    elif args.command == "check":
        print(f"{args.params}: {check_grid(args.params, args.overrides)[1]}: OK")
    else:
        params = read.load_params(args.params, args.overrides, together=args.command == "plan")
        if args.command == "plan":
            plan.write_plan(params, args.out)
        else:
            print(grid.run_to_yaml(grid.resolve(params, args.cell)), end="")
    return 0


def check_grid(path: str, overrides: Sequence[str]) -> tuple[Params, str]:
    """Check a grid; return its parameters, and a text with its numbers of cells and benchmarks.

    Warns if a run needs more memory than this machine has. Does not check whether the files that the grid names exist;
    the command `compclip config check` does (compclip/fetch/missing_inputs.py).
    """
    from compclip.config import grid, least_memory, read

    params = read.load_params(path, overrides, together=True)
    read.check_listed(path, overrides)
    runs = list(grid.resolve_all(params))
    least_memory.warn_of_memory(runs)
    benchmarks = format_count(len(params.evaluate.benchmarks), "benchmark")
    return params, f"{format_count(len(runs), 'cell')}, {benchmarks}"


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse arguments and overrides (`key=value`), which may also follow an option."""
    parser = _parser()
    args, unparsed = parser.parse_known_args(argv)
    strange = [word for word in unparsed if word.startswith("-") or "=" not in word or "overrides" not in args]
    if strange:
        parser.error(f"unrecognized arguments: {' '.join(strange)}")
    args.overrides = [*getattr(args, "overrides", ()), *unparsed]
    return args


def _parser() -> CommandParser:
    parser = CommandParser(prog="compclip config", description=__doc__, example="show fsc_clip-scenes-scenes-0")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="validate params.yaml")
    show = commands.add_parser("show", help="print one cell with all its parameters")
    show.add_argument("cell", help="a cell of the grid: method-backbone-data-seed")
    plan = commands.add_parser("plan", help="write what each stage has to do")
    plan.add_argument("--out", type=check_output_folder, default=Path("plan"), help="the folder to write")
    ablate = commands.add_parser("ablate", help="write a grid that leaves out one part of a method at a time")
    ablate.add_argument("method", help="the method whose parts are left out one by one")
    ablate.add_argument("--out", type=Path, help="the file to write; default: experiments/grids/ablate_METHOD.yaml")
    ablate.add_argument("--force", action="store_true", help="overwrite an existing file")
    for command in (check, show, plan, ablate):
        command.add_grid("parameters to override")
    change = commands.add_parser("set", help="change values in place")
    vary = commands.add_parser("vary", help="declare one variant of a method for each value")
    vary.add_argument("method", help="the method to vary")
    for command, shown in ((change, "key=value"), (vary, "key=value,value")):
        command.add_argument("assignments", nargs="+", metavar=shown, help="for example train.lr=1e-5")
        command.add_grid()
    switch = commands.add_parser("use", help="make another grid the current one")
    switch.add_argument("file", help="a file of experiments/grids/, or any other grid")
    switch.add_argument("--force", action="store_true", help="overwrite uncommitted edits")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
