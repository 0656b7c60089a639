"""YAML from outside, parsed within limits: its depth, its size, and what its aliases would grow to.

The parser that builds values recurses, and a deep text ends the process; the events of libyaml's come from a loop.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from compclip.base import from_environment
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text

DEPTH = 50
BYTES = 1 << 20
NODES = 1 << 17  # with every alias written out
SHOWN = 300  # characters of a fault
# What OmegaConf raises of a text: its own errors, and what Python says of keys, dates, integers and single values.
FAULTS = (yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, TypeError, AttributeError, RecursionError)
NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
EVENTS: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: str | Path, wanted: str) -> Any:
    """A file's mapping as OmegaConf has it, interpolations as they stand. `wanted` says what it should hold.

    Raises UserError for a file that cannot be read, that is no YAML, beyond the limits, or no mapping.
    """
    return parsed(read_text(path), str(path), wanted)


def parsed(text: str, where: str, wanted: str) -> Any:
    """The same of a text."""
    check(text, where)
    try:
        found = OmegaConf.load(io.StringIO(text))
    except FAULTS as error:
        if type(error) is OSError:  # a single value
            raise UserError(f"{where}: {wanted}") from error
        raise UserError(f"{where}: not YAML: {told(error)}") from error
    if not OmegaConf.is_dict(found):
        raise UserError(f"{where}: {wanted}")
    return found


def check(text: str, where: str) -> None:
    """Raise UserError for a text beyond the limits, before anything parses it."""
    if fault := _beyond(text):
        raise UserError(f"{where}: {fault}")


def plain(config: Any, where: str) -> Any:
    """Plain values, interpolations resolved.

    Raises UserError naming the key of one that cannot be, whose text no file and no command could hold, or that is a
    URL made of environment variables.
    """
    try:
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise UserError(f"{where}: {error.full_key}=???: must be given; write a value or remove the line") from error
    except FAULTS as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{where}: {f'{key}: ' if key else ''}{told(error)}") from error
    _check_texts(values, where, "")
    from_environment.check(OmegaConf.to_container(config), values, where)
    return values


def _check_texts(value: Any, where: str, key: str) -> None:
    """Control characters end file names and commands, and half a surrogate pair is no character."""
    if isinstance(value, dict):
        for name, below in value.items():
            _check_texts(str(name), where, key or "a key")
            _check_texts(below, where, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            _check_texts(below, where, key)
    elif isinstance(value, str) and (found := NO_TEXT.search(value)):
        raise UserError(f"{where}: {key}: holds the character {found[0]!a}; remove it")


def told(error: Exception) -> str:
    """A library's error in one line of bounded length."""
    if isinstance(error, RecursionError):
        return "refers to itself"
    text = str(error) if isinstance(error, yaml.YAMLError) else (str(error).splitlines() or [type(error).__name__])[0]
    return one_line(text)[:SHOWN]


def _beyond(text: str) -> str:
    """Which limit a text goes beyond; nothing for a good one, and for one whose fault the next parser tells."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES:
        return f"larger than {BYTES >> 20} MiB; a file of parameters is small"
    try:
        return _scanned(text)
    except (yaml.YAMLError, ValueError):
        return ""


def _scanned(text: str) -> str:
    """Nodes are counted with their aliases written out: each anchor knows how many it stands for."""
    total = 0
    opened: list[tuple[str | None, int]] = []  # anchor, and how many nodes came before
    anchored: dict[str | None, int] = {}
    for event in yaml.parse(text, EVENTS):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in (anchor for anchor, _ in opened):
                return f"*{event.anchor} stands inside of what it names; write it out"
            total += anchored.get(event.anchor, 1)
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, total))
            elif event.anchor:
                anchored[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            anchored[anchor] = total - before + 1
        if len(opened) > DEPTH:
            return f"nested more than {DEPTH} deep; a file of parameters is flat"
        if total > NODES:
            return f"more than {NODES} values with its aliases written out; write fewer"
    return ""
