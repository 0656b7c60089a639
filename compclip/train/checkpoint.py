"""Resumable state: one file a checkpoint, tensors and a JSON header, written whole or not at all.

A file is a safetensors file: `model.*` the trained weights and all buffers, `exp_avg.*` and `exp_avg_sq.*` AdamW's
moments by parameter name; `beside.*` what a method keeps beside the model (`extras`). Frozen weights, as those below a
LoRA adapter, are not written. `crc32` in its metadata is of all other bytes behind the first eight: a disk that changed
some is noticed, and the checkpoint before it is read.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from compclip.base import messages
from compclip.base.files import atomic
from compclip.runs import run_folder
from compclip.train import extras
from compclip.train.extras import Extras

KEEP = 2
COUNTS = ("dropped", "asked", "had")  # of a header: pictures by reason, samples by part (`view_shares`)
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def collect_tensors(
    clip: nn.Module, optimiser: torch.optim.Optimizer, extra_parts: Extras = extras.NONE
) -> dict[str, Tensor]:
    """Return what a checkpoint holds, by name in the file; not copies."""
    tensors = _state(clip, extra_parts)
    for name in _frozen_names(clip):
        del tensors[name]
    for name, parameter in _named_parameters(clip, extra_parts):
        state = optimiser.state.get(parameter, {})
        for moment in _MOMENTS:
            if moment in state:
                tensors[f"{moment}.{name}"] = state[moment]
    return tensors


def write_tensors(folder: Path, step: int, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Path:
    """Write a checkpoint's tensors, and delete all files but the last two; return the path.

    Other threads run meanwhile, and no second copy is in memory. safetensors' own `save` makes one, and holds Python's
    lock meanwhile; its `save_file` leaves a file when it is killed whose name no clean-up knows. Raises UserError where
    it cannot be written.
    """
    path = _checkpoint_path(folder, step)
    by_size = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))  # so that all are aligned
    with atomic(path) as tmp, open(tmp, "wb") as file:
        description = _describe_tensors(by_size, {"step": step, **header})
        file.write(description)
        crc = zlib.crc32(description[run_folder.LENGTH :])
        for _, tensor in by_size:
            content = tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data
            file.write(content)
            crc = zlib.crc32(content, crc)
        file.seek(run_folder.find_place(description))
        file.write(f"{crc:08x}".encode())
    for old in _list_files(folder)[:-KEEP]:
        old.unlink()
    return path


def _describe_tensors(tensors: Sequence[tuple[str, Tensor]], header: Mapping[str, Any]) -> bytes:
    """Return the first bytes of a safetensors file: a length (8 bytes), then types, shapes and places as JSON."""
    described: dict[str, Any] = {"__metadata__": {run_folder.NAME: run_folder.UNKNOWN, "header": json.dumps(header)}}
    end = 0
    for name, tensor in tensors:
        start = end
        end = end + tensor.nbytes
        described[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read(
    folder: Path, clip: nn.Module, optimiser: torch.optim.Optimizer, step: int = 0, extra_parts: Extras = extras.NONE
) -> dict | None:
    """Restore the newest complete checkpoint, or that of a step; return its header, or None where there is none."""
    for path in [_checkpoint_path(folder, step)] if step else reversed(_list_files(folder)):
        try:
            if not path.is_file():
                raise OSError("not a regular file")  # a pipe of somebody else's in a shared store would be waited for
            header, tensors = _read_file(path, clip, extra_parts)
        except Exception as error:  # cut by a full disk, or of another model: nothing of the model is changed yet
            messages.warn(f"{path}: unreadable checkpoint ({error}); trying the one before")
        else:
            _restore(tensors, clip, optimiser, extra_parts)
            return header
    return None


def _checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step_{step:08d}.safetensors"


def _list_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("step_*.safetensors"))


def _named_parameters(clip: nn.Module, extra_parts: Extras) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters that may have moments, by their names in the file."""
    return [*clip.named_parameters(), *extra_parts.parameters()]


def _state(clip: nn.Module, extra_parts: Extras) -> dict[str, Tensor]:
    """Return weights, buffers and what the method keeps beside them, by their names in the file."""
    return clip.state_dict(prefix="model.") | extra_parts.state("beside.")


