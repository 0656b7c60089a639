"""Names that become folders, files and words of commands: one rule, checked where they enter.

Code that joins a name to a path takes a `SafeName`, which holds no separator.
"""

from __future__ import annotations

import re
from typing import Self

from compclip.base.errors import UserError

FORM = re.compile(r"\w[\w.+-]*")  # no separator, no hidden file, no option of a command, nothing a shell would read
LONGEST = 64  # characters: a cell's file is called by three names, and a file system ends at 255 bytes
RULE = f"must be letters, digits and _ . + -, begin with none of . + -, and have at most {LONGEST} characters"


class SafeName(str):
    """A checked name. Raises UserError saying what it was to name, and the rule."""

    __slots__ = ()

    def __new__(cls, text: object, what: str = "name") -> Self:  # pickle and copy give the text alone
        name = str(text)
        if not FORM.fullmatch(name) or len(name) > LONGEST or len(name.encode()) > 2 * LONGEST:
            excerpt = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
            raise UserError(f"{what} {excerpt!a}: {RULE}; rename it")
        return super().__new__(cls, name)


def parse_name(text: str, option: str) -> SafeName:
    """Return the name that an option gives, alone or as `stage@name`. Raises UserError for what is none."""
    return SafeName(text.rpartition("@")[2], option)
