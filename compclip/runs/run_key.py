"""The run key: equal keys give equal bits, so that nothing is trained twice and nothing stale is served."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# What may differ between two runs that give the same bits.
RESOURCES = ("workers", "checkpoint_every_steps")


def compute_key(run: Mapping[str, Any], trains: bool, inputs: str, code: str) -> str:
    """Return 16 hex digits over a resolved run, as config.yaml has it, and the hashes of its inputs and its code."""
    return _hash([_hashed_parameters(run, trains), inputs, code])


def hash_parameters(run: Mapping[str, Any], trains: bool) -> str:
    """Return a hash such that runs with different ones have different keys, whatever their data and code are."""
    return _hash(_hashed_parameters(run, trains))


def _hashed_parameters(run: Mapping[str, Any], trains: bool) -> dict[str, Any]:
    """Return what a key takes from a resolved run.

    The names of backbone and data are no part of it: their contents are. Of a method that trains nothing, schedule and
    seed are none either, but for the context length, to which its text tower is cut.
    """
    train = {k: v for k, v in run["train"].items() if k not in RESOURCES}
    if trains:
        schedule = {"train": train, "seed": run["cell"]["seed"]}
    else:
        schedule = {"context_length": length} if (length := train.get("context_length")) else {}
    return {"method": run["cell"]["method"].partition(".")[0], "config": run["method"], **schedule}


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
