"""YAML from outside, parsed within limits: its depth, its size, and what its aliases would grow to.

The parser that builds values recurses, and a deep text ends the process; the events of libyaml's come from a loop.
"""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from compclip.base import from_environment, references
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text

DEPTH = 50
BYTES = 1 << 20
NODES = 1 << 17  # with every alias written out
WHOLE = 1 << 63  # whole numbers beyond it are numbers to nobody behind us
SHOWN = 300  # characters of a fault
# What OmegaConf raises of a text: its own errors, and what Python says of keys, dates, integers and single values.
FAULTS = (
    yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, TypeError, AttributeError, AssertionError,
    RecursionError,
)  # fmt: skip
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

    Raises UserError naming the key of one that cannot be: an interpolation that leads nowhere or grows without end, a
    text that no file and no command could hold, a number that is none, a key that is no text, an environment variable
    that is not allowed, a URL made of one.
    """
    try:
        values = raw = _with_on(OmegaConf.to_container(config, throw_on_missing=True))
        if references.check(raw, where):
            from_environment.check_allowed(raw, where)
            values = _with_on(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise UserError(f"{where}: {error.full_key}=???: must be given; write a value or remove the line") from error
    except FAULTS as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{where}: {f'{key}: ' if key else ''}{told(error)}") from error
    _check_values(values, where, "")
    from_environment.check_urls(raw, values, where)
    return values


def unresolved(config: Any) -> Any:
    """Plain values, interpolations as they stand: what another file is written from."""
    return _with_on(OmegaConf.to_container(config))


def _with_on(values: Any) -> Any:
    """The key `on` of lists in data.<name>: YAML 1.1, which OmegaConf reads, takes it for true; DVC reads 1.2."""
    for section in _below(_below(values).get("data")).values():
        for part in _below(section).values():
            for one in (_below(part), *map(_below, _below(part).values())):
                for key in [key for key in one if key is True]:
                    one.setdefault("on", one.pop(key))
    return values


def _below(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _check_values(value: Any, where: str, key: str) -> None:
    if isinstance(value, dict):
        for name, below in value.items():
            _check_key(name, where, key)
            _check_values(below, where, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            _check_values(below, where, key)
    elif fault := _fault(value):
        raise UserError(f"{where}: {key}{fault}")


def _check_key(name: Any, where: str, key: str) -> None:
    if type(name) not in (str, int):
        raise UserError(f"{where}: {f'{key}: ' if key else ''}key {name!r}: must be a text; put it into quotes")
    if fault := _fault(name):
        raise UserError(f"{where}: {key or 'a key'}{fault}")


def _fault(value: Any) -> str:
    """Control characters end file names and commands, and half a surrogate pair is no character."""
    if isinstance(value, str):
        if references.MARK in value:  # put together of several texts, or escaped: the next reader would work it out
            return f": gives {value[:100]!a}, which holds {references.MARK}; write it without"
        found = NO_TEXT.search(value)
        return f": holds the character {found[0]!a}; remove it" if found else ""
    if isinstance(value, float) and not math.isfinite(value):
        return f"={value}: must be a finite number"
    if isinstance(value, int) and abs(value) >= WHOLE:
        return ": a number beyond 2**63; give a smaller one"
    return "" if value is None or isinstance(value, (int, float)) else f": is a {type(value).__name__}; write a text"


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
