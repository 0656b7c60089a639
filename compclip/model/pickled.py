"""What a pickle describes as inert values: an object is a name and a dict, a call is what was to be called.

A pickle is a program for a machine with a stack. This one has the instructions that TorchScript and torch.save write,
and none that imports or calls: what it meets of classes and functions are their names.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

TENSOR, MAPPING = "torch._utils._rebuild_tensor_v2", "collections.OrderedDict"
PARAMETER = "torch._utils._rebuild_parameter"


class Fault(Exception):
    """What is wrong with an archive."""


@dataclass(frozen=True, eq=False)
class Class:
    """The name of a class or a function; nothing is imported."""

    name: str


@dataclass(frozen=True, eq=False)
class Object:
    """An instance, or what a function was to give: whose, and its attributes."""

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class View:
    """A tensor as part of a storage, which is ("storage", type, key, device, length) as it was written."""

    storage: tuple
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def value(program: bytes) -> Any:
    """The object that a pickle describes.

    Raises Fault for an instruction that neither writes, ValueError, KeyError or IndexError for a damaged
    one.
    """
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(program):
        step = _STEPS.get(opcode.name)
        if step is None:
            raise Fault(f"its objects use the instruction {opcode.name}, as no archive of weights does")
        step(machine, argument)
    return machine.pop()


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self.stack.pop()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def last(self, number: int) -> tuple:
        """The last values, taken off."""
        return tuple(reversed([self.stack.pop() for _ in range(number)]))

    def marked(self) -> list[Any]:
        """The values since the last mark, taken off."""
        start = self.marks.pop()
        found, self.stack[start:] = self.stack[start:], []
        return found


def _extend(machine: _Machine, values: Iterable[Any]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, list):
        raise Fault("its objects append to what is no list")
    target.extend(values)


def _update(machine: _Machine, pairs: list[Any]) -> None:
    """Keys of another kind than texts are no names of attributes; to hash them may take for ever."""
    target = machine.stack[-1]
    if not isinstance(target, dict):
        raise Fault("its objects set an item of what is no mapping")
    target.update({k: v for k, v in zip(pairs[::2], pairs[1::2], strict=True) if isinstance(k, str)})


def _new(machine: _Machine, _: Any) -> None:
    kind, _arguments = machine.last(2)
    machine.push(Object(_name(kind)))


def _call(machine: _Machine, _: Any) -> None:
    function, arguments = machine.last(2)
    name = _name(function)
    if name == TENSOR:
        machine.push(_view(arguments))
    elif name == PARAMETER and isinstance(arguments, tuple) and isinstance(next(iter(arguments), None), View):
        machine.push(arguments[0])
    else:
        machine.push({} if name == MAPPING else Object(name))


def _build(machine: _Machine, _: Any) -> None:
    """An object that would set its own state, by a program, has none."""
    state, target = machine.pop(), machine.stack[-1]
    if isinstance(target, Object) and isinstance(state, dict):
        target.attributes.update(state)


def _name(kind: Any) -> str:
    if not isinstance(kind, Class):
        raise Fault("its objects call what is no function")
    return kind.name


def _view(arguments: Any) -> View:
    storage, offset, size, stride = arguments[:4] if isinstance(arguments, tuple) else [None] * 4
    if not (isinstance(storage, tuple) and isinstance(size, tuple) and isinstance(stride, tuple)):
        raise Fault("a tensor without a storage or a shape")
    if not all(type(number) is int for number in (offset, *size, *stride)):
        raise Fault("a tensor whose shape is not of whole numbers")
    return View(storage, offset, size, stride)


def _nothing(_machine: _Machine, _: Any) -> None:
    pass


def _argument(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "STOP", "BINPERSID"), _nothing),  # a storage stays the tuple that names it
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINBYTES"), _argument),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "TUPLE": lambda m, _: m.push(tuple(m.marked())),
    "TUPLE1": lambda m, _: m.push(m.last(1)),
    "TUPLE2": lambda m, _: m.push(m.last(2)),
    "TUPLE3": lambda m, _: m.push(m.last(3)),
    "APPEND": lambda m, _: _extend(m, m.last(1)),
    "APPENDS": lambda m, _: _extend(m, m.marked()),
    "SETITEM": lambda m, _: _update(m, list(m.last(2))),
    "SETITEMS": lambda m, _: _update(m, m.marked()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda m, key: m.memo.__setitem__(key, m.stack[-1])),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, key: m.push(m.memo[key])),
    "GLOBAL": lambda m, name: m.push(Class(name.replace(" ", "."))),
    "NEWOBJ": _new,
    "REDUCE": _call,
    "BUILD": _build,
}
