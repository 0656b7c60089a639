"""A run resumed on a GPU: every restored tensor stands where an undisturbed run has it. Fake tensors, no GPU needed."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from compclip.config.sections import Train
from compclip.model import towers
from compclip.train import checkpoint, extras, optimiser
from compclip.train.extras import Extras
from tests import checkpoint_files, distributed_check
from tests.train.test_extras import KeepingMethod

State = tuple[nn.Module, Extras, torch.optim.AdamW]


def build(kind: str, device: str) -> State:
    """A model with a head, a moving teacher and a memory, and its optimiser, as `fine_tuning.train` makes them."""
    with unset_fake_temporarily():
        clip = distributed_check.model(bias=True).float()
        if kind == "lora":
            distributed_check.adapt(clip)
        if kind == "bfloat16":
            towers.cast_weights(clip, "bf16_weights")
        model = SimpleNamespace(clip=clip, model_cfg=distributed_check.SHAPE)
        method_extras = extras.create_extras(KeepingMethod(0.5), None, model, seed=0)
    memory = {name: value.to(device) for name, value in method_extras.memory.items()}
    heads, teacher = method_extras.heads.to(device), method_extras.teacher.to(device)
    method_extras = replace(method_extras, heads=heads, teacher=teacher, memory=memory)
    return clip.to(device), method_extras, optimiser.adamw(clip, Train(lr=0.01), method_extras.parameters())


def step(state: State) -> None:
    """One optimiser step along made-up gradients: torch's autograd engine refuses a fake GPU."""
    clip, extra_parts, adamw = state
    for _, parameter in checkpoint._named_parameters(clip, extra_parts):
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    adamw.step()
    extra_parts.after_step(clip)


def placement(state: State) -> dict[str, tuple[torch.device, torch.dtype]]:
    """Device and type of all that a run computes with, by name."""
    clip, extra_parts, adamw = state
    tensors = {f"model.{name}": value for name, value in clip.state_dict().items()}
    tensors |= {f"extras.{name}": value for name, value in extra_parts.state().items()}
    for name, parameter in checkpoint._named_parameters(clip, extra_parts):
        tensors |= {f"{key}.{name}": value for key, value in adamw.state.get(parameter, {}).items()}
    return {name: (value.device, value.dtype) for name, value in tensors.items()}


@pytest.fixture
def fake_gpu(monkeypatch) -> Iterator[None]:
    """Tensors with devices and without contents; the file is read as ever."""
    read_contents = checkpoint._read_file

    def contents(*args):
        with unset_fake_temporarily():
            return read_contents(*args)

    monkeypatch.setattr(checkpoint, "_read_file", contents)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def resumed(kind: str, folder) -> State:
    """A run on the GPU after its first life wrote a checkpoint of one step."""
    with unset_fake_temporarily():
        saved = build(kind, "cpu")
        step(saved)
        checkpoint_files.write(folder, 1, saved[0], saved[2], {"dropped": {}}, saved[1])
    state = build(kind, "cuda")
    assert checkpoint.read(folder, state[0], state[2], extra_parts=state[1]) == {"step": 1, "dropped": {}}
    return state


@pytest.mark.parametrize("kind", ["full", "lora", "bfloat16"])
def test_restored_state_is_where_the_first_step_puts_it(fake_gpu, tmp_path, kind):
    """Weights, buffers, heads, teacher, memory, both moments and the step counts, of each parameter that is trained."""
    undisturbed = build(kind, "cuda")
    step(undisturbed)
    expected = placement(undisturbed)
    assert {device.type for device, _ in expected.values()} == {"cuda"}
    kinds = {part for name in expected for part in name.split(".")[:2]}
    assert kinds >= {"model", "extras", "exp_avg", "exp_avg_sq", "step", "heads", "teacher", "memory"}
    assert placement(resumed(kind, tmp_path)) == expected
