"""Run work whose duration is decided elsewhere, by a server or a template, for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

TICK_S = 0.2  # between two calls of `allowed`
Result = TypeVar("Result")


def run_while(allowed: Callable[[], bool], work: Callable[[], Result]) -> Result:
    """Return the result of `work`, or raise what it raises.

    Raises TimeoutError when `allowed` gives False; the thread goes on then, and ends with the process.
    """
    future: Future[Result] = Future()
    threading.Thread(target=_run, args=(future, work), daemon=True).start()
    while not wait([future], TICK_S).done:
        if not allowed():
            raise TimeoutError
    return future.result()


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """Return the result of `work`; raise TimeoutError where it takes longer than `seconds`."""
    end = time.monotonic() + seconds
    return run_while(lambda: time.monotonic() < end, work)


def _run(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # for the thread that waits
        future.set_exception(error)
