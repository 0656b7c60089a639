"""Training steps on a GPU that is not there: nothing on a wrong device, no wait for it, no copy that blocks.

A fault of each kind, put into a step, is noticed. Then texts that are not there, the whole loop, and two processes.
"""

import contextlib
import copy
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor

from compclip.base import plugins
from compclip.config.cell import Cell
from compclip.config.sections import Backbone, Lora, Train
from compclip.interface.method import Method, load_method
from compclip.train import checkpoint, distributed, fake_device, fine_tuning, optimiser, recorder, simulated_step
from compclip.train.batch import CAPTION, NEGATIVE, Batch
from compclip.train.checkpoint import CheckpointWriter
from compclip.train.simulated_step import StepCost, simulate_step
from tests.distributed_check import change_texts

SHAPE = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 100, "width": 32, "heads": 2, "layers": 1},
}
# How a step may be made; those of `train` that change which operators run.
KINDS = {
    "float32": {},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "bf16_weights": {"precision": "bf16_weights"},
    "fp16_weights": {"precision": "fp16_weights", "optimiser": "adam", "decayed": "all"},
    "cached": {"precision": "bf16", "micro_batch": 3},
    "lora": {"precision": "bf16", "lora": Lora(), "train_logit_scale": False},
    "text_alone": {"precision": "bf16", "trainable": "text"},
}
LAUNCHES = 700  # kernels of a step of plain fine-tuning in bf16, at most; more of them need a reason
# What every run of the tests tries: all methods in bf16, these in parts too, and one in every kind.
EVERY_KIND = "fsc_clip"  # has patches and tokens
IN_PARTS = (EVERY_KIND, "clic", "degla", "fg_clip")  # composites; a teacher; regions
TRAINED = [name for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS]


def is_always_tried(name: str, kind: str) -> bool:
    return kind == "bf16" or name == EVERY_KIND or (kind == "cached" and name in IN_PARTS)


def make_run(method: Method, train: Train) -> SimpleNamespace:
    """A cell's run by a method as it is configured by default."""
    cell = Cell(method.name, "b", "d", 0)
    return SimpleNamespace(cell=cell, method_name=method.name, method=method.Config(), train=train, backbone=Backbone())


def simulate(method: Method, kind: str = "bf16", turns: int = 1, layers: int = 1, **options) -> StepCost:
    """A step of six pictures by a method as it is configured by default; towers of one layer, to save time."""
    shape = copy.deepcopy(SHAPE)
    shape["vision_cfg"]["layers"] = shape["text_cfg"]["layers"] = layers
    train = Train(**{"batch_size": 6, **KINDS[kind], **options})
    return simulate_step(make_run(method, train), method, shape, turns)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[] if is_always_tried(name, kind) else [pytest.mark.long])
        for name, kind in itertools.product(TRAINED, KINDS)
    ],
)
@pytest.mark.usefixtures("first_step")
def test_no_step_waits_or_blocks(name, kind):
    """The host runs ahead of the device: no value is read from it, nothing is copied to it from pageable memory."""
    cost = simulate(load_method(name), kind, turns=2 if name == "clic" else 1)
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops > 0 and cost.peak_bytes > 0


def test_launches_do_not_grow():
    """A small batch is bound by launches."""
    assert simulate(load_method("finetune"), layers=2).launches <= LAUNCHES


@pytest.mark.usefixtures("first_step")
def test_activations_that_are_computed_again_need_less_memory_for_more_arithmetic():
    method = load_method("negclip")
    options = {"layers": 2, "batch_size": 32}
    plain, recomputed = (simulate(method, **options, checkpoint_activations=again) for again in (False, True))
    assert recomputed.peak_bytes < 0.7 * plain.peak_bytes
    assert 1.2 * plain.flops < recomputed.flops < 1.4 * plain.flops
    assert recomputed.waits == {}


class FaultyMethod(Method):
    """Plain fine-tuning with a fault in its loss."""

    def __init__(self, fault) -> None:
        self.name, self.plain, self.fault = "faulty", load_method("finetune"), fault
        self.Config = self.plain.Config

    def views(self, cfg, step):
        return self.plain.views(cfg, step)

    def loss(self, f, cfg, step):
        self.fault(f)
        return self.plain.loss(f, cfg, step)


