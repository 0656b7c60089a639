"""Read the tensors of TorchScript archives and of what torch.save wrote, without running what these hold.

An archive is a zip: `code/`, a program; `data.pkl`, the objects of its classes; `data/N`, the bytes of their tensors.
`torch.jit.load`, as which OpenAI published its weights, runs the program where an object sets its own state, and a
pickle is itself a program for a machine with a stack. The machine here has the instructions that TorchScript and
torch.save write, and none that imports or calls: an object becomes a name and a dict, a call the name of its function.
Of the program only the lists are read that say which attributes are parameters and buffers.
"""

from __future__ import annotations

import math
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

TENSOR = "torch._utils._rebuild_tensor_v2"
MAPPING = "collections.OrderedDict"
PARAMETER = "torch._utils._rebuild_parameter"
MAX_OBJECTS = 1 << 20  # objects and tensors; OpenAI's largest has some thousands
SPARE_BYTES = 1 << 26  # bytes that the program, which is compressed, may grow to
# of a tensor; of modules in modules
MAX_DIMENSIONS = 16
MAX_DEPTH = 32
DTYPES = {
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.DoubleStorage": torch.float64,
    "torch.LongStorage": torch.int64,
    "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16,
    "torch.CharStorage": torch.int8,
    "torch.ByteStorage": torch.uint8,
    "torch.BoolStorage": torch.bool,
}


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
    """A tensor as part of a storage; `storage` is ("storage", type, key, device, length). Nothing of it is checked."""

    storage: Any
    offset: Any
    size: Any
    stride: Any


def read_archive(path: Path) -> dict[str, Tensor]:
    """Return parameters and buffers by name, equal to `torch.jit.load(path).state_dict()`, as views of what was read.

    Raises UnsafePickle, or what zipfile and pickletools raise, for a damaged or hostile archive.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        top = read_pickle(archive.bytes("data.pkl"))
        return {name: archive.tensor(view) for name, view in _collect_tensors(top, archive)}


def read_saved(path: Path, select: Callable[[Any], Any]) -> Any:
    """Return the part that `select` takes of what torch.save wrote, with the tensors of a mapping read.

    Objects of other classes are left as their names. Raises as `read_archive`.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        selected = select(read_pickle(archive.bytes("data.pkl")))
        if not isinstance(selected, dict):
            return selected
        return {k: archive.tensor(v) if isinstance(v, TensorView) else v for k, v in selected.items()}


class _Archive:
    """An archive's members, in total no larger than the archive; each is read once."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._names = set(file.namelist())
        pickles = [name for name in self._names if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise UnsafePickle(f"has {len(pickles)} files data.pkl, not one")
        self._file = file
        self._root = pickles[0].removesuffix("data.pkl")
        self._room = size + SPARE_BYTES
        self._storages: dict[str, Tensor] = {}
        self._modules: dict[str, dict[str, set[str]]] = {}
        if f"{self._root}byteorder" in self._names and self.bytes("byteorder") != b"little":
            raise UnsafePickle("was written by a machine of another byte order")

    def bytes(self, name: str) -> bytes:
        """Return a member's contents."""
        info = self._file.getinfo(f"{self._root}{name}")
        self._room -= info.file_size
        if self._room < 0:
            raise UnsafePickle("its parts together are larger than the file")
        return self._file.read(info)

    def tensor(self, view: TensorView) -> Tensor:
        """Return a view of its storage. Raises UnsafePickle where it does not lie within that, or is larger."""
        sizes = view.size
        strides = view.stride
        is_shape = isinstance(sizes, tuple) and isinstance(strides, tuple) and len(sizes) == len(strides)
        if (
            not is_shape
            or len(sizes) > MAX_DIMENSIONS
            or not all(type(number) is int and number >= 0 for number in (view.offset, *sizes, *strides))
        ):
            raise UnsafePickle("a tensor has no proper shape")
        storage = self._storage(view.storage)
        last = view.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        count = math.prod(sizes)
        if count > len(storage) or (count and last >= len(storage)):
            raise UnsafePickle("a tensor is larger than its bytes")
        return storage.as_strided(sizes, strides, view.offset)

    def _storage(self, fields: Any) -> Tensor:
        kind, key = fields[1:3] if isinstance(fields, tuple) and len(fields) == 5 else (None, None)
        dtype = DTYPES.get(kind.name) if isinstance(kind, ClassName) else None
        if dtype is None or not isinstance(key, str):
            raise UnsafePickle("a tensor of no known type")
        if key not in self._storages:
            raw = bytearray(self.bytes(f"data/{key}"))
            self._storages[key] = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        return self._storages[key]

    def tensor_names(self, kind: str) -> set[str] | None:
        """Return the names of the parameters and buffers of a class; None where it is no module."""
        module, _, name = kind.rpartition(".")
        if module not in self._modules:
            file = f"code/{module.replace('.', '/')}.py"
            exists = f"{self._root}{file}" in self._names
            self._modules[module] = _declared_names(self.bytes(file).decode()) if exists else {}
        return self._modules[module].get(name)


