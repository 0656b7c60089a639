"""Progress on stderr: redrawn on a terminal, a line every half minute in a log, with the time left."""

from __future__ import annotations

import io

import pytest

from compclip.base import progress_line
from compclip.base.progress_line import CLEAR, format_seconds, show_progress


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def run(stream: io.StringIO, seconds_each: float, count: int = 10) -> str:
    """What is shown of `count` things of so many seconds each, by a clock of its own."""
    now = [0.0]
    with show_progress("pictures", count, stream, lambda: now[0]) as progress:
        for _ in range(count):
            now[0] += seconds_each
            progress.advance()
    return stream.getvalue()


def test_a_log_has_a_line_every_half_minute():
    assert run(io.StringIO(), 2.0) == ""
    assert run(io.StringIO(), 10.0) == "".join(
        f"pictures {done}/10  ETA {eta_s} s\n" for done, eta_s in ((3, 70), (6, 40), (9, 10))
    )


def test_a_terminal_has_one_line_that_is_gone_at_the_end():
    assert run(Terminal(), 0.05) == ""
    output = run(Terminal(), 100.0, 3)
    assert output.split(CLEAR) == ["", "pictures 1/3", "pictures 2/3  ETA 100 s", "pictures 3/3  ETA 0 s", ""]


def test_it_is_cleared_where_the_work_fails():
    now, stream = [0.0], Terminal()
    with pytest.raises(ZeroDivisionError), show_progress("runs", 5, stream, lambda: now[0]) as progress:
        now[0] = 2.0
        progress.advance()
        raise ZeroDivisionError
    assert stream.getvalue() == f"{CLEAR}runs 1/5{CLEAR}"


def test_without_a_total_there_is_no_time_left(monkeypatch):
    now, stream = [0.0], io.StringIO()
    with show_progress("bytes", 0, stream, lambda: now[0]) as progress:
        for seconds in (31, 62):
            now[0] = seconds
            progress.advance(1_000)
    assert stream.getvalue() == "bytes 1,000\nbytes 2,000\n"


def test_iterating_gives_every_value():
    assert list(progress_line.iterate("cells", "abc", 3)) == ["a", "b", "c"]


def test_durations_have_the_unit_of_their_size():
    assert [format_seconds(s) for s in (7, 119, 600, 9000)] == ["7 s", "119 s", "10 min", "2.5 h"]
