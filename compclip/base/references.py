"""Bound what interpolations grow to: `a: "${b}${b}"`, b of c and so on doubles with each line.

OmegaConf writes every reference out each time; here each key is measured once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from compclip.base.errors import UserError

MARK = "${"
MAX_SIZE = 2 << 20  # characters, keys and references of everything written out
COST = 200  # what a reference counts besides its target: working one out takes OmegaConf as long as many characters
OUTSIDE = re.compile(r"\$\{oc\.(?:env:\s*[A-Za-z_]\w*\s*(?:,[^${}]*)?|decode:[^${}]*)\}", re.ASCII)
RESOLVED = "\0"  # in place of such a text: no name goes on behind it
REFERENCE = re.compile(r"\$\{\s*([^${}:]*?)\s*\}")
KeyPath = tuple[str, ...]


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
