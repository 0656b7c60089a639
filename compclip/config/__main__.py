"""params.yaml: check it, show what a cell resolves to, make another grid the current one, plan.

python -m compclip.config check [key=value ...]   validate
python -m compclip.config show CELL               one cell, resolved
python -m compclip.config use FILE                make another grid the current params.yaml
python -m compclip.config plan                    what each stage is to do, with which code: the stage `plan`
"""

from __future__ import annotations

import argparse
import sys

from compclip.base.errors import entry
from compclip.base.files import out_folder
from compclip.config import plan
from compclip.config.documents import to_yaml
from compclip.config.grid import cells, resolve
from compclip.config.planned import FOLDER
from compclip.config.read import DEFAULT, load
from compclip.config.switch import use


def main(argv: list[str]) -> int:
    """check, show, use and plan."""
    args = _parser().parse_args(argv)
    if args.command == "use":
        use(args.file, force=args.force)
        print(f"{DEFAULT} is now {args.file}")
        return 0
    params = load(args.params, args.overrides, together=args.command != "show")
    if args.command == "show":
        print(to_yaml(resolve(params, args.cell)), end="")
    elif args.command == "plan":
        plan.write(params, args.out)
    else:
        print(f"{args.params}: {len(cells(params))} cells, {len(params.evaluate.benchmarks)} benchmarks: OK")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compclip.config", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="validate params.yaml")
    show = commands.add_parser("show", help="print a cell, resolved")
    show.add_argument("cell")
    planned = commands.add_parser("plan", help="write what each stage is to do")
    planned.add_argument("--out", type=out_folder, default=FOLDER)
    for command in (check, show, planned):
        command.add_argument("--params", default=DEFAULT)
        command.add_argument("overrides", nargs="*", metavar="key=value")
    switch = commands.add_parser("use", help="make another grid the current one")
    switch.add_argument("file")
    switch.add_argument("--force", action="store_true", help="overwrite uncommitted edits")
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
