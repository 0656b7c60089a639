"""Bound what a pickle may cost before it is loaded: its instructions, its memo, and values within values."""

from __future__ import annotations

import pickletools
from typing import IO, Any

from compclip.model.weight_archives import UnsafePickle

MAX_INSTRUCTIONS = 1 << 22  # each may make an object of some dozen bytes
MAX_HASHED = 1 << 24  # values within keys and lists, each counted as often as it is within them
_GROWING = ("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS")
_MARK = [0]


def check_instructions(stream: IO[bytes], size: int) -> None:
    """Raise UnsafePickle for a pickle that would take far more memory than its file has bytes, before it is loaded.

    Python's own reader makes a table up to the largest index that an instruction names.
    """
    sizes = _NestedSizes()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if number > MAX_INSTRUCTIONS:
            raise UnsafePickle(f"has more than {MAX_INSTRUCTIONS:,} instructions")
        if opcode.name.endswith("PUT") and int(argument or 0) > size:
            raise UnsafePickle(f"its objects name a memo of {argument:,} places")
        sizes.step(opcode, argument)
        if sizes.total > MAX_HASHED:
            raise UnsafePickle("its objects are within each other too often")


class _NestedSizes:
    """How many values are within the objects that a pickle makes, each counted as often as it is within them.

    Python hashes a key of tuples by all that is within it: fifty tuples, each of the last one twice, take for ever.
    """

    def __init__(self) -> None:
        self.total = 0
        self._stack: list[list[int]] = []  # of each object a size that grows with a list's items
        self._memo: dict[Any, list[int]] = {}

    def step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow an instruction. Raises UnsafePickle where it takes what is not there."""
        name = opcode.name
        if name.endswith("PUT") or name == "MEMOIZE":
            self._memo[len(self._memo) if argument is None else argument] = self._top()
        elif name.endswith("GET"):
            self._stack.append(self._memo.get(argument, [1]))
        elif name == "DUP":
            self._stack.append(self._top())
        else:
            self._replace(opcode)

    def _top(self) -> list[int]:
        return self._stack[-1] if self._stack else [1]

    def _replace(self, opcode: pickletools.OpcodeInfo) -> None:
        """Take an instruction's values, and leave its results; lists and mappings keep their size cell."""
        before, after = opcode.stack_before, opcode.stack_after
        taken: list[list[int]] = []
        if pickletools.markobject in before:
            while self._stack and (size := self._stack.pop()) is not _MARK:
                taken.append(size)
        for _ in [kind for kind in before if kind not in (pickletools.markobject, pickletools.stackslice)]:
            taken += [self._stack.pop()] if self._stack else []
        self.total += sum(size for (size,) in taken)
        grows = opcode.name in _GROWING and taken
        result = taken[-1] if grows else [1]
        if grows or opcode.name.startswith("TUPLE") or opcode.name in ("FROZENSET", "LIST", "DICT"):
            result[0] += sum(size for (size,) in (taken[:-1] if grows else taken))
        for kind in after:
            self._stack.append(_MARK if kind is pickletools.markobject else result)
