"""Hash the code that decides the numbers of a method's runs, for their run keys and for plan/train/<method>.json."""

from __future__ import annotations

import functools

from compclip.base import code_hash, plugins
from compclip.interface.method import load_method

ENTRY = "compclip.train.fine_tuning"  # imports all of it but the method
UNTRAINED_ENTRY = "compclip.model.clip_model"  # the same of a method that trains nothing
# Imported on the way, without a say in any number: an edit there retrains nothing.
NOT_NUMERICAL = (
    "compclip.base",  # files, errors, plug-ins, lazy imports: nothing of the field
    "compclip.runs",  # where a run's files lie
    "compclip.methods._check",  # ranges of a method's parameters, which the key holds
    # Foreign weights are read when a backbone is made; a key holds the fingerprint of what that left.
    "compclip.model.hub_cache",
    "compclip.model.model_config",
    "compclip.model.transformers_files",
    "compclip.model.weight_files",
)


def entries(method: str) -> tuple[str, str]:
    """Return the entry modules of a method's training. Raises UserError for an unknown method."""
    name = method.partition(".")[0]
    return ENTRY if load_method(name).TRAINS else UNTRAINED_ENTRY, plugins.locate_plugin(plugins.METHODS, name)


def left_out(method: str) -> tuple[str, ...]:
    """Return the modules that are not hashed; a method that trains nothing may read foreign weights itself."""
    if load_method(method).TRAINS:
        return NOT_NUMERICAL
    return tuple(name for name in NOT_NUMERICAL if not name.startswith("compclip.model."))


@functools.cache
def hash_training_code(method: str) -> str:
    """Return the hash of the code that decides a method's numbers. Raises UserError for an unknown method."""
    return code_hash.hash_code(*entries(method), without=left_out(method))


@functools.cache
def hash_training_modules(method: str) -> dict[str, str]:
    """Return the hash of each module behind `hash_training_code`, by name. Raises UserError for an unknown method."""
    return code_hash.hash_modules(*entries(method), without=left_out(method))
