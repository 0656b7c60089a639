"""A process of a run that is lost ends the others soon; one that came to its end does not."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from compclip.train import process_group
from tests.conftest import ROOT
from tests.train.test_distributed import two


@contextlib.contextmanager
def connected() -> Iterator[list[subprocess.Popen]]:
    """Two processes that have found each other, and wait for what to do."""
    both = two("-m", "tests.lost_process", cwd=ROOT)
    try:
        assert [process.stdout.readline() for process in both] == ["connected\n"] * 2
        yield both
    finally:
        for process in both:
            process.kill()


@pytest.mark.parametrize("lost, number, work", [(0, signal.SIGSTOP, "collective"), (1, signal.SIGKILL, "alone")])
def test_the_others_end(lost, number, work):
    """A machine that stands still leaves its connections open: a collective waits for it, and so does the store."""
    with connected() as both:
        both[lost].send_signal(number)
        survivor = both[1 - lost]
        errors = survivor.communicate(work, timeout=60)[1]
    assert survivor.returncode == process_group.EXIT_LOST, errors
    assert f"process {lost} of this run gave no sign of life" in errors and "goes on from the last checkpoint" in errors


@pytest.mark.parametrize("failing", [0, 1])
def test_a_process_that_fails_says_why_to_all(failing):
    """Its line has its rank, and the other one, which waits for it, leaves with the same reason."""
    with connected() as both:
        failed, waiting = both[failing], both[1 - failing]
        waiting.stdin.write("collective\n")
        waiting.stdin.flush()
        errors = failed.communicate("failing\n", timeout=60)[1], waiting.communicate(timeout=60)[1]
    assert f"error: process {failing} of 2: train.lr=1: too high; lower it" in errors[0]
    assert f"process {failing} of this run failed: train.lr=1: too high; lower it; leaving" in errors[1]
    assert [failed.returncode, waiting.returncode] == [2, process_group.EXIT_LOST]


def pair() -> tuple[process_group.LivenessWatch, process_group.LivenessWatch]:
    """What each of two processes hears of the other."""
    store = dist.HashStore()
    return process_group.LivenessWatch(store, 0, 2), process_group.LivenessWatch(store, 1, 2)


def beats(watch: process_group.LivenessWatch, count: int) -> list[int]:
    """Who is silent after some beats."""
    silent: list[int] = []
    for _ in range(count):
        watch.exchange_beats()
        silent = watch.silent_ranks()
    return silent


def test_a_silent_process_is_lost_after_some_beats():
    """Behind its last sign of life, and not before; not one that came to its end."""
    first, second = pair()
    second.exchange_beats()
    assert beats(first, process_group.PATIENCE_BEATS) == []
    assert beats(first, 1) == [1]
    second.exchange_beats()
    assert beats(first, 1) == []
    second.announce_end()
    assert beats(first, 3 * process_group.PATIENCE_BEATS) == []


def test_processes_that_end_are_told(monkeypatch):
    """At the end, or stopped by a signal; after an error with its line."""
    monkeypatch.setattr(process_group, "BEAT_S", 0.01)
    for error, failures in ((None, {}), (SystemExit("stopped"), {}), (ValueError("why"), {0: "ValueError: why"})):
        store = dist.HashStore()
        with contextlib.suppress(SystemExit, ValueError), process_group.watch_processes(store, 0, 2):
            if error:
                raise error
        other = process_group.LivenessWatch(store, 1, 2)
        assert beats(other, process_group.PATIENCE_BEATS + 1) == []
        assert other.failures == failures


def test_an_error_of_ones_own_is_not_hidden_by_anothers(monkeypatch):
    """Two processes that fail alike: each says why itself."""
    exits: list[int] = []
    monkeypatch.setattr(process_group.os, "_exit", exits.append)
    first, second = pair()
    first.announce_failure("a")
    second.announce_failure("b")
    for watch in (first, second):
        watch.exchange_beats()
        watch.exit_if_lost()
    assert exits == [] and first.failures == {1: "b"} and second.failures == {0: "a"}
    assert first.is_heard() and second.is_heard()
