"""YAML from outside, parsed within limits: its depth, its size, and what its aliases would grow to.

The parser that builds values recurses, and a deep text ends the process; the events of libyaml's come from a loop.
"""

from __future__ import annotations

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
NODES = 1 << 17  # with every alias written out
WHOLE = 1 << 63  # whole numbers beyond it are numbers to nobody behind us
SHOWN = 300  # characters of a fault
# What OmegaConf raises of a text: its own errors, and what Python says of keys, dates, integers and single values.
FAULTS = (
    yaml.YAMLError, OmegaConfBaseException, OSError, ValueError, TypeError, AttributeError, AssertionError,
    RecursionError,
)  # fmt: skip
NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
MARK = "${"
MAX_SIZE = 2 << 20  # characters, keys and references of everything written out
COST = 200  # what a reference counts besides its target: working one out takes OmegaConf as long as many characters
OUTSIDE = re.compile(r"\$\{oc\.(?:env:\s*[A-Za-z_]\w*\s*(?:,[^${}]*)?|decode:[^${}]*)\}", re.ASCII)
RESOLVED = "\0"  # in place of such a text: no name goes on behind it
REFERENCE = re.compile(r"\$\{\s*([^${}:]*?)\s*\}")
KeyPath = tuple[str, ...]
EVENTS: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
        if type(error) is OSError:  # a single value
            raise UserError(f"{where}: {expected}") from error
        raise UserError(f"{where}: not YAML: {describe_error(error)}") from error
    if not OmegaConf.is_dict(config):
        raise UserError(f"{where}: {expected}")
    return config


def check_limits(text: str, where: str) -> None:
    """Raise UserError for a text beyond the limits, before anything parses it."""
    if fault := _exceeded_limit(text):
        raise UserError(f"{where}: {fault}")


