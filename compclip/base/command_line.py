"""The parser of every command: a wrong call is one line, and help says each option's default."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from compclip.base.errors import UserError

UNKNOWN = "unrecognized arguments: "  # argparse's own words
GRID_FILE = "params.yaml"
VALUE = re.compile(r"[a-z]\w*(\.[\w-]+)+=")  # key=value, of a section's key


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fits a description's prose to the terminal; a paragraph that shows command lines stays as it is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(p if p.startswith((" ", "compclip ")) else textwrap.fill(p, width) for p in paragraphs)


class CommandParser(argparse.ArgumentParser):
    """Parses a command's arguments; its subcommands have parsers of the same kind.

    Help begins with `example`, the arguments of a call as many would make it.
    """

    def __init__(self, example: str | None = None, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **options})
        self.example = example

    def format_help(self) -> str:
        """Return the help, below the example."""
        page = super().format_help()
        return page if self.example is None else f"example: {self.prog} {self.example}".rstrip() + f"\n\n{page}"

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument, whose help names a default that it does not speak of itself."""
        action = super().add_argument(*names, **options)
        default = _describe_default(action.default)
        if action.option_strings and action.help and default and "default" not in action.help:
            action.help += f"; default: {default}"
        return action

    def add_grid(self, overrides: str = "") -> None:
        """Add --params, and where `overrides` says what for, the `key=value`s that change it for this call."""
        self.add_argument("--params", default=GRID_FILE, metavar="FILE", help="the grid")
        if overrides:
            self.add_argument("overrides", nargs="*", metavar="key=value", help=overrides)

    def add_json(self, help_text: str = "print JSON, no table") -> None:
        """Add --json."""
        self.add_argument("--json", action="store_true", help=help_text)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong in one line, with close names of an unknown option, and leave with 2."""
        hint = f"`{self.prog} --help` lists what it takes"
        word = message.removeprefix(UNKNOWN).split(" ")[0].partition("=")[0]
        if message.startswith(UNKNOWN) and word.startswith("-"):
            close_options = get_close_matches(word, self._option_string_actions, n=2)
            if close_options:
                hint = f"did you mean {' or '.join(close_options)}? {hint}"
        print(f"error: {self.prog}: {message}; {hint}", file=sys.stderr)
        sys.exit(2)


def refuse_values(argv: Sequence[str]) -> None:
    """Raise UserError for a `key=value` of a command that brings the grid up to date as params.yaml has it."""
    for word in filter(VALUE.match, argv):
        raise UserError(
            f"{word}: is not taken here; for every run of the grid `compclip config set {word}`, for runs of a method "
            f"beside the others `compclip config vary METHOD {word}`, which takes several values a,b"
        )


def positive_int(text: str) -> int:
    """Return an argument's whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number >= 1")
    return int(text)


def _describe_default(default: Any) -> str:
    """Return a default as help names it; "" where there is none to name."""
    if isinstance(default, bool) or not isinstance(default, (str, int, float, Path)) or default == argparse.SUPPRESS:
        return ""
    if isinstance(default, Path) and default.is_absolute():
        return ""  # a file of the package
    return "this folder" if str(default) == "." else str(default).replace("%", "%%")
