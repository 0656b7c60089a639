"""Mistakes that their user can mend: one line, exit code 2, no traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from compclip.base.redact import redacted

if TYPE_CHECKING:
    from types import TracebackType

# A disk that is full or read-only, a place that is another's or no place: whoever met it, the person is to mend it.
MENDABLE = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "free space",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it readable and writable",
    errno.EPERM: "make it readable and writable",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EISDIR: "give the path of a file",
    errno.ENOTDIR: "give the path of a folder",
    errno.ELOOP: "mend the link",
}

LONGEST = 1000  # characters of a message: a value in it may be of any length


class UserError(Exception):
    """A mistake in parameters, files or arguments; the message is one line naming the thing, its value and the fix.

    Without secrets and of bounded length from the start: messages also go into files and posts.
    """

    def __init__(self, message: str) -> None:
        super().__init__(cut(redacted(message), LONGEST))


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UserError:
    """The error for a name that is not among `known`, with the nearest known names."""
    from difflib import get_close_matches

    known = sorted(known)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known) or 'none'}"
    place = f"{where}: " if where else ""
    return UserError(f"{place}unknown {kind} {name!r}; {hint}")


def entry(main: Callable[[list[str]], int]) -> int:
    """Run a command's `main` on the process arguments.

    A UserError, and what the system refuses of a file and its owner can mend, become one line on stderr, exit code 2.
    Ctrl-C ends it with a word. A traceback of anything else shows no secret.
    """
    sys.excepthook = _shown
    try:
        return main(sys.argv[1:])
    except UserError as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno not in MENDABLE:
            raise
        where = f"{cut(one_line(str(error.filename)), LONGEST // 2)}: " if error.filename else ""
        told = redacted(f"{where}{error.strerror}")
        print(f"error: {told}; {MENDABLE[error.errno]}, then run this again", file=sys.stderr)
        return 2


def _shown(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The whole traceback, with those of its causes."""
    import traceback

    print(redacted("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


def cut(text: str, longest: int) -> str:
    """`text`, or its two ends where it is longer than that: the place and the fix stand there."""
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 2 :]}"


def one_line(text: str) -> str:
    """`text` with every run of white space, line breaks included, as one space."""
    return " ".join(text.split())
