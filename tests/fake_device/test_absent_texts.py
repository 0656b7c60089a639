"""Texts that are not there cost nothing on a GPU that is not there, and no wait."""

import numpy as np
import pytest
import torch

from compclip.interface.method import load_method
from compclip.train import simulated_step
from compclip.train.batch import CAPTION, NEGATIVE, Batch
from tests.distributed_check import change_texts
from tests.fake_device.test_steps import KINDS, simulate


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
    ("name", "kind", "change"), [("negclip", "bf16", with_gaps), ("fsc_clip", "grouped", with_lengths)]
)
@pytest.mark.usefixtures("first_step")
def test_a_gpu_is_not_waited_for(monkeypatch, name, kind, change):
    """Fewer operations, and the index is copied from pinned memory."""
    monkeypatch.setitem(KINDS, "grouped", {**KINDS["cached"], "text_groups": 3})
    plain, build_batch = simulate(load_method(name), kind), simulated_step.build_batch
    monkeypatch.setattr(simulated_step, "build_batch", lambda *args: change(build_batch(*args)))
    cost = simulate(load_method(name), kind)
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops
