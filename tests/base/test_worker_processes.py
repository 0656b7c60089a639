"""Workers of a pool whose parent was killed; work that others end is waited for as long as it may take."""

import multiprocessing
import os
import signal
import threading
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


def test_what_ends_is_handed_on():
    assert worker_processes.run_within(60, lambda: 3) == 3
    with pytest.raises(KeyError, match="there"):
        worker_processes.run_within(60, lambda: {}["there"])


def test_what_does_not_end_is_left():
    """Once it is not allowed any more."""
    ended, looks = threading.Event(), iter([True, False])
    with pytest.raises(TimeoutError):
        worker_processes.run_while(lambda: next(looks), ended.wait)
    ended.set()
    assert next(looks, "no further look") == "no further look"


@pytest.mark.parametrize("name,value", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "1000")])
def test_the_users_choice_is_left_alone(name, value):
    assert worker_processes.passive_waiting({name: value}) == {}
    assert worker_processes.passive_waiting({}) == {"OMP_WAIT_POLICY": "passive"}


@pytest.mark.parametrize(("groups", "file", "text"), [
    ("0::/job\n", "job/memory.events", "low 0\noom 4\noom_kill 3\n"),
    ("4:memory:/job\n0::/\n", "memory/job/memory.oom_control", "under_oom 0\noom_kill 3\n"),
    ("0::/of/the/host\n", "memory.events", "oom_kill 3\n"),
])  # fmt: skip
def test_kills_for_want_of_memory_are_counted(tmp_path, monkeypatch, groups, file, text):
    """In both versions of control groups, and in a container that sees its own as the root; None where nobody counts."""
    monkeypatch.setattr(worker_processes, "CONTROL_GROUPS", tmp_path / "groups")
    (tmp_path / "groups" / file).parent.mkdir(parents=True)
    (tmp_path / "list").write_text(groups)
    assert worker_processes.count_memory_kills(tmp_path / "list") is None
    (tmp_path / "groups" / file).write_text(text)
    assert worker_processes.count_memory_kills(tmp_path / "list") == 3
    assert worker_processes.count_memory_kills(tmp_path / "nothing") is None
