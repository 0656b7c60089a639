"""Let OpenMP's threads sleep while they wait for each other.

By default they spin at every barrier for milliseconds. Where another process has one of the cores, each barrier waits
for a thread that has no core while the others burn theirs. OpenMP reads the setting when torch is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

SETTINGS = {"OMP_WAIT_POLICY": "passive"}
CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # a user who sets one of these has chosen


def passive_waiting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to add to a process's environment; none where the user has chosen already."""
    return {} if any(name in environment for name in CHOICES) else dict(SETTINGS)