def _frozen_names(clip: nn.Module) -> set[str]:
    """Return the names of parameters that no step changes; a resumed run has them from the backbone."""
    return {f"model.{name}" for name, parameter in clip.named_parameters() if not parameter.requires_grad}


def _read_file(path: Path, clip: nn.Module, extra_parts: Extras) -> tuple[dict, dict[str, Tensor]]:
    """Return header and tensors of a checkpoint. Raises ValueError, among others, unless it is one of this model."""
    run_folder.check_file(path)
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        header = json.loads(file.metadata()["header"])
    if path != _checkpoint_path(path.parent, header["step"]):
        raise ValueError("its header is of another step")
    expected = _state(clip, extra_parts)
    wrong = expected.keys() - tensors.keys() - _frozen_names(clip)
    for name, value in tensors.items():
        like = expected.get(name)
        if like is None and not name.startswith(("model.", "beside.")):
            continue  # a moment
        if like is None or (value.shape, value.dtype) != (like.shape, like.dtype):
            wrong.add(name)
    if wrong:
        raise ValueError(f"of another model: {len(wrong)} tensors differ, as {min(wrong)!r}")
    return header, tensors


def _restore(
    tensors: dict[str, Tensor], clip: nn.Module, optimiser: torch.optim.Optimizer, extra_parts: Extras
) -> None:
    state = _state(clip, extra_parts)
    with torch.no_grad():
        for name in state.keys() & tensors.keys():
            state[name].copy_(tensors[name])
    for name, parameter in _named_parameters(clip, extra_parts):
        # the step count too: a fused AdamW wants it beside the parameter
        moments = {m: tensors[f"{m}.{name}"].to(parameter.device) for m in _MOMENTS if f"{m}.{name}" in tensors}
        if moments:
            optimiser.state[parameter] = moments


# Checkpoints that do not stop the training: copied to memory of the host, then written by a thread beside it.
#
# On a GPU the copies are queued behind the step that made the weights, into pinned memory, and the thread waits for
# them: the next step's kernels run after them. The memory, as large as a file, serves every save of the run. A
# checkpoint waits until the last one is on disk.

THREAD = "checkpoint"  # name of the thread that writes


class CheckpointWriter:
    """Write checkpoints to a folder, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._copies: dict[str, Tensor] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Copy the tensors, which may change afterwards, and begin to write them; wait for the last checkpoint first.

        Raises UserError where that could not be written.
        """
        self.finish()
        events = self._copy(tensors)
        self._thread = threading.Thread(target=self._write, args=(step, dict(header), events), name=THREAD)
        self._thread.start()

    def check(self) -> None:
        """Raise, once, the error of a checkpoint that could not be written; wait for none."""
        error = self._error
        if error:
            self._error = None
            raise error

    def finish(self) -> None:
        """Wait until the last checkpoint is on disk. Raises UserError where it could not be written."""
        if self._thread:
            self._thread.join()
            self._thread = None
        self.check()

    def close(self) -> None:
        """Do as `finish`, and give the memory back."""
        try:
            self.finish()
        finally:
            self._copies = {}

    def _copy(self, tensors: Mapping[str, Tensor]) -> list[Any]:
        """Begin to copy the tensors; return the events of devices behind which all are copied."""
        memory = self._copies
        devices = set()
        self._copies = {}
        for name, tensor in tensors.items():
            copy = memory[name] if name in memory else _like(tensor)
            self._copies[name] = copy.copy_(tensor, non_blocking=True)
            if tensor.device.type != "cpu":
                devices.add(tensor.device)
        events = []
        for device in devices:
            event = torch.get_device_module(device).Event()
            event.record()
            events.append(event)
        return events

    def _write(self, step: int, header: Mapping[str, Any], events: Sequence[Any]) -> None:
        try:
            for event in events:
                event.synchronize()
            write_tensors(self.folder, step, self._copies, header)
        except BaseException as error:  # the training thread raises it
            self._error = error


def _like(tensor: Tensor) -> Tensor:
    """Return memory of the host for a tensor, pinned if it comes from a GPU."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type != "cpu")
