"""Names that become folders, files and words of commands: one rule, held where they enter.

What joins a name to a path takes a `Name`, and there is none with a separator in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from compclip.base.errors import UserError

FORM = re.compile(r"\w[\w.+-]*")  # no separator, no hidden file, no option of a command, nothing a shell would read
LONGEST = 64  # characters: a cell's file is called by three names, and a file system ends at 255 bytes
RULE = f"must be letters, digits and _ . + -, begin with none of . + -, and have at most {LONGEST} characters"


class Name(str):
    """A checked name. Raises UserError saying what it was to name, and the rule."""

    __slots__ = ()

    def __new__(cls, text: object, what: str) -> Self:
        found = str(text)
        if not FORM.fullmatch(found) or len(found) > LONGEST or len(found.encode()) > 2 * LONGEST:
            raise UserError(f"{what} {_cut(found)!a}: {RULE}; rename it")
        return super().__new__(cls, found)

    def __reduce__(self) -> tuple[type[Name], tuple[str, str]]:  # pickle and copy
        return type(self), (str(self), "name")


def given(text: str, option: str) -> Name:
    """The name that an option gives, alone or as `stage@name`. Raises UserError for what is none."""
    return Name(text.rpartition("@")[2], option)


def alone(argv: Sequence[str], option: str) -> Name | None:
    """The same where a command is given nothing else: a stage that has nothing to do waits for no parser's import."""
    if len(argv) == 2 and argv[0] == option and not argv[1].startswith("-"):
        return given(argv[1], option)
    return None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
