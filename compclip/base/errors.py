"""Mistakes that their user can mend: one line, exit code 2, no traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches

# A disk that is full, or that its system made read-only: whoever wrote, the person is to mend it.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class UserError(Exception):
    """A mistake in parameters, files or arguments; the message is one line naming the thing, its value and the fix."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """The error for a name that is not among `known`, with the nearest known names."""
    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known) or 'none'}"
    place = f"{where}: " if where else ""
    return UserError(f"{place}unknown {kind} {name!r}; {hint}")


def entry(main: Callable[[list[str]], int]) -> int:
    """Run a command's `main` on the process arguments.

    A UserError, a full disk and a read-only one become one line on stderr and exit code 2.
    """
    try:
        return main(sys.argv[1:])
    except UserError as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror}; free space or make it writable, then run this again", file=sys.stderr)
        return 2


def one_line(text: str) -> str:
    """`text` with every run of white space, line breaks included, as one space."""
    return " ".join(text.split())
