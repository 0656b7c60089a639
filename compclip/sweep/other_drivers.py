"""Who drives a study: several drivers of one storage share its trials, and take over those of one that is gone."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

DRIVER = "driver"  # of a trial: who asked for it, or took it over
BEAT_S = 10  # between two signs of life
GONE_S = 120  # without one a driver is gone, by the clock of who watches


class OtherDrivers:
    """The drivers of a study's storage, by machine and folder; each counts up an attribute of the study.

    A folder has one driver at a time, so that trials of its earlier ones are its own.
    """

    def __init__(self, opened: optuna.Study, root: Path) -> None:
        self.own_name = f"{socket.gethostname()}:{root.resolve()}"
        self._opened = opened
        self._beaten_at = -float(BEAT_S)
        self._beats: dict[str, int] = {}
        self._changed_at: dict[str, float] = {}

    def exchange_beats(self) -> None:
        """Give a sign of life and look for those of the others, every BEAT_S seconds."""
        now = time.monotonic()
        if now - self._beaten_at < BEAT_S and self._beats:
            return
        self._beaten_at = now
        attributes = self._opened.user_attrs
        own_key = f"{DRIVER} {self.own_name}"
        self._opened.set_user_attr(own_key, attributes.get(own_key, 0) + 1)
        for key, beat in attributes.items():
            name = key.removeprefix(f"{DRIVER} ")
            if name != key and self._beats.get(name) != beat:
                self._beats[name] = beat
                self._changed_at[name] = now

    def find_driver(self, trial: FrozenTrial) -> str:
        """Return the other driver that works on a running trial; "" where that one is gone, or was of this folder.

        A trial that bears no name yet may be anybody's.
        """
        name = trial.user_attrs.get(DRIVER)
        names = [name] if name else sorted(self._changed_at)
        return next((other for other in names if other != self.own_name and self._is_alive(other)), "")

    def _is_alive(self, name: str) -> bool:
        changed_at = self._changed_at.setdefault(name, time.monotonic())
        return time.monotonic() - changed_at < GONE_S
