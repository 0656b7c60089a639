"""The tensors of a TorchScript archive, in which OpenAI published its weights, read without running what it holds.

An archive is a zip: `code/`, a program; `data.pkl`, the objects of its classes; `data/N`, the bytes of their tensors.
`torch.jit.load` runs the program where an object sets its own state. Here an object is a name and a dict, whatever its
class, and of the program only the lists are read that say which attributes are parameters and buffers.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compclip.model import pickled
from compclip.model.pickled import Fault, Object, View

MOST = 1 << 20  # objects and tensors; OpenAI's largest has some thousands
SPARE = 1 << 26  # bytes that the program, which is compressed, may grow to
DIMENSIONS, DEPTH = 16, 32  # of a tensor; of modules in modules
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


def read(path: Path) -> dict[str, Tensor]:
    """Parameters and buffers by name: those of `torch.jit.load(path).state_dict()`, as views of what was read.

    Raises Fault, or what zipfile and pickletools raise, for a damaged or hostile archive.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        top = pickled.value(archive.bytes("data.pkl"))
        return {name: archive.tensor(view) for name, view in _state(top, archive)}


def saved(path: Path, chosen: Callable[[Any], Any]) -> Any:
    """What torch.save wrote beside objects of others' classes, of which names are left: `chosen` says which part.

    A mapping's tensors are read. Raises as `read`.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        part = chosen(pickled.value(archive.bytes("data.pkl")))
        if not isinstance(part, dict):
            return part
        return {k: archive.tensor(v) if isinstance(v, View) else v for k, v in part.items()}


class _Archive:
    """An archive's members, all together no larger than it is: no byte is handed out twice."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self._names = set(file.namelist())
        found = [name for name in self._names if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(found) != 1:
            raise Fault(f"has {len(found)} files data.pkl, not one")
        self._file, self._root, self._room = file, found[0].removesuffix("data.pkl"), size + SPARE
        self._storages: dict[str, Tensor] = {}
        self._modules: dict[str, dict[str, set[str]]] = {}
        if f"{self._root}byteorder" in self._names and self.bytes("byteorder") != b"little":
            raise Fault("was written by a machine of another byte order")

    def bytes(self, name: str) -> bytes:
        """A member's contents."""
        info = self._file.getinfo(f"{self._root}{name}")
        self._room -= info.file_size
        if self._room < 0:
            raise Fault("its parts together are larger than the file")
        return self._file.read(info)

    def tensor(self, view: View) -> Tensor:
        """A view of its storage; it lies within it, and is no larger."""
        storage, sizes, strides = self._storage(view.storage), view.size, view.stride
        if len(sizes) != len(strides) or len(sizes) > DIMENSIONS or min((view.offset, *sizes, *strides)) < 0:
            raise Fault("a tensor has no proper shape")
        last = view.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if math.prod(sizes) > len(storage) or (math.prod(sizes) and last >= len(storage)):
            raise Fault("a tensor is larger than its bytes")
        return storage.as_strided(sizes, strides, view.offset)

    def _storage(self, parts: tuple) -> Tensor:
        kind, key = parts[1:3] if len(parts) == 5 else (None, None)
        dtype = DTYPES.get(kind.name) if isinstance(kind, pickled.Class) else None
        if dtype is None or not isinstance(key, str):
            raise Fault("a tensor of no known type")
        if key not in self._storages:
            raw = bytearray(self.bytes(f"data/{key}"))
            self._storages[key] = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        return self._storages[key]

    def kept(self, kind: str) -> set[str] | None:
        """Names of the parameters and buffers of a class; None where it is no module."""
        module, _, name = kind.rpartition(".")
        if module not in self._modules:
            file = f"code/{module.replace('.', '/')}.py"
            known = f"{self._root}{file}" in self._names
            self._modules[module] = _declared(self.bytes(file).decode()) if known else {}
        return self._modules[module].get(name)


def _declared(program: str) -> dict[str, set[str]]:
    """What the modules of a program's file list as their own, by class."""
    found: dict[str, set[str]] = {}
    names: set[str] | None = None
    for line in program.splitlines():
        if line and not line.startswith(" "):
            opening = re.fullmatch(r"class (\w+)\(Module\):", line)
            names = found.setdefault(opening[1], set()) if opening else None
        elif names is not None and line.startswith(("  __parameters__ = [", "  __buffers__ = [")):
            names.update(re.findall(r'"([^"]*)"', line))
    return found


def _state(top: Any, archive: _Archive) -> Iterator[tuple[str, View]]:
    """Tensors of a module and of the modules below it, by name."""
    ahead, seen = [("", top)], 0
    while ahead:
        prefix, module = ahead.pop()
        kept = archive.kept(module.kind) if isinstance(module, Object) else None
        if kept is None:
            continue
        for name, value in module.attributes.items():
            if isinstance(value, Object):
                ahead.append((f"{prefix}{name}.", value))
            elif isinstance(value, View) and name in kept:
                yield f"{prefix}{name}", value
        seen += 1 + len(module.attributes)
        if seen > MOST or prefix.count(".") > DEPTH:
            raise Fault("its modules stand in each other without end")
