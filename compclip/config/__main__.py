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
from compclip.base.files import out_folder
from compclip.config import planned

if TYPE_CHECKING:
    import argparse

PARAMS = "params.yaml"


def main(argv: list[str]) -> int:
    """check, show, use, ablate and plan."""
    if argv == ["plan"] and planned.current(PARAMS):  # seen without the parser's import: DVC asks each time
        return 0
    args = _arguments(argv)
    if args.command == "use":
        from compclip.config import switch

        switch.use(args.file, force=args.force)
        print(f"{PARAMS} is now {args.file}")
    elif args.command == "plan":
        _plan(args)
    elif args.command == "ablate":
        _ablate(args)
    else:
        _told(args)
    return 0


def _plan(args: argparse.Namespace) -> None:
    """Make the plan; where it is up to date that is seen without the imports, and nothing is written."""
    usual = args.out == planned.FOLDER and not args.overrides
    if usual and planned.current(args.params):
        return
    from compclip.config import plan, read

    before = planned.inputs(args.params)
    params = read.load(args.params, args.overrides, together=True)
    plan.write(params, args.out)
    if usual:
        planned.remember(args.params, before, plan.watched(params))


def _ablate(args: argparse.Namespace) -> None:
    """Write the grid of an ablation; say what each variant is without, and what comes next."""
    from compclip.config import ablate, grid

    path, made, params = ablate.write(args.method, args.params, args.overrides, args.out, args.force)
    print(f"{path}: {len(grid.cells(params))} cells", *ablate.told(made), sep="\n")
    print(f"Next: `compclip config use {path}`, then `dvc repro report track`")


def _told(args: argparse.Namespace) -> None:
    from compclip.config import documents, grid, read

    params = read.load(args.params, args.overrides, together=args.command == "check")
    if args.command == "show":
        print(documents.to_yaml(grid.resolve(params, args.cell)), end="")
    else:
        print(f"{args.params}: {len(grid.cells(params))} cells, {len(params.evaluate.benchmarks)} benchmarks: OK")


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Arguments, and the key=value parameters among them: behind an option too, where argparse gives them to nobody."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if strange := [word for word in rest if word.startswith("-") or "=" not in word or "overrides" not in args]:
        parser.error(f"unrecognized arguments: {' '.join(strange)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
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
    made = commands.add_parser("plan", help="write what each stage is to do")
    made.add_argument("--out", type=out_folder, default=planned.FOLDER)
    ablate = commands.add_parser("ablate", help="write a grid that leaves out one part of a method at a time")
    ablate.add_argument("method")
    ablate.add_argument("--out", type=Path, help="the file to write; default: experiments/grids/ablate_METHOD.yaml")
    ablate.add_argument("--force", action="store_true", help="overwrite a file of somebody else's")
    for command in (check, show, made, ablate):
        command.add_argument("--params", default=PARAMS)
        command.add_argument("overrides", nargs="*", metavar="key=value")
    switch = commands.add_parser("use", help="make another grid the current one")
    switch.add_argument("file")
    switch.add_argument("--force", action="store_true", help="overwrite uncommitted edits")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