@pytest.mark.parametrize(
    ("fault", "waits", "copies"),
    [
        (lambda f: f.scale.item(), 1, 0),
        (lambda f: f.text_BD[f.scale > torch.zeros(6, device=f.scale.device)], 1, 0),  # a mask as an index
        (lambda f: f.text_BD[torch.zeros(3, dtype=torch.long)], 0, 1),  # an index of the CPU
    ],
)
def test_a_wait_of_a_loss_is_counted(fault, waits, copies):
    cost = simulate(FaultyMethod(fault))
    assert (sum(cost.waits.values()), sum(cost.blocking_copies.values())) == (waits, copies)
    assert {place.partition(":")[0] for place in (*cost.waits, *cost.blocking_copies)} == {"test_steps.py"}


def test_a_tensor_of_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="same device"):
        simulate(FaultyMethod(lambda f: f.text_BD + torch.zeros(6, 32)))


def test_a_batch_that_is_not_pinned_blocks(monkeypatch):
    monkeypatch.setattr(simulated_step.Batch, "pin_memory", lambda batch: batch)
    copies = simulate(load_method("finetune")).blocking_copies
    assert {place.partition(":")[0] for place in copies} == {"train/batch.py"} and sum(copies.values()) >= 2


def state_on_device() -> dict[str, torch.Tensor]:
    """What a checkpoint holds after one step of plain fine-tuning on the device."""
    method, train = load_method("finetune"), Train(batch_size=6)
    clip = simulated_step.build_model(make_run(method, train), method, SHAPE, fake_device.NAME).clip
    adamw = optimiser.adamw(clip, train)
    for parameter in clip.parameters():
        parameter.grad = torch.ones_like(parameter)
    adamw.step()
    return checkpoint.collect_tensors(clip, adamw)


def save_on_device(monkeypatch, tmp_path) -> tuple[fake_device.Ledger, list[dict[str, torch.Tensor]]]:
    """The ledger of three saves after one step, and what was written."""
    saved_copies: list[dict[str, torch.Tensor]] = []
    monkeypatch.setattr(checkpoint, "write_tensors", lambda *arguments: saved_copies.append(arguments[2]))
    with fake_device.simulate() as ledger:
        tensors = state_on_device()
        ledger.reset_counts()
        writer = CheckpointWriter(tmp_path)
        for step in (1, 2, 3):
            writer.save(step, tensors, {})
        writer.finish()
    assert [copies.keys() for copies in saved_copies] == [tensors.keys()] * 3
    return ledger, saved_copies


def test_a_save_waits_for_no_device(monkeypatch, tmp_path):
    """Weights and moments go to pinned memory, the same at every save; the wait for them is the writer's."""
    waiting: list[str] = []
    monkeypatch.setattr(fake_device._Event, "synchronize", lambda _: waiting.append(threading.current_thread().name))
    ledger, saved_copies = save_on_device(monkeypatch, tmp_path)
    assert (ledger.waits, ledger.blocking_copies, ledger.launches) == ({}, {}, 0)
    assert waiting == [checkpoint.THREAD] * 3
    assert all(saved_copies[0][name] is copy is saved_copies[2][name] for name, copy in saved_copies[1].items())
    assert {name.partition(".")[0] for name in saved_copies[0]} == {"model", "exp_avg", "exp_avg_sq", "step"}


def test_a_save_to_pageable_memory_is_a_wait(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoint, "_like", lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))
    ledger, saved_copies = save_on_device(monkeypatch, tmp_path)
    assert sum(ledger.waits.values()) == 3 * len(saved_copies[0])
    assert {place.partition(":")[0] for place in ledger.waits} == {"train/checkpoint.py"}


def test_an_event_that_a_step_waits_for_is_a_wait():
    with fake_device.simulate() as ledger:
        torch.get_device_module(fake_device.NAME).Event().synchronize()
        assert sum(ledger.waits.values()) == 1


def test_memory_is_what_lives_at_once():
    """Two tensors of 1 MiB, of which one goes before the third comes; freed memory is told."""
    with fake_device.simulate() as ledger:
        first = torch.empty(2**18, device=fake_device.NAME)
        second = torch.empty(2**18, device=fake_device.NAME)
        del first
        third = torch.empty(2**19, device=fake_device.NAME)
        assert (ledger.peak_bytes, ledger.bytes_in_use) == (3 * 2**20, 3 * 2**20)
        del second, third
        assert ledger.bytes_in_use == 0


