"""Processes of a pool that end with the process which started them, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing import connection


def end_with_parent() -> None:
    """Let this process end as soon as its parent has: a pool's `initializer`.

    A worker of concurrent.futures whose parent was killed would wait for its next task for ever, with all its memory:
    workers hold the other end of the pipe themselves.
    """
    parent = multiprocessing.parent_process()
    if parent:
        threading.Thread(target=_wait_and_leave, args=(parent.sentinel,), daemon=True).start()


def _wait_and_leave(parent_sentinel: int) -> None:
    connection.wait([parent_sentinel])
    os._exit(1)
