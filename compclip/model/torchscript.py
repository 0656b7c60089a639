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

from compclip.model import inert_pickle
from compclip.model.inert_pickle import InertObject, TensorView, UnsafePickle

MAX_OBJECTS = 1 << 20  # objects and tensors; OpenAI's largest has some thousands
SPARE_BYTES = 1 << 26  # bytes that the program, which is compressed, may grow to
MAX_DIMENSIONS, MAX_DEPTH = 16, 32  # of a tensor; of modules in modules
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


def read_archive(path: Path) -> dict[str, Tensor]:
    """Return parameters and buffers by name, equal to `torch.jit.load(path).state_dict()`, as views of what was read.

    Raises UnsafePickle, or what zipfile and pickletools raise, for a damaged or hostile archive.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        top = inert_pickle.read_pickle(archive.bytes("data.pkl"))
        return {name: archive.tensor(view) for name, view in _collect_tensors(top, archive)}


def read_saved(path: Path, select: Callable[[Any], Any]) -> Any:
    """Return the part that `select` takes of what torch.save wrote, with the tensors of a mapping read.

    Objects of other classes are left as their names. Raises as `read_archive`.
    """
    with zipfile.ZipFile(path) as file:
        archive = _Archive(file, path.stat().st_size)
        selected = select(inert_pickle.read_pickle(archive.bytes("data.pkl")))
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
        self._file, self._root, self._room = file, pickles[0].removesuffix("data.pkl"), size + SPARE_BYTES
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
        storage, sizes, strides = self._storage(view.storage), view.size, view.stride
        if len(sizes) != len(strides) or len(sizes) > MAX_DIMENSIONS or min((view.offset, *sizes, *strides)) < 0:
            raise UnsafePickle("a tensor has no proper shape")
        last = view.offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        count = math.prod(sizes)
        if count > len(storage) or (count and last >= len(storage)):
            raise UnsafePickle("a tensor is larger than its bytes")
        return storage.as_strided(sizes, strides, view.offset)

    def _storage(self, fields: tuple) -> Tensor:
        kind, key = fields[1:3] if len(fields) == 5 else (None, None)
        dtype = DTYPES.get(kind.name) if isinstance(kind, inert_pickle.ClassName) else None
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
    pending, visited = [("", top)], 0
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
            raise UnsafePickle("its modules stand in each other without end")
