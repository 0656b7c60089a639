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


@pytest.mark.usefixtures("first_step")
def test_a_gpu_is_not_waited_for(monkeypatch):
    """Fewer operations, and the index is copied from pinned memory."""
    plain, build_batch = simulate(load_method("negclip")), simulated_step.build_batch

    def build_with_gaps(*args) -> Batch:
        batch = build_batch(*args)
        return change_texts(batch, NEGATIVE, encoded=count_up(batch.negative_BKL) % 2 == 0)

    monkeypatch.setattr(simulated_step, "build_batch", build_with_gaps)
    cost = simulate(load_method("negclip"))
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops


@pytest.mark.usefixtures("first_step")
def test_groups_of_texts_are_not_waited_for(monkeypatch):
    """Their lengths are the host's: fewer operations, and the index is copied from pinned memory."""
    monkeypatch.setitem(KINDS, "grouped", {**KINDS["cached"], "text_groups": 3})
    plain, build_batch = simulate(load_method("fsc_clip"), "grouped"), simulated_step.build_batch

    def build_with_lengths(*args) -> Batch:
        batch = build_batch(*args)
        batch = change_texts(batch, NEGATIVE, length=4 + count_up(batch.negative_BKL) % 7)
        return change_texts(batch, CAPTION, length=5 + count_up(batch.text_BL))

    monkeypatch.setattr(simulated_step, "build_batch", build_with_lengths)
    cost = simulate(load_method("fsc_clip"), "grouped")
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops
