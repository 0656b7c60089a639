"""params.yaml: check it, show what a cell resolves to, make another grid the current one, write an ablation, plan.

python -m compclip.config check [key=value ...]   validate
python -m compclip.config show CELL               one cell, resolved
python -m compclip.config use FILE                make another grid the current params.yaml
python -m compclip.config ablate METHOD           a grid that leaves out one part of a method at a time
python -m compclip.config plan                    what each stage is to do, with which code: the stage `plan`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base.errors import entry
from compclip.base.files import check_output_folder

if TYPE_CHECKING:
    import argparse

PARAMS = "params.yaml"


def main(argv: list[str]) -> int:
    """Run check, show, use, ablate or plan."""
    args = _arguments(argv)
    if args.command == "use":
        from compclip.config import read

        read.use_grid(args.file, force=args.force)
        print(f"{PARAMS} is now {args.file}")
    elif args.command == "plan":
        from compclip.config import plan, read

        plan.write_plan(read.load_params(args.params, args.overrides, together=True), args.out)
    elif args.command == "ablate":
        _ablate(args)
    else:
        _check_or_show(args)
    return 0


def _ablate(args: argparse.Namespace) -> None:
    """Write the grid of an ablation; say what each variant is without, and what comes next."""
    from compclip.config import ablate, grid

    path, ablation, params = ablate.write_grid(args.method, args.params, args.overrides, args.out, args.force)
    print(f"{path}: {len(grid.list_cells(params))} cells", *ablate.describe(ablation), sep="\n")
    print(f"Next: `compclip config use {path}`, then `dvc repro report track`")


def _check_or_show(args: argparse.Namespace) -> None:
    from compclip.config import grid, read

    params = read.load_params(args.params, args.overrides, together=args.command == "check")
    if args.command == "show":
        print(grid.run_to_yaml(grid.resolve(params, args.cell)), end="")
    else:
        print(f"{args.params}: {len(grid.list_cells(params))} cells, {len(params.evaluate.benchmarks)} benchmarks: OK")


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Parse arguments and overrides (`key=value`), which may also stand behind an option."""
    parser = _parser()
    args, unparsed = parser.parse_known_args(argv)
    if strange := [word for word in unparsed if word.startswith("-") or "=" not in word or "overrides" not in args]:
        parser.error(f"unrecognized arguments: {' '.join(strange)}")
    if unparsed:
        args.overrides = [*args.overrides, *unparsed]
    return args


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m compclip.config", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="validate params.yaml")
    show = commands.add_parser("show", help="print a cell, resolved")
    show.add_argument("cell")
    plan = commands.add_parser("plan", help="write what each stage is to do")
    plan.add_argument("--out", type=check_output_folder, default=Path("plan"))
    ablate = commands.add_parser("ablate", help="write a grid that leaves out one part of a method at a time")
    ablate.add_argument("method")
    ablate.add_argument("--out", type=Path, help="the file to write; default: experiments/grids/ablate_METHOD.yaml")
    ablate.add_argument("--force", action="store_true", help="overwrite a file of somebody else's")
    for command in (check, show, plan, ablate):
        command.add_argument("--params", default=PARAMS)
        command.add_argument("overrides", nargs="*", metavar="key=value")
    switch = commands.add_parser("use", help="make another grid the current one")
    switch.add_argument("file")
    switch.add_argument("--force", action="store_true", help="overwrite uncommitted edits")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
