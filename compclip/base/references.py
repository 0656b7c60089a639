"""What interpolations would grow to: `a: "${b}${b}"`, b of c and so on doubles with each line.

OmegaConf writes every reference out, again for each that leads to it; here each place is measured once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from compclip.base.errors import UserError

MARK = "${"
GROWN = 2 << 20  # characters, keys and references of everything written out
COST = 200  # what a reference counts besides its target: working one out takes OmegaConf as long as many characters
OUTSIDE = re.compile(r"\$\{oc\.(?:env:\s*[A-Za-z_]\w*\s*(?:,[^${}]*)?|decode:[^${}]*)\}", re.ASCII)
RESOLVED = "\0"  # in place of such a text: no name goes on behind it
REFERENCE = re.compile(r"\$\{\s*([^${}:]*?)\s*\}")
KeyPath = tuple[str, ...]


def check(values: Any, where: str) -> bool:
    """Whether plain values, interpolations as they stand, have any.

    Raises UserError naming the key of one that is neither `${key}` nor of the environment, or whose growth has no end.
    """
    marked = {place: text for place, text in _texts(values, ()) if MARK in text}
    for place, text in marked.items():
        if MARK in _rest(text):
            key = ".".join(place)
            raise UserError(f"{where}: {key}: {text[:100]!a}: give ${{key}}, ${{oc.env:NAME}} or the value itself")
    if marked and _Sizes(values).of(()) > GROWN:
        first = ".".join(next(iter(marked)))
        raise UserError(f"{where}: {first}: its interpolations grow beyond {GROWN >> 20} MiB; write the values out")
    return bool(marked)


def _texts(value: Any, place: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield place, value
    for key, below in _items(value):
        yield from _texts(below, (*place, key))


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), below) for key, below in value.items())
    elif isinstance(value, list):
        yield from ((str(i), below) for i, below in enumerate(value))


def _rest(text: str) -> str:
    """A text without the interpolations that may stand in it."""
    return REFERENCE.sub("", _inside(text))


def _inside(text: str) -> str:
    """A text without what comes from the environment: `${oc.decode:${oc.env:NAME}}` takes two turns."""
    return OUTSIDE.sub(RESOLVED, OUTSIDE.sub(RESOLVED, text))


class _Sizes:
    """What each place of plain values grows to, measured once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[KeyPath, int] = {}

    def of(self, target: KeyPath) -> int:
        """The size of a place; of the text on the way to it, if one is, whose own target holds it."""
        value = self._root
        for i, key in enumerate(target):
            if isinstance(value, str):
                return self._size(value, target[:i])
            value = _child(value, key)
        return self._size(value, target)

    def _size(self, value: Any, place: KeyPath) -> int:
        if place not in self._known:
            self._known[place] = 0  # of one that leads to itself: OmegaConf says so
            self._known[place] = self._of_text(value, place) if isinstance(value, str) else self._below(value, place)
        return self._known[place]

    def _below(self, value: Any, place: KeyPath) -> int:
        return 1 + sum(len(key) + self._size(below, (*place, key)) for key, below in _items(value))

    def _of_text(self, text: str, place: KeyPath) -> int:
        targets = [_target(name, place) for name in REFERENCE.findall(_inside(text))]
        return len(text) + sum(COST + self.of(target) for target in targets)


def _child(value: Any, key: str) -> Any:
    """As OmegaConf finds it: of a list by its number, of a mapping by its name, which may be a number as well."""
    whole = int(key) if key.isdecimal() and len(key) < 9 else -1
    if isinstance(value, list):
        return value[whole] if 0 <= whole < len(value) else None
    return value.get(key, value.get(whole)) if isinstance(value, dict) else None


def _target(name: str, place: KeyPath) -> KeyPath:
    """Where a reference leads; one dot before it is the mapping that holds it, each further one the next around."""
    bare = name.lstrip(".")
    up = len(name) - len(bare)
    keys = tuple(key for key in re.split(r"[.\[\]]+", bare) if key)
    return (*place[:-up], *keys) if up else keys
