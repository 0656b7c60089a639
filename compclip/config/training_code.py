"""Identify the code that decides the numbers of a method's runs, for run keys and for plan/train/<method>.json.

`numbers.json` holds a version of the numbers for each method, and for each module the hashes of code that was shown to
give these numbers (`make numbers`). A module with a listed hash adds nothing to the key, so an edit that changes no
number does not train anything again. Any other module adds its hash, so that no stale result is used.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compclip.base import code_hash, plugins
from compclip.base.files import read_mapping
from compclip.interface.method import load_method

ENTRY = "compclip.train.fine_tuning"  # imports all of this code except the method
UNTRAINED_ENTRY = "compclip.model.clip_model"  # likewise, for a method that trains nothing
# Modules that are imported but decide no number: an edit of them trains nothing again.
NOT_NUMERICAL = (
    "compclip.base",  # files, errors, plug-ins, lazy imports: nothing of the field
    "compclip.runs",  # where a run's files lie
    "compclip.methods._check",  # checks a method's parameters, which are in the key themselves
    # These read foreign weights when a backbone is made; the key has the fingerprint of the resulting backbone.
    "compclip.model.hub_cache",
    "compclip.model.model_config",
    "compclip.model.transformers_files",
    "compclip.model.weight_files",
)

NUMBERS = Path(__file__).with_name("numbers.json")


@dataclass(frozen=True)
class Numbers:
    """The content of numbers.json: versions by method, hashes by module.

    `older`: for each method the hash over all its modules in runs that were trained before versions existed.
    """

    versions: Mapping[str, int]
    modules: Mapping[str, list[str]]
    older: Mapping[str, str]


@functools.cache
def read_numbers() -> Numbers:
    """Read the numbers.json of the package."""
    return Numbers(**read_mapping(NUMBERS))


def entries(method: str) -> tuple[str, str]:
    """Return the two modules whose imports are a method's training code. Raises UserError for an unknown method."""
    name = method.partition(".")[0]
    return ENTRY if load_method(name).TRAINS else UNTRAINED_ENTRY, plugins.locate_plugin(plugins.METHODS, name)


def left_out(method: str) -> tuple[str, ...]:
    """Return the modules that are not hashed; a method that trains nothing may itself read foreign weights."""
    if load_method(method).TRAINS:
        return NOT_NUMERICAL
    return tuple(name for name in NOT_NUMERICAL if not name.startswith("compclip.model."))


@functools.cache
def hash_training_code(method: str) -> str:
    """Return the hash that identifies a method's training code. Raises UserError for an unknown method."""
    return name_code(method, hash_training_modules(method))


def hash_training_modules(method: str) -> dict[str, str]:
    """Return the hash of each module of a method's training code, by name. Raises UserError for an unknown method."""
    return code_hash.hash_modules(*entries(method), without=left_out(method))


def name_code(method: str, modules: Mapping[str, str]) -> str:
    """Return a hash over the version of a method's numbers and the modules that this version does not cover.

    `modules` may also be those of a run that was trained before versions existed.
    """
    name = method.partition(".")[0]
    numbers = read_numbers()
    is_older = numbers.older.get(name) == code_hash.join_hashes(modules)
    uncovered = {} if is_older else list_uncovered(modules)
    text = json.dumps([numbers.versions.get(name, 0), uncovered], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def list_uncovered(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the modules whose hashes `numbers.json` does not list; the same module may have several hashes there."""
    named_hashes = read_numbers().modules
    return {name: digest for name, digest in modules.items() if digest not in named_hashes.get(name, ())}
