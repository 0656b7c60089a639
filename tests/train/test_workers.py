"""Processes that make batches ahead: how each of them ends, and what the run says of it."""

import multiprocessing
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.runs import jobs
from compclip.train import loader
from tests import tiny_project


@pytest.fixture
def steps(monkeypatch):
    """A run whose batches are the numbers of their steps, by two workers; step 7 has no batch."""

    def make(_steps: object, step: int) -> int:
        if step == 7:
            raise UserError("no picture of the data can be read; check data.<name>.images")
        return step

    monkeypatch.setattr(loader._Steps, "make", make)
    sampler = SimpleNamespace(prepare_epoch=lambda _step: None)
    return lambda numbers: loader.open_batches(sampler, lambda _step: None, None, numbers, 2)


@pytest.fixture
def started():
    """Tells of the workers that were not there before."""
    before = multiprocessing.active_children()
    return lambda: [process for process in multiprocessing.active_children() if process not in before]


def test_a_worker_ends_by_its_parents_signal_alone(steps, started):
    """A cluster's SIGTERM reaches all processes of a job, and the run saves first; a parent that ends by an error sends
    its own at Python's end, and waits for the worker."""
    with steps(range(8, 1000)) as batches:
        assert [next(batches) for _ in range(3)] == [8, 9, 10]
        workers = started()
        numbers = [str(worker.pid) for worker in workers]
        for name in ("TERM", "INT", "USR1", "USR2"):
            subprocess.run(["kill", "-s", name, *numbers], check=True)
        assert [next(batches) for _ in range(20)] == [*range(11, 31)]
        assert len(numbers) == 2 and [worker.exitcode for worker in workers] == [None, None]
        for worker in workers:
            worker.terminate()
            worker.join(30)
        assert [worker.exitcode for worker in workers] == [0, 0]


@pytest.mark.parametrize("error", [None, RuntimeError("DataLoader worker is killed"), ConnectionResetError()], ids=repr)
def test_a_killed_worker_is_named_as_the_cause(steps, started, error):
    """Whatever it breaks first: torch notices it in the midst of the loss, or a connection to it ends."""
    cause = r"train.workers=2: .* killed by SIGKILL; .*; the same command"
    with pytest.raises(UserError, match=cause), steps(range(8, 10**6)) as batches:
        next(batches)
        number = started()[0].pid
        os.kill(number, signal.SIGKILL)
        if error:
            os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
            raise error
        list(batches)


def train_and_die(numbers: Path, steps, started) -> None:
    """Two workers that have more to hand over than a pipe holds, and a parent that is killed."""
    with steps(range(8, 1000)) as batches:
        next(batches)
        write_atomic(numbers, " ".join(str(process.pid) for process in started()))
        os.kill(os.getpid(), signal.SIGKILL)


def test_workers_of_a_killed_run_end(steps, started, monkeypatch, tmp_path):
    """They would hold its lock, and nobody could go on with it."""
    monkeypatch.setattr(loader._Steps, "make", lambda _steps, _step: np.zeros(60_000, np.uint8))
    assert tiny_project.forked(lambda: train_and_die(tmp_path / "numbers", steps, started)) == -signal.SIGKILL
    pids = [int(number) for number in (tmp_path / "numbers").read_text().split()]
    assert len(pids) == 2
    tiny_project.wait_for(lambda: not any(map(jobs.read_start_time, pids)), 60)


def test_another_error_stays_as_it_is(steps, started):
    """With its workers alive, and with one that came to its end. None of them is left behind the block."""
    with pytest.raises(ZeroDivisionError), steps(range(8, 1000)) as batches:
        next(batches)
        raise ZeroDivisionError
    assert started() == []
    with pytest.raises(ZeroDivisionError), steps(range(8, 10)) as batches:
        assert list(batches) == [8, 9]
        raise ZeroDivisionError


def test_a_users_error_of_a_worker_is_its_own_line(steps):
    """Without the traceback that torch puts around it."""
    with pytest.raises(UserError) as caught, steps(range(10)) as batches:
        list(batches)
    assert str(caught.value) == "no picture of the data can be read; check data.<name>.images"
