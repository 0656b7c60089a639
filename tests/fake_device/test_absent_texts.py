"""Texts that are not there cost nothing on a GPU that is not there, and no wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compclip.interface.method import load_method
from compclip.train import simulated_step
from compclip.train.batch import Batch
from tests.fake_device.test_steps import KINDS, simulate


@pytest.mark.parametrize("kind", ["bf16", "cached"])
def test_a_gpu_is_not_waited_for(monkeypatch, kind):
    """Fewer operations, and the index is copied from pinned memory."""
    plain, build_batch = simulate(load_method("negclip"), kind), simulated_step.build_batch

    def build_with_gaps(*args) -> Batch:
        batch = build_batch(*args)
        encoded_BK = np.arange(batch.mask_BK.numel()).reshape(tuple(batch.mask_BK.shape)) % 2 == 0
        return replace(batch, encoded_BK=encoded_BK, encoded_BP=np.ones(tuple(batch.positive_mask_BP.shape), bool))

    monkeypatch.setattr(simulated_step, "build_batch", build_with_gaps)
    cost = simulate(load_method("negclip"), kind)
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops


def test_groups_of_texts_are_not_waited_for(monkeypatch):
    """Their lengths are the host's: fewer operations, and the index is copied from pinned memory."""
    monkeypatch.setitem(KINDS, "grouped", {**KINDS["cached"], "text_groups": 3})
    plain, build_batch = simulate(load_method("fsc_clip"), "grouped"), simulated_step.build_batch

    def build_with_lengths(*args) -> Batch:
        batch = build_batch(*args)
        length_BK = 4 + np.arange(batch.mask_BK.numel()).reshape(tuple(batch.mask_BK.shape)) % 7
        return replace(batch, length_B=np.arange(5, 5 + len(batch)), length_BK=length_BK)

    monkeypatch.setattr(simulated_step, "build_batch", build_with_lengths)
    cost = simulate(load_method("fsc_clip"), "grouped")
    assert (cost.waits, cost.blocking_copies) == ({}, {})
    assert cost.flops < plain.flops
