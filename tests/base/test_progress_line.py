"""Progress on stderr: redrawn on a terminal, a line every half minute in a log, with the time left."""

import io
import sys

import pytest

from compclip.base.progress_line import ProgressLine


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch):
    """The seconds of tqdm's clock, in a list."""
    seconds = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: seconds[0])
    return seconds


def run(monkeypatch, stream: io.StringIO, now: list[float], seconds_each: float, count: int = 10, total: int = 10):
    """What is shown of `count` things of so many seconds each."""
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressLine("pictures", total) as progress:
        for _ in range(count):
            now[0] += seconds_each
            progress.update()
    return stream.getvalue()


def test_a_log_has_a_line_every_ten_seconds(monkeypatch, now):
    assert run(monkeypatch, io.StringIO(), now, 0.5) == ""
    lines = run(monkeypatch, io.StringIO(), now, 4.0).split("\n")
    assert [line.partition(" [")[2].partition(",")[0] for line in lines[:-1]] == [
        "00:12<00:28", "00:24<00:16", "00:36<00:04"
    ]  # fmt: skip
    assert lines[-1] == "" and not any("\r" in line for line in lines)
    assert all(line.startswith("pictures: ") for line in lines[:-1])


def test_a_terminal_has_one_line_that_is_gone_at_the_end(monkeypatch, now):
    assert run(monkeypatch, Terminal(), now, 0.05) == ""
    output = run(monkeypatch, Terminal(), now, 100.0, 3)
    assert [f" {done}/10 [" in line for done, line in enumerate(output.split("\r")[1:4], 1)] == [True] * 3
    assert output.split("\r")[-2:][0].strip() == "" == output.split("\r")[-1] and "\n" not in output
