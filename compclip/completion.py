"""Print what completes commands and options in a shell: `compclip completion bash|zsh|tcsh`.

The script is written once, from the parsers of all commands, and asks nothing of compclip while somebody types.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any, NoReturn
from unittest import mock

from compclip.base.command_line import CommandParser
from compclip.base.errors import entry


class ParserBuilt(Exception):
    """A command's parser, at the moment at which it would read arguments."""


def build_parser() -> argparse.ArgumentParser:
    """Return one parser with every command; the module of each is imported."""
    from compclip.__main__ import COMMANDS

    parser = CommandParser(prog="compclip")
    commands = parser.add_subparsers(dest="command")
    for name, (module, summary) in COMMANDS.items():
        command_parser = read_parser(module)
        commands.add_parser(name, help=summary, parents=[command_parser], add_help=False)
    return parser


def read_parser(module: str) -> argparse.ArgumentParser:
    """Return the parser of a command's module, which builds it in its `main`; nothing of the command is run."""

    def stop(parser: argparse.ArgumentParser, *_args: Any, **_options: Any) -> NoReturn:
        raise ParserBuilt(parser)

    with mock.patch.object(argparse.ArgumentParser, "parse_known_args", stop):
        try:
            importlib.import_module(module).main(["--help"])
        except ParserBuilt as built:
            parser: argparse.ArgumentParser = built.args[0]
            return parser
    raise LookupError(f"{module}: main reads no arguments")


def main(argv: list[str]) -> int:
    """Run the command `completion`."""
    parser = CommandParser(prog="compclip completion", description=__doc__.splitlines()[0], example="bash")
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell whose script is printed")
    args = parser.parse_args(argv)
    import shtab  # DVC has it

    print(shtab.complete(build_parser(), args.shell))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