def to_plain(config: Any, where: str) -> Any:
    """Return plain values, interpolations resolved.

    Raises UserError naming the key of one that cannot be: an interpolation that leads nowhere or grows without end, a
    text that no file and no command could hold, a number that is none, a key that is no text, an environment variable
    that is not allowed, a URL made of one.
    """
    try:
        values = raw = _restore_on_keys(OmegaConf.to_container(config, throw_on_missing=True))
        if check_growth(raw, where):
            environment_variables.check_allowed(raw, where)
            values = _restore_on_keys(OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise UserError(f"{where}: {error.full_key}=???: must be given; write a value or remove the line") from error
    except FAULTS as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{where}: {f'{key}: ' if key else ''}{describe_error(error)}") from error
    _check_values(values, where, "")
    environment_variables.check_urls(raw, values, where)
    return values


def to_unresolved(config: Any) -> Any:
    """Return plain values, interpolations as written: for writing another file."""
    return _restore_on_keys(OmegaConf.to_container(config))


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return plain values as YAML, keys in the order given."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(values)))


def _restore_on_keys(values: Any) -> Any:
    """Restore the key `on` of lists in data.<name>: YAML 1.1, which OmegaConf reads, takes it for true."""
    for section in _as_dict(_as_dict(values).get("data")).values():
        for entry in _as_dict(section).values():
            for mapping in (_as_dict(entry), *map(_as_dict, _as_dict(entry).values())):
                for key in [key for key in mapping if key is True]:
                    mapping.setdefault("on", mapping.pop(key))
    return values


def _as_dict(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _check_values(value: Any, where: str, key: str) -> None:
    if isinstance(value, dict):
        for name, below in value.items():
            _check_key(name, where, key)
            _check_values(below, where, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            _check_values(below, where, key)
    elif fault := _find_fault(value):
        raise UserError(f"{where}: {key}{fault}")


def _check_key(name: Any, where: str, key: str) -> None:
    if type(name) not in (str, int):
        raise UserError(f"{where}: {f'{key}: ' if key else ''}key {name!r}: must be a text; put it into quotes")
    if fault := _find_fault(name):
        raise UserError(f"{where}: {key or 'a key'}{fault}")


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


def describe_error(error: Exception) -> str:
    """Return a library's error as one line of bounded length."""
    if isinstance(error, RecursionError):
        return "refers to itself"
    text = str(error) if isinstance(error, yaml.YAMLError) else (str(error).splitlines() or [type(error).__name__])[0]
    return one_line(text)[:SHOWN]


def _exceeded_limit(text: str) -> str:
    """Return which limit a text exceeds; "" for a good one, and for one that the next parser will refuse."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES:
        return f"larger than {BYTES >> 20} MiB; a file of parameters is small"
    try:
        return _scan_events(text)
    except (yaml.YAMLError, ValueError):
        return ""


def _scan_events(text: str) -> str:
    """Return which limit is exceeded; values are counted with their aliases written out."""
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
            anchor, nodes_before = opened.pop()
            anchored[anchor] = total - nodes_before + 1
        if len(opened) > DEPTH:
            return f"nested more than {DEPTH} deep; a file of parameters is flat"
        if total > NODES:
            return f"more than {NODES} values with its aliases written out; write fewer"
    return ""


def check_growth(values: Any, where: str) -> bool:
    """Return whether unresolved plain values hold interpolations.

    Raises UserError naming the key of one that is neither `${key}` nor of the environment, or whose growth has no end.
    """
    marked = {key_path: text for key_path, text in _iterate_texts(values, ()) if MARK in text}
    for key_path, text in marked.items():
        if MARK in REFERENCE.sub("", _strip_environment(text)):  # not of the kinds that are measured
            key = ".".join(key_path)
            raise UserError(f"{where}: {key}: {text[:100]!a}: give ${{key}}, ${{oc.env:NAME}} or the value itself")
    if marked and _Sizes(values).size_of(()) > MAX_SIZE:
        first = ".".join(next(iter(marked)))
        raise UserError(f"{where}: {first}: its interpolations grow beyond {MAX_SIZE >> 20} MiB; write the values out")
    return bool(marked)


def _iterate_texts(value: Any, key_path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield key_path, value
    for key, below in _items(value):
        yield from _iterate_texts(below, (*key_path, key))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), below) for key, below in value.items())
    elif isinstance(value, list):
        yield from ((str(i), below) for i, below in enumerate(value))


def _strip_environment(text: str) -> str:
    """Return a text without interpolations of the environment; `${oc.decode:${oc.env:NAME}}` takes two turns."""
    return OUTSIDE.sub(RESOLVED, OUTSIDE.sub(RESOLVED, text))


class _Sizes:
    """Measures what each key of plain values grows to, once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[KeyPath, int] = {}

    def size_of(self, target: KeyPath) -> int:
        """Return the size at a key; of a text on the way to it, whose own target then holds the key."""
        value = self._root
        for i, key in enumerate(target):
            if isinstance(value, str):
                return self._size(value, target[:i])
            value = _get_child(value, key)
        return self._size(value, target)

    def _size(self, value: Any, key_path: KeyPath) -> int:
        if key_path not in self._known:
            self._known[key_path] = 0  # of one that leads to itself: OmegaConf says so
            if isinstance(value, str):
                targets = [_resolve_target(name, key_path) for name in REFERENCE.findall(_strip_environment(value))]
                size = len(value) + sum(COST + self.size_of(target) for target in targets)
            else:
                size = 1 + sum(len(key) + self._size(below, (*key_path, key)) for key, below in _items(value))
            self._known[key_path] = size
        return self._known[key_path]


def _get_child(value: Any, key: str) -> Any:
    """Return a child as OmegaConf finds it: of a list by number, of a mapping by name, which may be a number."""
    index = int(key) if key.isdecimal() and len(key) < 9 else -1
    if isinstance(value, list):
        return value[index] if 0 <= index < len(value) else None
    return value.get(key, value.get(index)) if isinstance(value, dict) else None


def _resolve_target(name: str, key_path: KeyPath) -> KeyPath:
    """Return the key that a reference means; a leading dot is its own mapping, each further dot the next outer one."""
    bare = name.lstrip(".")
    up = len(name) - len(bare)
    keys = tuple(key for key in re.split(r"[.\[\]]+", bare) if key)
    return (*key_path[:-up], *keys) if up else keys
