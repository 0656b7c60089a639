"""A step of one of two processes on a GPU that is not there: what the processes tell each other waits for no GPU."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from compclip.interface.method import load_method
from compclip.train import distributed, fake_device
from tests.fake_device.test_steps import TRAINED, simulate


@pytest.fixture
def messages(monkeypatch) -> list[tuple[str, str]]:
    """Two processes, of which the other is as this one; by what device each message goes, and of what kind it is."""
    sent: list[tuple[str, str]] = []

    def all_gather(outputs, tensor, group=None) -> None:
        sent.append(("gather", tensor.device.type))
        for output in outputs:
            output.copy_(tensor)

    def all_reduce(tensor, *_, group=None, async_op=False) -> SimpleNamespace:
        sent.append(("reduce", tensor.device.type))
        return SimpleNamespace(wait=lambda: None)

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_gather", all_gather)
    monkeypatch.setattr(dist, "all_reduce", all_reduce)
    # tensors of the host have no contents here either
    monkeypatch.setattr(distributed, "_gather_numbers", lambda *numbers: [(number, number) for number in numbers])
    return sent


# texts; patches and tokens; concepts; composites; a teacher
FEATURES = ("finetune", "fsc_clip", "c2lip", "clic", "degla")
IN_BFLOAT16 = [pytest.param(name, "bf16", marks=[] if name in FEATURES else [pytest.mark.long]) for name in TRAINED]


@pytest.mark.parametrize(("name", "kind"), [*IN_BFLOAT16, ("c2lip", "cached")])
@pytest.mark.usefixtures("first_step")
def test_no_message_waits_for_the_gpu(messages, name, kind):
    """Flags go by the host, features and gradients by the device."""
    cost = simulate(load_method(name), kind, turns=2 if name == "clic" else 1)
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert {("gather", fake_device.NAME), ("reduce", fake_device.NAME), ("reduce", "cpu")} == set(messages)


def test_gradients_are_summed_without_a_copy_of_all(messages):
    """Sixteen gradients of 4 MiB, in messages of a bucket each: memory beside them is that of two messages at most."""
    with fake_device.simulate() as ledger:
        module = torch.nn.ModuleList(torch.nn.Linear(1024, 1024, False, fake_device.NAME) for _ in range(16))
        for parameter in module.parameters():
            parameter.grad = torch.empty_like(parameter)
        ledger.reset_counts()
        before = ledger.bytes_in_use
        distributed.GradientSums(module).finish()
        assert messages.count(("reduce", fake_device.NAME)) == 3
        assert ledger.peak_bytes - before <= 1.1 * distributed.IN_FLIGHT * distributed.BUCKET_BYTES
