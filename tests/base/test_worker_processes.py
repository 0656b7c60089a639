"""Workers of a pool whose parent was killed."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from compclip.base import worker_processes
from compclip.base.files import write_atomic
from compclip.runs import jobs
from tests import tiny_project


def keep_two_workers(method: str, numbers: Path) -> None:
    """Two workers that have worked and wait for more; their numbers are noted."""
    before = multiprocessing.active_children()  # of the process that this one is a copy of
    with ProcessPoolExecutor(2, multiprocessing.get_context(method), worker_processes.end_with_parent) as pool:
        list(pool.map(time.sleep, [0, 0]))
        write_atomic(numbers, " ".join(str(p.pid) for p in multiprocessing.active_children() if p not in before))
        time.sleep(300)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_they_end(tmp_path, method):
    """Whichever way they were started; a pool of the standard library leaves them behind for ever."""
    numbers = tmp_path / "numbers"
    parent = tiny_project.fork(lambda: keep_two_workers(method, numbers))
    tiny_project.wait_for(numbers.exists)
    workers = [int(number) for number in numbers.read_text().split()]
    assert workers and all(map(jobs.read_start_time, workers))
    os.kill(parent, signal.SIGKILL)
    assert tiny_project.ended(parent) == -signal.SIGKILL
    tiny_project.wait_for(lambda: not any(map(jobs.read_start_time, workers)), 60)
