"""Name the code that decides the numbers of a method's runs, for their run keys and for plan/train/<method>.json.

`numbers.json` has for each method the version of its numbers, and of each module the hash that was shown to give them
(`make numbers`). A module with another hash, such as one that somebody edits, is in the key by that hash, so that
nothing stale is served; one that is listed adds nothing, so that an edit which changes no number trains nothing again.
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

NUMBERS = Path(__file__).with_name("numbers.json")


@dataclass(frozen=True)
class Numbers:
    """What a release says of its code: versions by method, hashes by module.

    `older`: of each method the hash of all modules by which runs were trained before there were versions.
    """

    versions: Mapping[str, int]
    modules: Mapping[str, list[str]]
    older: Mapping[str, str]


@functools.cache
def read_numbers() -> Numbers:
    """Read the shipped file."""
    return Numbers(**read_mapping(NUMBERS))


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
    """Return the name of the code that decides a method's numbers. Raises UserError for an unknown method."""
    return name_code(method, hash_training_modules(method))


def hash_training_modules(method: str) -> dict[str, str]:
    """Return the hash of each module behind `hash_training_code`, by name. Raises UserError for an unknown method."""
    return code_hash.hash_modules(*entries(method), without=left_out(method))


def name_code(method: str, modules: Mapping[str, str]) -> str:
    """Return a hash over the version of a method's numbers and those of its modules that the version does not cover.

    `modules` may be those of a run that was trained before there were versions.
    """
    name = method.partition(".")[0]
    numbers = read_numbers()
    is_older = numbers.older.get(name) == code_hash.join_hashes(modules)
    uncovered = {} if is_older else list_uncovered(modules)
    text = json.dumps([numbers.versions.get(name, 0), uncovered], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def list_uncovered(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the modules whose code `numbers.json` does not name; a hash depends on what the method leaves out."""
    named_hashes = read_numbers().modules
    return {name: digest for name, digest in modules.items() if digest not in named_hashes.get(name, ())}
