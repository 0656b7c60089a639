"""Errors that the user can repair: one line, exit code 2, no traceback."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from types import TracebackType


# Refusals of the system that the user can repair, with the advice.
MENDABLE = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "free space",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it readable and writable",
    errno.EPERM: "make it readable and writable",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EISDIR: "give the path of a file",
    errno.ENOTDIR: "give the path of a folder",
    errno.ELOOP: "repair the link",
}

# How much a command says beside its results (messages.py); jobs that it starts inherit the variable.
LEVEL_VARIABLE = "COMPCLIP_LOG"
LEVEL_OPTIONS = {"-v": "debug", "--verbose": "debug", "-q": "error", "--quiet": "error"}
LONGEST = 1000  # characters of a message: a value in it may be of any length


class UserError(Exception):
    """A mistake in parameters, files or arguments; the message is one line naming the thing, its value and the fix.

    Without secrets and of bounded length from the start: messages also go into files and posts.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shorten(one_line(redact_secrets(message)), LONGEST))


def unknown(kind: str, name: str, names: Iterable[str], where: str = "") -> UserError:
    """Return the error for a name that is not among `names`; it suggests the nearest ones."""
    from difflib import get_close_matches

    names = sorted(names)
    close_names = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close_names))}?"
    if not close_names:
        hint = f"known: {', '.join(names) or 'none'}"
    prefix = f"{where}: " if where else ""
    return UserError(f"{prefix}unknown {kind} {name!r}; {hint}")


@contextlib.contextmanager
def report_failure(what: str, fix: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error inside, of some `kinds` or of any, into a UserError "what: why; fix"; a UserError passes."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or not isinstance(error, kinds or Exception):
            raise
        why = one_line(str(error))[:160] or type(error).__name__
        raise UserError(f"{what}: {why}; {fix}") from error


def take_options(argv: Sequence[str]) -> list[str]:
    """Set the level that `-v` or `-q` asks for, the last one of several; return the other arguments.

    With `-v` the libraries' own messages are shown as well. What is behind `--` is left alone.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    options = [word for word in argv[:end] if word in LEVEL_OPTIONS]
    if options:
        os.environ[LEVEL_VARIABLE] = LEVEL_OPTIONS[options[-1]]
    if os.environ.get(LEVEL_VARIABLE) == "debug":
        import logging

        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S")
    return [word for word in argv[:end] if word not in LEVEL_OPTIONS] + list(argv[end:])


def entry(main: Callable[[list[str]], int]) -> int:
    """Run a command's `main` on the process arguments.

    A UserError, an OSError that the user can repair, and an error of a plug-in, become one line on stderr and exit
    code 2. Tracebacks of other errors are printed without secrets, with `-v` those behind a line
    as well. What the terminal's encoding lacks is printed as an escape.
    """
    sys.excepthook = _print_traceback
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return main(take_options(sys.argv[1:]))
    except UserError as error:
        if os.environ.get(LEVEL_VARIABLE) == "debug" and error.__cause__:
            _print_traceback(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        if not isinstance(error, OSError) or error.errno not in MENDABLE:
            return _report_plugin(error)
        where = f"{shorten(one_line(str(error.filename)), LONGEST // 2)}: " if error.filename else ""
        reason = redact_secrets(f"{where}{error.strerror}")
        print(f"error: {reason}; {MENDABLE[error.errno]}, then run this again", file=sys.stderr)
        return 2
    finally:
        gc.freeze()  # or the interpreter walks all of torch's objects on its way out, for a second


def _report_plugin(error: Exception) -> int:
    """Print one line of an error that arose in a plug-in, or by a package that is not there, and return 2.

    Any other is raised, and with `-v` these.
    """
    plugins = sys.modules.get("compclip.base.plugins")  # where none was loaded, none has failed
    fault = plugins.describe_failure(error) if plugins else ""
    fix = "repair that module, or see the traceback with -v"
    if not fault and isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("compclip"):
        fault = f"{sys.executable}: has no package {error.name!r}"
        fix = "activate the environment in which compclip is installed, or install the package there"
    if not fault or os.environ.get(LEVEL_VARIABLE) == "debug":
        raise error
    print(f"error: {UserError(fault)}; {fix}", file=sys.stderr)
    return 2


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the whole traceback without secrets; stands in for `sys.excepthook`."""
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    print(hide_controls(redact_secrets(text)), end="", file=sys.stderr)


def shorten(text: str, longest: int) -> str:
    """Return `text`, or its two ends where it is longer: an error names its key first and the fix last."""
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 2 :]}"


def one_line(text: str) -> str:
    """Return `text` as it may be shown: on one line, without control characters, runs of white space as one space."""
    return " ".join(hide_controls(text).split())


def hide_controls(text: str) -> str:
    """Return `text` with spaces for what is invisible: escape sequences, marks of direction; line ends stay."""
    if text.replace("\n", "").isprintable():
        return text
    return type(text)("".join(c if c.isprintable() or c == "\n" else " " for c in text))  # jinja's Markup stays it


# --- secrets are not shown ------------------------------------------------------------------------------------------
# Hide secrets in messages: those that this process has read, and text that looks like one.
#
# Every UserError passes through `redact` as it is made, so that no message, file or post made of it holds a secret;
# `errors.entry` shows tracebacks through it, too.


MASK = "***"
SHORTEST = 8  # characters: no key is shorter, and stand-ins for one (EMPTY, test) are words of captions
_NAMES = r"[\w.-]{0,40}(?:pass|pwd|token|key|secret|auth|sig|cred)[\w.-]{0,40}"
# Bounded: a message may quote megabytes of a stranger's file. Compiled when there is a message, which is rare.
_PATTERNS = (
    # user:password@ of a URL, to the last @: a password may hold / and @ itself
    (r"(\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)(?:[^\s@]{0,500}@)+", rf"\1{MASK}@"),
    (rf"(?i)([?&;]{_NAMES}=)[^\s&;\"'#]+", rf"\1{MASK}"),
    (r"(?i)(\b(?:password|passwd|pwd)\s*=\s*)[^\s&;\"',]+", rf"\1{MASK}"),  # of a connection's string
    (r"(?i)(\bbearer\s+)[^\s\"',;]+", rf"\1{MASK}"),
    (r"\b(sk-|xox[abp]-)[A-Za-z0-9_-]{8,}", rf"\1{MASK}"),
    (r"\b(hf_|gh[opsu]_)[A-Za-z0-9]{16,}", rf"\1{MASK}"),  # hf_tokenizer_name is a key of a config
)
_secrets: set[str] = set()


def remember_secret(secret: str) -> None:
    """Hide this secret from now on, in each form in which a server or a library may repeat it."""
    for text in {secret, " ".join(secret.split()), *secret.splitlines()}:
        quoted = {quote(text), quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1], repr(text)[1:-1]}
        _secrets.update(form for form in {text, *quoted} if len(form) >= SHORTEST)


def hide_known(text: str) -> str:
    """Return `text` without the secrets that this process has read."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redact_secrets(text: str) -> str:
    """Return `text` without known secrets and what looks like one: the user of a URL, a key in its query, a token."""
    text = hide_known(text)
    for pattern, masked in _PATTERNS:
        text = re.sub(pattern, masked, text)
    return text
