"""Write compclip/config/completion.json, from which a shell completes: `python -m perf.completion_table`.

Each command's parser is taken where it would print its help; a test compares.

Takes ten seconds; needs nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
from typing import Any, NoReturn
from unittest import mock

from compclip.__main__ import BELOW, COMMANDS
from compclip.config.completion import TABLE


class HelpShown(Exception):
    """The parser whose help is asked for."""


def read_parser(module: str) -> argparse.ArgumentParser:
    """Return the parser of a command's module, with its subcommands; nothing of the command is run."""

    def stop(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise HelpShown(parser)

    with mock.patch.object(argparse.ArgumentParser, "print_help", stop):
        try:
            importlib.import_module(module).main(["--help"])
        except HelpShown as shown:
            return shown.args[0]
    raise LookupError(f"{module}: main shows no help")


def build() -> dict[str, dict[str, Any]]:
    """Return the arguments of every command."""
    table: dict[str, dict[str, Any]] = {}
    for name, (module, _) in (COMMANDS | BELOW).items():
        add_arguments(name, read_parser(module), table)
    return dict(sorted(table.items()))


def add_arguments(name: str, parser: argparse.ArgumentParser, table: dict[str, dict[str, Any]]) -> None:
    """Add a command's arguments to the table, and those of its subcommands."""
    arguments = table.setdefault(name, {})
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, subparser in action.choices.items():
                add_arguments(f"{name} {word}", subparser, table)
        elif not isinstance(action, argparse._HelpAction):
            names = "/".join(action.option_strings) or action.dest
            arguments[names] = list(action.choices) if action.choices else action.nargs


def main() -> None:
    """Write the table, a line a command."""
    lines = [f"{json.dumps(name)}: {json.dumps(arguments)}" for name, arguments in build().items()]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
