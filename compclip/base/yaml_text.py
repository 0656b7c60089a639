"""YAML from outside, parsed within limits of its size and depth; OmegaConf limits what its aliases grow to.

The parser that builds values recurses, and a deep text ends the process; the events of libyaml's come from a loop.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from compclip.base import environment_variables
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text

DEPTH = 50
BYTES = 1 << 20
WHOLE = 1 << 63  # whole numbers beyond it are numbers to nobody behind us
SHOWN = 300  # characters of a fault
# What OmegaConf raises of a text: its own errors, and what Python says of keys, dates, integers and single values.
FAULTS = (
    yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, TypeError, AttributeError, AssertionError,
    RecursionError,
)  # fmt: skip
NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
MARK = "${"
OTHER_NUMBER = re.compile(r"[-+]?(0[0-7_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")  # octal, and to the base of 60
# The interpolations that a text may hold: of the environment, where an inner one is in an outer one, and of keys.
OF_ENVIRONMENT = re.compile(r"\$\{oc\.(?:env:\s*[A-Za-z_]\w*\s*(?:,[^${}]*)?|decode:[^${}]*)\}", re.ASCII)
OF_KEY = re.compile(r"\$\{[^${}:]*\}")
FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's


def read_yaml(path: str | Path, expected: str) -> Any:
    """Return a file's mapping as OmegaConf has it, unresolved. `expected` says what the file should hold.

    Raises UserError for a file that cannot be read, that is no YAML, beyond the limits, or no mapping.
    """
    return parse_yaml(read_text(path), str(path), expected)


def parse_yaml(text: str, where: str, expected: str) -> Any:
    """Return a text's mapping as OmegaConf has it, unresolved."""
    check_limits(text, where)
    try:
        config = OmegaConf.load(io.StringIO(text))
    except FAULTS as error:
        fault = expected if type(error) is OSError else f"not YAML: {describe_error(error)}"  # of a single value
        raise UserError(f"{where}: {fault}") from error
    if not OmegaConf.is_dict(config):
        raise UserError(f"{where}: {expected}")
    return config


def check_limits(text: str, where: str) -> None:
    """Raise UserError for a text that is too large or too deep, before anything builds its values.

    Also for a number that YAML 1.1 takes for another one than is written.
    """
    if len(text.encode("utf-8", "surrogatepass")) > BYTES:
        raise UserError(f"{where}: larger than {BYTES >> 20} MiB; a file of parameters is small")
    depth = 0
    with contextlib.suppress(yaml.YAMLError, ValueError):  # which the next parser will say better
        for event in yaml.parse(text, FAST_LOADER):
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and OTHER_NUMBER.fullmatch(event.value):
                raise UserError(
                    f"{where}: line {event.start_mark.line + 1}: {event.value}: YAML takes it for "
                    f"{yaml.safe_load(event.value)}; write the number plainly, or a text in quotes"
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH:
                raise UserError(f"{where}: nested more than {DEPTH} deep; a file of parameters is flat")


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys; tuples become lists, as files have them."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return flat


def to_plain(config: Any, where: str, resolves: bool = True) -> Any:
    """Return plain values, interpolations resolved; without `resolves` the config must have none.

    Raises UserError naming the key of one that cannot be: an interpolation that leads nowhere or to itself, a text that
    no file and no command could hold, a number that is none, a key that is no text, an environment variable that is
    not allowed, a URL made of one.
    """
    try:
        values: Any = OmegaConf.to_container(config, throw_on_missing=True)
        references = [(key, text) for key, text in _iterate_texts(values) if MARK in text]
        if references and not resolves:
            raise UserError(f"{where}: {references[0][0]}: refers to another value, and this file is a resolved one")
        if references:
            for key, text in references:  # anything else could hide a variable of the environment
                if MARK in OF_KEY.sub("", OF_ENVIRONMENT.sub("", OF_ENVIRONMENT.sub("", text))):
                    raise UserError(f"{where}: {key}: {text[:100]!a}: give ${{key}}, ${{oc.env:NAME}} or the value")
            environment_variables.check_allowed(references, where)
            values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except FAULTS as error:
        full_key = getattr(error, "full_key", None)
        fault = f"{full_key}: {describe_error(error)}" if full_key else describe_error(error)
        if isinstance(error, MissingMandatoryValue):
            fault = f"{full_key}=???: must be given; write a value or remove the line"
        raise UserError(f"{where}: {fault}") from error
    _restore_on_keys(values.get("data"))
    fault = next(_iterate_faults(values, ""), "")
    if fault:
        raise UserError(f"{where}: {fault}")
    environment_variables.check_urls(references, _iterate_texts(values), where)
    return values


def to_unresolved(config: Any) -> Any:
    """Return plain values, interpolations as written: for writing another file."""
    values: Any = OmegaConf.to_container(config)
    _restore_on_keys(values.get("data"))
    return values


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return plain values as YAML, keys in the order given."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def describe_error(error: Exception) -> str:
    """Return a library's error as one line of bounded length."""
    if isinstance(error, RecursionError):
        return "refers to itself"
    text = str(error) if isinstance(error, yaml.YAMLError) else (str(error).splitlines() or [type(error).__name__])[0]
    return one_line(text)[:SHOWN]


def _restore_on_keys(section: Any) -> None:
    """Restore the key `on` of lists in `data`, in place: YAML 1.1, which OmegaConf reads, takes it for true."""
    for key, below in list(section.items()) if isinstance(section, dict) else ():
        _restore_on_keys(below)
        if key is True:
            section.setdefault("on", section.pop(key))  # an override has set `on` itself


def _iterate_texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text with its key."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _iterate_texts(below, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            yield from _iterate_texts(below, key)
    elif isinstance(value, str):
        yield key, value


def _iterate_faults(value: Any, key: str) -> Iterator[str]:
    """Yield what is wrong with the keys and values of a mapping, each behind its key."""
    if isinstance(value, dict):
        for name, below in value.items():
            if type(name) in (str, int):
                yield from _iterate_faults(name, key or "a key")
            else:
                yield f"{key}: key {name!r}: must be a text; put it into quotes".removeprefix(": ")
            yield from _iterate_faults(below, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            yield from _iterate_faults(below, key)
    else:
        fault = _find_fault(value)
        if fault:
            yield f"{key}{fault}"


def _find_fault(value: Any) -> str:
    """Return what is wrong with a value: a control character, half a surrogate pair, a number that is none; or ""."""
    if isinstance(value, str):
        if MARK in value:  # put together of several texts, or escaped: the next reader would work it out
            return f": gives {value[:100]!a}, which holds {MARK}; write it without"
        control = NO_TEXT.search(value)
        return f": holds the character {control[0]!a}; remove it" if control else ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"={value}: must be a finite number"
    if isinstance(value, int) and abs(value) >= WHOLE:
        return ": a number beyond 2**63; give a smaller one"
    return "" if value is None or isinstance(value, (int, float)) else f": is a {type(value).__name__}; write a text"
