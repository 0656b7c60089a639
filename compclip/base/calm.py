"""Threads that sleep while they wait for each other.

By default OpenMP's threads spin at every barrier for milliseconds. Where another process has one of the cores, each
barrier waits for a thread that has none while the others burn theirs. What waits is told to sleep by the environment,
which OpenMP reads when torch is loaded: set it for a process that is started, or first of all in this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

SETTINGS = {"OMP_WAIT_POLICY": "passive"}
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # somebody who set one of them has chosen


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What to add to the environment of a process that computes; nothing where somebody has chosen already."""
    return {} if any(name in environment for name in CHOICES) else dict(SETTINGS)


def settle() -> bool:
    """Make this process a calm one, and those that it starts; gives whether torch was not loaded before."""
    os.environ.update(settings(os.environ))
    return "torch" not in sys.modules
