"""Keep MLflow seconds behind the runs while they run: `compclip track --follow`.

A process beside the trainers, which know nothing of it. It reads what their files gained, and ends when nothing runs
any more and MLflow has all of it. Killed or offline it loses nothing: files are the truth, and the next one goes on.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, one_line
from compclip.base.files import hold_exclusively
from compclip.runs import jobs, run_folder
from compclip.track import sync, tracking_store
from compclip.track.entries import TrackedProject
from compclip.track.live_runs import LiveListing, LiveRun

EVERY_S = 5.0
TURN_S = 1.0  # between two looks of a follower that waits for another one
BUSY = "process {} follows the runs of this project already; stop it, or leave it to it"


@dataclass
class StoreFollower:
    """Brings MLflow up to date, call by call. `load` reads the whole project, which only a published run asks for."""

    load: Callable[[], TrackedProject]
    uri: str
    root: Path = Path()
    _project: TrackedProject | None = field(default=None, init=False)
    _synced: tuple[Any, ...] = field(default=(), init=False)
    _logged_signatures: frozenset[tuple[Any, ...]] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        self._listing = LiveListing(self.root)

    def poll(self) -> bool:
        """Log what is new; return whether a run is under way or queued.

        Raises UserError where the store cannot be reached, or a file is damaged; the next call goes on.
        """
        live = self._listing.poll()
        begun = [run for run in live if run.has_begun]
        signatures = frozenset(run.signature for run in begun)
        keys = {run.key for run in begun}
        vanished = any(signature[0] not in keys for signature in self._logged_signatures)
        version = (self._listing.plan_times, self._listing.published)
        if self._project is None or version != self._synced or vanished:
            if begun or run_folder.published_folders(self.root / run_folder.RUNS):
                self.update()
            self._synced, self._logged_signatures = version, signatures
        elif signatures != self._logged_signatures:
            self._append([run for run in begun if run.signature not in self._logged_signatures])
            self._logged_signatures = signatures
        return any(run.is_under_way for run in live)

    def update(self) -> None:
        """Do what `compclip track` does."""
        project = self.load()
        sync.update_store(project, self.uri)
        self._project = project

    @property
    def has_logged(self) -> bool:
        """Whether there was anything to log."""
        return self._project is not None

    def _append(self, live: list[LiveRun]) -> None:
        assert self._project is not None
        if not sync.append_live(live, self._project.options, self.uri):
            self.update()


def follow(follower: StoreFollower, every_s: float, beside: int | None = None) -> int:
    """Poll until nothing runs, the process `beside` is gone, and the store has everything; or until a signal.

    Raises UserError where another process follows this project already, unless `beside` is given: then it waits.
    """
    began = jobs.read_start_time(beside) if beside else ""

    def is_awaited() -> bool:
        return bool(beside and began) and jobs.read_start_time(beside or 0) == began

    lock = tracking_store.path_beside(follower.uri, "follow.lock")
    with _stopping() as stop, _take_turn(lock, beside is not None, is_awaited, stop) as is_free:
        message = ""
        while is_free and not stop.is_set():
            over, failure = _poll(follower, is_awaited)
            if over:
                print("nothing runs any more; MLflow is up to date", flush=True)
                return 0
            if failure and failure != message:
                print(f"{failure}; trying again every {every_s:g} s", flush=True)
            message = failure
            stop.wait(every_s)
    print("stopped; nothing is lost: `compclip track` or another --follow goes on", flush=True)
    return 0


def _poll(follower: StoreFollower, is_awaited: Callable[[], bool]) -> tuple[bool, str]:
    """Poll once; return whether everything is over and logged, and what failed."""
    is_last = not is_awaited()  # asked before the poll, which sees what that process left
    try:
        if follower.poll() or not is_last:
            return False, ""
        if follower.has_logged:
            follower.update()  # studies, and what else a poll does not look at
        return True, ""
    except UserError as error:
        return False, one_line(str(error))


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    handlers = {n: signal.signal(n, lambda *_: stop.set()) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _take_turn(lock: Path, waits: bool, is_awaited: Callable[[], bool], stop: threading.Event) -> Iterator[bool]:
    """Hold the lock of the followers; a follower that `waits` does so while it is awaited. Gives whether it holds."""
    with contextlib.ExitStack() as stack:
        holds = False
        while not holds and not stop.is_set():
            try:
                stack.enter_context(hold_exclusively(lock, BUSY))
                holds = True
            except UserError:
                if not waits:
                    raise
                if not is_awaited():
                    break
                stop.wait(TURN_S)
        yield holds
