"""The run key: equal keys give equal bits, so that nothing is trained twice and nothing stale is served."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# What may differ between two runs that give the same bits.
RESOURCES = ("workers", "checkpoint_every_steps")
TRAINER = "compclip.train.finish"  # the entry of all code that a checkpoint depends on, besides its method


def of(run: Mapping[str, Any], trains: bool, inputs: str, code: str) -> str:
    """16 hex digits over a resolved run (as config.yaml has it), the fingerprint of its inputs, and its code's."""
    return _hashed([asked(run, trains), inputs, code])


def asked(run: Mapping[str, Any], trains: bool) -> dict[str, Any]:
    """What a key takes from a resolved run.

    The names of backbone and data are no part of it: their contents are. Nor are the schedule and the seed of a method
    that trains nothing.
    """
    train = {k: v for k, v in run["train"].items() if k not in RESOURCES}
    schedule = {"train": train, "seed": run["cell"]["seed"]} if trains else {}
    return {"method": run["cell"]["method"].partition(".")[0], "config": run["method"], **schedule}


def request(run: Mapping[str, Any], trains: bool) -> str:
    """A hash of that: runs with different ones have different keys, whatever their data, backbone and code are."""
    return _hashed(asked(run, trains))


def _hashed(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def code_of(method: str) -> str:
    """The fingerprint of the code that a method's checkpoints depend on. Raises UserError for an unknown method."""
    from compclip.base import code, plugins

    return code.digest(TRAINER, plugins.locate(plugins.METHODS, method.partition(".")[0]))
