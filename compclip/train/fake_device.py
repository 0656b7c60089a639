"""A GPU that is not there: training steps on tensors with shapes and no contents, on any machine.

A step behaves as on CUDA: autocast casts the same operators, attention is one fused kernel, and a tensor on the wrong
device is an error. What nobody sees on a CPU is counted: how often the host waits for the device, how many kernels are
launched, how much memory is in use at the peak, and how many floating point operations there are.

torch has one slot for a device of one's own (`PrivateUse1`); this module takes it, once a process. Before torch 2.14
the backward pass finds no such device: tensors are then the CPU's, with its kernels. Peaks of a ViT-B/32 are 4 to 6 %
below those of the device and operations 2 to 3 %; casts, waits and copies are those of a CPU.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from compclip.base import messages

NAME = "card" if torch.__version__ >= "2.14" else "cpu"  # compared as versions
BLOCK = 512  # bytes: CUDA's allocator gives no less, and multiples of it
# Operators that autocast runs in the lower precision, and in float32 (torch's documentation of autocast on CUDA).
LOWER = [
    "linear", "mm", "bmm", "addmm", "matmul", "baddbmm", "addbmm", "conv2d", "conv1d", "convolution", "prelu", "mv",
]  # fmt: skip
FLOAT32 = [
    "exp", "expm1", "log", "log1p", "log2", "rsqrt", "reciprocal", "softplus", "layer_norm", "native_layer_norm",
    "group_norm", "nll_loss", "mse_loss", "cosine_similarity", "logsumexp", "softmax.int", "log_softmax.int", "sum",
    "sum.dim_IntList", "cumsum", "pow.Tensor_Scalar", "norm.Scalar", "binary_cross_entropy_with_logits", "kl_div",
    "dist", "cdist",
]  # fmt: skip
_simulating = threading.local()  # its `ledger`: that of the simulation in this thread
PACKAGE = str(Path(__file__).resolve().parents[1])
aten = torch.ops.aten


@dataclass
class Ledger:
    """What happened on the device. Places are `file.py:line` of this package, or of a plug-in that is not in torch."""

    waits: Counter[str] = field(default_factory=Counter)  # by place: the host waited for a value of the device
    blocking_copies: Counter[str] = field(default_factory=Counter)  # by place: from memory that is not pinned
    launches: int = 0
    flops: int = 0
    bytes_in_use: int = 0
    peak_bytes: int = 0

    def reset_counts(self) -> None:
        """Forget counts and the peak; what is allocated stays allocated."""
        self.waits.clear()
        self.blocking_copies.clear()
        self.launches = self.flops = 0
        self.peak_bytes = self.bytes_in_use


@contextlib.contextmanager
def simulate() -> Iterator[Ledger]:
    """Within the block tensors have no contents, `torch.device("card")` exists, and the ledger counts."""
    register_device()
    ledger = _simulating.ledger = Ledger()
    fast_path = torch.backends.mha.get_fastpath_enabled()
    swap_tensors = torch.utils.swap_tensors
    torch.backends.mha.set_fastpath_enabled(False)  # it has no form without contents; training never takes it
    torch.utils.swap_tensors = _swap_tensors
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), _Recorder(ledger):
            yield ledger
    finally:
        _simulating.ledger = None
        torch.backends.mha.set_fastpath_enabled(fast_path)
        torch.utils.swap_tensors = swap_tensors


def _swap_tensors(parameter: Tensor, moved: Tensor) -> None:
    """Move a module's parameter; torch's own function refuses what a weak reference points to, as its modes do."""
    parameter.__class__, moved.__class__ = moved.__class__, parameter.__class__
    parameter.__dict__, moved.__dict__ = moved.__dict__, parameter.__dict__
    torch._C._swap_tensor_impl(parameter, moved)


class _Recorder(TorchDispatchMode):
    """Sees every operator, those of the backward pass too."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.storages: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self.pinned: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is aten._local_scalar_dense.default:
            if _is_on_device(args[0]):
                self.ledger.waits[_find_place()] += 1
            return {torch.bool: True, torch.float32: 1.0}.get(args[0].dtype, 1)
        if func in (aten._pin_memory.default, aten.is_pinned.default):
            return self._pin(func, args[0])
        if kwargs.get("pin_memory"):
            return self._pin(aten._pin_memory.default, func(*args, **kwargs | {"pin_memory": False}))
        if func is aten.nonzero.default:
            return self._find_places(args[0])
        if func is aten.index.Tensor:
            args = (args[0], self._replace_masks(args[1]))
            if _is_on_device(args[0]):
                for index in args[1]:
                    self._count_copy(index, args[0], False)
        if "_fused_" in func.__name__:
            _check_one_device(func, args)
        outputs = func(*args, **kwargs)
        self._count(func, args, kwargs, outputs)
        return outputs

    def _pin(self, func: Any, tensor: Tensor) -> Any:
        if func is aten.is_pinned.default:
            return isinstance(tensor, FakeTensor) and tensor.untyped_storage() in self.pinned
        copy = torch.empty_like(tensor, device="cpu")
        self.pinned.add(copy.untyped_storage())
        return copy

    def _find_places(self, mask: Tensor) -> Tensor:
        """Return places of a mask, all of which are taken to be True; the host waits for those of the device."""
        if _is_on_device(mask):
            self.ledger.waits[_find_place()] += 1
        return torch.empty(mask.numel(), mask.ndim, dtype=torch.long, device=mask.device)

    def _replace_masks(self, indices: Any) -> list[Tensor | None]:
        replaced: list[Tensor | None] = []
        for index in indices:
            is_mask = isinstance(index, Tensor) and index.dtype == torch.bool
            replaced += self._find_places(index).unbind(1) if is_mask else [index]
        return replaced

    def _count(self, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        if func is aten._to_copy.default:
            self._count_copy(args[0], outputs, kwargs.get("non_blocking", False))
        elif func is aten.copy_.default:
            self._count_copy(args[1], args[0], args[2] if len(args) > 2 else False)
        tensors = [t for t in tree_leaves(outputs) if isinstance(t, FakeTensor) and _is_on_device(t)]
        if tensors and not func.is_view and func.overloadpacket not in _NO_KERNEL:
            self._count_kernel(func, args, kwargs, outputs)
        for tensor in tensors:
            self._count_storage(tensor.untyped_storage())

    def _count_kernel(self, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        self.ledger.launches += 1
        formula = flop_registry.get(func.overloadpacket)
        if formula:
            self.ledger.flops += formula(*args, **kwargs, out_val=outputs)

    def _count_copy(self, source: Any, target: Tensor, is_asynchronous: bool) -> None:
        """Count a copy to the host, or from memory of it that is not pinned, for which the host waits."""
        if not isinstance(source, Tensor) or _is_on_device(source) == _is_on_device(target):
            return
        host_side = target if _is_on_device(source) else source
        if is_asynchronous and isinstance(host_side, FakeTensor) and host_side.untyped_storage() in self.pinned:
            return
        counts = self.ledger.waits if _is_on_device(source) else self.ledger.blocking_copies
        counts[_find_place()] += 1

    def _count_storage(self, storage: torch.UntypedStorage) -> None:
        if storage in self.storages:
            return
        self.storages.add(storage)
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self.ledger.bytes_in_use += size
        self.ledger.peak_bytes = max(self.ledger.peak_bytes, self.ledger.bytes_in_use)
        weakref.finalize(storage, _release, self.ledger, size)


_NO_KERNEL = {
    aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided, aten.detach, aten.detach_,
    aten._unsafe_view, aten._reshape_alias, aten.lift_fresh, aten.alias, aten.set_,
}  # fmt: skip


def _check_one_device(func: Any, args: Any) -> None:
    """Raise RuntimeError as CUDA's wrapper of a fused optimiser does: its scalars too must be on the device."""
    devices = {t.device for t in tree_leaves(args) if isinstance(t, Tensor)}
    if len(devices) > 1:
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, found {sorted(map(str, devices))}")


def _release(ledger: Ledger, size: int) -> None:
    ledger.bytes_in_use -= size


def _is_on_device(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor.device.type == NAME


def _find_place() -> str:
    """Return file and line of the innermost frame that is not torch's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/torch/" not in path and path != __file__ and not path.startswith("<"):
            name = Path(path).relative_to(PACKAGE) if path.startswith(PACKAGE) else Path(path).name
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "backward pass"


@functools.cache
def register_device() -> list[torch.library.Library]:
    """Give torch the device and its autocast; return the libraries, which last as long as they are held."""
    if NAME == "cpu":
        messages.note(
            f"torch {torch.__version__} simulates no card: costs are those of a CPU's kernels, peaks 4 to 6 % low"
        )
        return []
    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    operators = torch.library.Library("aten", "IMPL")
    for name in LOWER:
        operators.impl(name, _casting(name, None), "AutocastPrivateUse1")
    for name in FLOAT32:
        operators.impl(name, _casting(name, torch.float32), "AutocastPrivateUse1")
    operators.impl(
        "scaled_dot_product_attention", _casting("scaled_dot_product_attention", None), "AutocastPrivateUse1"
    )
    operators.impl("scaled_dot_product_attention", _attend, "AutogradPrivateUse1")
    operators.impl("scaled_dot_product_attention", _attend, "PrivateUse1")
    return [fallback, operators]


class _Event:
    """A place in the device's queue."""

    def record(self) -> None:
        """Take the place at the queue's end."""

    def synchronize(self) -> None:
        """Wait for the device, which counts in the thread that makes the steps."""
        ledger = getattr(_simulating, "ledger", None)
        if ledger:
            ledger.waits[_find_place()] += 1


class _Module(getattr(backend_registration, "_DummyBackendModule", object)):  # type: ignore[misc]
    """What torch asks `torch.card` for."""

    Event = _Event

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the types that autocast may cast to."""
        return [torch.bfloat16, torch.float16]

    def get_rng_state(self, _device: object = None) -> Tensor:
        """Return the state of a generator that draws nothing."""
        return torch.empty(0, dtype=torch.uint8)

    def set_rng_state(self, _state: Tensor, _device: object = None) -> None:
        """Keep no state."""


def _casting(name: str, dtype: torch.dtype | None) -> Callable[..., Any]:
    """Return an operator that casts its floating point tensors first; None: to autocast's own type."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(aten, packet), overload or "default")
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]

    def run(*args: Any, **kwargs: Any) -> Any:
        target = dtype or torch.get_autocast_dtype(NAME)

        def cast(value: Any) -> Any:
            is_cast = _is_on_device(value) and value.is_floating_point() and value.dtype != torch.float64
            return value.to(target) if is_cast else value

        args = tree_map(cast, args)
        kwargs = tree_map(cast, kwargs)
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*args, **kwargs)

    return run


def _attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attend by the kernel that CUDA takes: flash in half precision without a mask, else the memory-efficient one."""
    if attn_mask is None and query.dtype in (torch.bfloat16, torch.float16):
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None:
        attn_mask = attn_mask.to(query.dtype).expand(*query.shape[:-1], key.shape[-2])
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale
    )[0]
