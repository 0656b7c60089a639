"""Read pickles without running them: an object becomes a name and a dict, a call the name of its function.

A pickle is a program for a machine with a stack. This machine has the instructions that TorchScript and torch.save
write, and none that imports or calls; of classes and functions it holds the names.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

TENSOR, MAPPING = "torch._utils._rebuild_tensor_v2", "collections.OrderedDict"
PARAMETER = "torch._utils._rebuild_parameter"


class UnsafePickle(Exception):
    """An archive that is damaged or hostile."""


@dataclass(frozen=True, eq=False)
class ClassName:
    """The name of a class or a function; nothing is imported."""

    name: str


@dataclass(frozen=True, eq=False)
class InertObject:
    """An instance of a class, or the result of a function: the name of either, and attributes."""

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TensorView:
    """A tensor as part of a storage; `storage` is ("storage", type, key, device, length) as it was written."""

    storage: tuple
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def read_pickle(program: bytes) -> Any:
    """Return the object that a pickle describes.

    Raises UnsafePickle for an instruction that neither torch.save nor TorchScript writes; ValueError, KeyError or
    IndexError for a damaged pickle.
    """
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(program):
        step = _STEPS.get(opcode.name)
        if step is None:
            raise UnsafePickle(f"its objects use the instruction {opcode.name}, as no archive of weights does")
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

    def pop_many(self, number: int) -> tuple:
        """Pop the last values, in order."""
        return tuple(reversed([self.stack.pop() for _ in range(number)]))

    def pop_marked(self) -> list[Any]:
        """Pop the values since the last mark."""
        start = self.marks.pop()
        values, self.stack[start:] = self.stack[start:], []
        return values


def _append_items(machine: _Machine, values: Iterable[Any]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, list):
        raise UnsafePickle("its objects append to what is no list")
    target.extend(values)


def _set_items(machine: _Machine, pairs: list[Any]) -> None:
    """Set the items whose keys are texts; to hash other keys may take for ever."""
    target = machine.stack[-1]
    if not isinstance(target, dict):
        raise UnsafePickle("its objects set an item of what is no mapping")
    target.update({k: v for k, v in zip(pairs[::2], pairs[1::2], strict=True) if isinstance(k, str)})


def _create_object(machine: _Machine, _: Any) -> None:
    kind, _arguments = machine.pop_many(2)
    machine.push(InertObject(_class_name(kind)))


def _call_function(machine: _Machine, _: Any) -> None:
    function, arguments = machine.pop_many(2)
    name = _class_name(function)
    if name == TENSOR:
        machine.push(_make_view(arguments))
    elif name == PARAMETER and isinstance(arguments, tuple) and isinstance(next(iter(arguments), None), TensorView):
        machine.push(arguments[0])
    else:
        machine.push({} if name == MAPPING else InertObject(name))


def _set_attributes(machine: _Machine, _: Any) -> None:
    """Set attributes from a dict; state of another kind would be set by the class's own code, and is dropped."""
    state, target = machine.pop(), machine.stack[-1]
    if isinstance(target, InertObject) and isinstance(state, dict):
        target.attributes.update(state)


def _class_name(kind: Any) -> str:
    if not isinstance(kind, ClassName):
        raise UnsafePickle("its objects call what is no function")
    return kind.name


def _make_view(arguments: Any) -> TensorView:
    fields: Any = arguments[:4] if isinstance(arguments, tuple) else [None] * 4
    storage, offset, size, stride = fields
    if not (isinstance(storage, tuple) and isinstance(size, tuple) and isinstance(stride, tuple)):
        raise UnsafePickle("a tensor without a storage or a shape")
    if not all(type(number) is int for number in (offset, *size, *stride)):
        raise UnsafePickle("a tensor whose shape is not of whole numbers")
    return TensorView(storage, offset, size, stride)


def _do_nothing(_machine: _Machine, _: Any) -> None:
    pass


def _push_argument(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "STOP", "BINPERSID"), _do_nothing),  # a storage stays the tuple that names it
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINBYTES"), _push_argument
    ),
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "TUPLE": lambda m, _: m.push(tuple(m.pop_marked())),
    "TUPLE1": lambda m, _: m.push(m.pop_many(1)),
    "TUPLE2": lambda m, _: m.push(m.pop_many(2)),
    "TUPLE3": lambda m, _: m.push(m.pop_many(3)),
    "APPEND": lambda m, _: _append_items(m, m.pop_many(1)),
    "APPENDS": lambda m, _: _append_items(m, m.pop_marked()),
    "SETITEM": lambda m, _: _set_items(m, list(m.pop_many(2))),
    "SETITEMS": lambda m, _: _set_items(m, m.pop_marked()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda m, key: m.memo.__setitem__(key, m.stack[-1])),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, key: m.push(m.memo[key])),
    "GLOBAL": lambda m, name: m.push(ClassName(name.replace(" ", "."))),
    "NEWOBJ": _create_object,
    "REDUCE": _call_function,
    "BUILD": _set_attributes,
}