def _declared_names(program: str) -> dict[str, set[str]]:
    """Return the parameters and buffers that the modules of a program's file list, by class."""
    declared: dict[str, set[str]] = {}
    names: set[str] | None = None
    for line in program.splitlines():
        if line and not line.startswith(" "):
            opening = re.fullmatch(r"class (\w+)\(Module\):", line)
            names = declared.setdefault(opening[1], set()) if opening else None
        elif names is not None and line.startswith(("  __parameters__ = [", "  __buffers__ = [")):
            names.update(re.findall(r'"([^"]*)"', line))
    return declared


def _collect_tensors(top: Any, archive: _Archive) -> Iterator[tuple[str, TensorView]]:
    """Yield the tensors of a module and of the modules below it, by name."""
    pending = [("", top)]
    visited = 0
    while pending:
        prefix, module = pending.pop()
        names = archive.tensor_names(module.kind) if isinstance(module, InertObject) else None
        if names is None:
            continue
        for name, value in module.attributes.items():
            if isinstance(value, InertObject):
                pending.append((f"{prefix}{name}.", value))
            elif isinstance(value, TensorView) and name in names:
                yield f"{prefix}{name}", value
        visited += 1 + len(module.attributes)
        if visited > MAX_OBJECTS or prefix.count(".") > MAX_DEPTH:
            raise UnsafePickle("its modules are in each other without end")


# --- the machine ----------------------------------------------------------------------------------------------


def read_pickle(program: bytes) -> Any:
    """Return the object that a pickle describes.

    Raises UnsafePickle for an instruction that neither torch.save nor TorchScript writes, or one that is misused;
    ValueError, KeyError or IndexError for a damaged pickle.
    """
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(program):
        step = _STEPS.get(opcode.name)
        if step is None:
            raise UnsafePickle(f"its objects use the instruction {opcode.name}, as no archive of weights does")
        try:
            step(machine, argument)
        except (TypeError, AttributeError) as error:  # a call of what is no function, an item of what is no mapping
            raise UnsafePickle(f"its objects misuse the instruction {opcode.name}") from error
    return machine.stack.pop()


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

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

    def append_items(self, values: Iterable[Any]) -> None:
        """Append to the list on top."""
        list.extend(self.stack[-1], values)

    def set_items(self, pairs: list[Any]) -> None:
        """Set the items whose keys are texts; to hash other keys may take for ever."""
        dict.update(self.stack[-1], {k: v for k, v in zip(pairs[::2], pairs[1::2], strict=True) if isinstance(k, str)})

    def create_object(self) -> None:
        """Push an instance of a class without its arguments."""
        kind, _arguments = self.pop_many(2)
        self.push(InertObject(_class_name(kind)))

    def call_function(self) -> None:
        """Push what a function's result is read as: a tensor, an empty mapping, or the name of the function."""
        function, arguments = self.pop_many(2)
        name = _class_name(function)
        if name == TENSOR:
            self.push(TensorView(*arguments[:4]))
        elif name == PARAMETER and isinstance(arguments[0], TensorView):
            self.push(arguments[0])
        else:
            self.push({} if name == MAPPING else InertObject(name))

    def set_attributes(self) -> None:
        """Set attributes from a dict; state of another kind would be set by the class's own code, and is dropped."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, InertObject) and isinstance(state, dict):
            target.attributes.update(state)


def _class_name(kind: Any) -> str:
    if not isinstance(kind, ClassName):
        raise TypeError
    return kind.name


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "STOP", "BINPERSID"), lambda m, _: None),  # a storage stays the tuple that names it
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINBYTES"), _Machine.push
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
    "APPEND": lambda m, _: m.append_items(m.pop_many(1)),
    "APPENDS": lambda m, _: m.append_items(m.pop_marked()),
    "SETITEM": lambda m, _: m.set_items(list(m.pop_many(2))),
    "SETITEMS": lambda m, _: m.set_items(m.pop_marked()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda m, key: m.memo.__setitem__(key, m.stack[-1])),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, key: m.push(m.memo[key])),
    "GLOBAL": lambda m, name: m.push(ClassName(name.replace(" ", "."))),
    "NEWOBJ": lambda m, _: m.create_object(),
    "REDUCE": lambda m, _: m.call_function(),
    "BUILD": lambda m, _: m.set_attributes(),
}