def test_operations_are_those_of_the_products():
    """A product of 8x16 by 16x4 has 2 x 8 x 16 x 4 operations, its two slopes as many each."""
    with fake_device.simulate() as ledger:
        a, b = (torch.empty(*size, device=fake_device.NAME, requires_grad=True) for size in ((8, 16), (16, 4)))
        (a @ b).sum().backward()
        assert ledger.flops == 3 * 2 * 8 * 16 * 4


def test_autocast_casts_as_on_a_gpu():
    """Products in bfloat16, softmax in float32."""
    with fake_device.simulate():
        a, layer = torch.empty(4, 8, device=fake_device.NAME), torch.nn.Linear(8, 8, device=fake_device.NAME)
        with torch.autocast(fake_device.NAME, torch.bfloat16):
            y = layer(a)
            assert y.dtype == torch.bfloat16 and y.softmax(-1).dtype == torch.float32


def test_fake_tensors_are_left_behind():
    """Behind the block tensors have contents again."""
    with fake_device.simulate():
        pass
    assert torch.ones(2).sum().item() == 2 and not isinstance(torch.ones(1), FakeTensor)


# --- texts that are not there ---------------------------------------------------------------------------------------


def count_up(ids: torch.Tensor) -> np.ndarray:
    """The numbers from 0 on, one for each text."""
    return np.arange(ids.shape[:-1].numel()).reshape(ids.shape[:-1])


def with_gaps(batch: Batch) -> Batch:
    """Every second negative is not there."""
    return change_texts(batch, NEGATIVE, encoded=count_up(batch.negative_BKL) % 2 == 0)


def with_lengths(batch: Batch) -> Batch:
    """Texts of several lengths, which the host knows."""
    batch = change_texts(batch, NEGATIVE, length=4 + count_up(batch.negative_BKL) % 7)
    return change_texts(batch, CAPTION, length=5 + count_up(batch.text_BL))


@pytest.mark.parametrize(
    ("name", "kind", "change", "groups"), [("negclip", "bf16", with_gaps, 1), ("fsc_clip", "cached", with_lengths, 3)]
)
@pytest.mark.usefixtures("first_step")
def test_texts_that_are_not_there_cost_nothing(monkeypatch, name, kind, change, groups):
    """Fewer operations, and the index is copied from pinned memory without a wait."""
    plain, build_batch = simulate(load_method(name), kind, text_groups=groups), simulated_step.build_batch
    monkeypatch.setattr(simulated_step, "build_batch", lambda *args: change(build_batch(*args)))
    cost = simulate(load_method(name), kind, text_groups=groups)
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops


# --- the whole training loop with its recorder ----------------------------------------------------------------------

STEPS = 4


def count_waits(monkeypatch, folder, name: str, **options) -> list[Counter[str]]:
    """Return where each step waited; the last one saves."""
    method, train = load_method(name), Train(batch_size=6, max_steps=STEPS, **options)
    run = make_run(method, train)
    waits: list[Counter[str]] = []
    monkeypatch.setattr(checkpoint, "write_tensors", lambda *_: None)
    with fake_device.simulate() as ledger:
        model = simulated_step.build_model(run, method, SHAPE, fake_device.NAME)

        @contextlib.contextmanager
        def open_batches(sampler, views_at, model, steps, *_) -> Iterator[Iterator]:
            yield (simulated_step.build_batch(views_at(step), 6, model).pin_memory() for step in steps)

        def on_step(step: int, *_) -> None:
            if step:
                waits.append(Counter(ledger.waits))
            ledger.reset_counts()

        monkeypatch.setattr("compclip.train.loader.open_batches", open_batches)
        with recorder.recording(run, folder, on_step) as record:
            fine_tuning.train(run, method, model, SimpleNamespace(per_epoch=STEPS, share=6), record)
            waits.append(Counter(ledger.waits))
    return waits


def test_a_logged_step_waits_once_and_others_never(monkeypatch, tmp_path):
    """Terms, norm, scale and whether every loss was finite come by one copy."""
    waits = count_waits(monkeypatch, tmp_path, "negclip", log_every_steps=2, **KINDS["cached"])
    assert [sum(places.values()) for places in waits[1:]] == [1, 0, 1]
    assert {place.partition(":")[0] for places in waits[1:] for place in places} == {"train/fine_tuning.py"}
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


# --- one of two processes: what they tell each other waits for no GPU -----------------------------------------------


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
