"""The result of a check as a row of a table, and what a report must not tell."""

from __future__ import annotations

import contextlib
import getpass
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.errors import one_line, redact_secrets, shorten

OK = "ok"
FAILED = "FAILED"
SKIPPED = "skipped"
MEASURED = "measured"  # in a tolerance's place, where nothing can be too little
ADMINISTRATOR = "root"  # nobody's name
LONGEST = 1000  # characters of a reason
HEADS = ("check", "value", "tolerance", "result")
WIDTHS = (36, 44, 12, 0)
# Largest errors of a step: of its terms relative to their sum's size, and of its gradient relative to its norm. Against
# float64 a CPU's are up to 2e-7 and 2e-6 in float32, 3e-3 and 6e-2 in bf16; a product in TF32 errs by 1e-3.
STEP_TOLERANCES = {"float32": (1e-5, 1e-4), "bf16": (0.02, 0.2)}


@dataclass(frozen=True)
class CheckRow:
    """What one check found. `reason`: why it was skipped or failed, and the fix."""

    name: str
    value: str = ""
    tolerance: str = ""
    state: str = OK
    reason: str = ""

    @property
    def result(self) -> str:
        """The state, with its reason."""
        return f"{self.state}: {self.reason}" if self.reason else self.state

    def cells(self) -> tuple[str, str, str, str]:
        """Return what the table says of it, without secrets."""
        return self.name, hide_secrets(self.value), self.tolerance, hide_secrets(self.result)


def judge(name: str, value: str, tolerance: str, good: bool, reason: str = "") -> CheckRow:
    """Return the row of a check that was measured; the reason stands where it failed."""
    return CheckRow(name, value, tolerance, OK if good else FAILED, "" if good else reason)


def judge_errors(name: str, precision: str, errors: Sequence[float], reason: str) -> CheckRow:
    """Return the row of a step's two errors, that of its terms and that of its gradient; NaN is over any tolerance."""
    limits = STEP_TOLERANCES[precision]
    good = all(error <= limit for error, limit in zip(errors, limits, strict=True))
    value = "loss {:.1e}, gradient {:.1e}".format(*errors)
    tolerance = "{:.0e}, {:.0e}".format(*limits)
    return judge(f"{name} {precision}", value, tolerance, good, reason)


def catch_errors(name: str, rows: Iterable[CheckRow]) -> Iterator[CheckRow]:
    """Yield the rows of a check, a generator; an error in it becomes a row that failed, and the other checks go on."""
    try:
        yield from rows
    except Exception as error:  # whatever a driver, a library or a plug-in raises
        yield CheckRow(name, state=FAILED, reason=f"{type(error).__name__}: {error}")


def hide_secrets(text: str) -> str:
    """Return a text in one line of bounded length, without secrets."""
    return shorten(redact_secrets(one_line(text)), LONGEST)


def anonymise(text: str) -> str:
    """Return a text in one line, without secrets, the home folder and the user's name."""
    text = hide_secrets(text).replace(str(Path.home()), "~")
    with contextlib.suppress(Exception):  # a user without a name
        user = getpass.getuser()
        if user != ADMINISTRATOR:
            return re.sub(rf"\b{re.escape(user)}\b", "USER", text)
    return text


def format_row(cells: Sequence[str]) -> str:
    """Return a line of the table, whose rows are printed one by one."""
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
