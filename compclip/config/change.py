"""Change a params.yaml from the command line, in place: set values, or declare variants of a method.

Comments and everything else stay as they are. The whole result is checked before it is written.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from omegaconf import ListConfig, OmegaConf

from compclip.base.errors import UserError
from compclip.base.files import read_text, write_atomic
from compclip.base.safe_names import SafeName
from compclip.base.yaml_text import FAST_LOADER, check_limits, flatten, parse_yaml
from compclip.config import edit_params, read
from compclip.interface.method import load_method

ASSIGNMENT = re.compile(r"[^=\s]+=[^\n]*")
POINT = re.compile(r"(?<=\d)\.(?=\d)")


def set_values(path: str | Path, assignments: Sequence[str]) -> list[str]:
    """Set each `key=value`; return the changed lines, each with a leading - or +.

    Raises UserError, and leaves the file unchanged, if a word is not an assignment, if the resulting grid is not valid,
    or if another key shares the changed value through an anchor.
    """
    text = original = read_text(path)
    keys = []
    for word in assignments:
        key, typed = _split(word, f"{path}: {word}")
        if _list_typed(typed, f"{path}: {word}") != [typed]:
            raise UserError(f"{path}: {word}: is not one value; write a list in brackets, and a text in quotes")
        text = edit_params.set_typed(text, key.split("."), typed)
        keys.append(key)
    return _write(Path(path), original, text, keys)


def vary_method(path: str | Path, method: str, assignments: Sequence[str]) -> list[str]:
    """Declare one variant of a method for each value of a `key=value,value`; with several keys, for each combination.

    The variants are named after their values and appended to the methods of the grid. Returns and raises as
    `set_values`.
    """
    if "." in method:
        raise UserError(f"{method}: is a variant, which cannot have variants of its own; give the method's name")
    load_method(method)
    text = original = read_text(path)
    choices = []
    for word in assignments:
        key, typed = _split(word, f"{path}: {word}")
        choices.append([(key, value) for value in _list_typed(typed, f"{path}: {word}")])
    names = []
    methods = OmegaConf.select(read.read_with_overrides(path, ()), "grid.methods")  # may come from its base
    for name in methods if isinstance(methods, ListConfig) else ():
        text = edit_params.append_item(text, ["grid", "methods"], name)
    text = edit_params.begin_block(text, ["methods", method, "variants"])
    for values in itertools.product(*choices):
        name = str(SafeName("_".join(_name_value(*pair) for pair in values), f"variant of {method}"))
        for key, typed in values:
            text = edit_params.set_typed(text, ["methods", method, "variants", name, *key.split(".")], typed)
        text = edit_params.append_item(text, ["grid", "methods"], f"{method}.{name}")
        names.append(name)
    return _write(Path(path), original, text, ["grid.methods", *(f"methods.{method}.variants.{n}" for n in names)])


def _split(word: str, where: str) -> tuple[str, str]:
    """Return the key and the value of a `key=value`, the value as it was typed."""
    key, _, typed = word.partition("=")
    if not ASSIGNMENT.fullmatch(word) or not typed.strip():
        raise UserError(f"{where}: must be key=value, such as train.lr=1e-5")
    check_limits(typed, where)
    return key, typed.strip()


def _list_typed(typed: str, where: str) -> list[str]:
    """Split a text at commas outside of brackets and quotes; return the values as they were typed."""
    text = f"[{typed}]"
    try:
        sequence = yaml.compose(text, FAST_LOADER)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: is not valid YAML; put a text into quotes") from error
    values = [text[node.start_mark.index : node.end_mark.index] for node in sequence.value]
    if any(isinstance(n, yaml.MappingNode) and v[0] != "{" for n, v in zip(sequence.value, values, strict=True)):
        raise UserError(f"{where}: is a mapping; put it into {{}}, or a text into quotes")
    return values


def _name_value(key: str, typed: str) -> str:
    """Return a variant's name: the last word of the key and the value, with p for the decimal point."""
    value = re.sub(r"[^\w+-]+", "_", POINT.sub("p", typed)).strip("_")
    return f"{key.rpartition('.')[2]}_{value}"


def _write(path: Path, original: str, text: str, keys: Sequence[str]) -> list[str]:
    """Check a grid's new text, write it, and return the changed lines."""
    merged = read.read_with_overrides(path, (), text)
    before, after = (_list_values(parse_yaml(version, str(path), read.NO_SECTIONS)) for version in (original, text))
    for key in before.keys() | after.keys():
        is_meant = any(f"{key}.".startswith(f"{meant}.") for meant in keys)
        if not is_meant and before.get(key) != after.get(key):
            raise UserError(
                f"{path}: {key} would change as well, because it shares the value (an anchor); write the value out"
            )
    read.check_params(merged, str(path), together=True)
    if text != original:
        write_atomic(path, text)
    lines = difflib.unified_diff(original.splitlines(), text.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _list_values(merged: object) -> Mapping[str, object]:
    """Return a grid's values by their dotted keys, without those that are null."""
    values = flatten(OmegaConf.to_container(merged))  # type: ignore[arg-type]
    return {key: value for key, value in values.items() if value is not None}
