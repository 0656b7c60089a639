"""Activations that are computed again: less memory for more arithmetic, on a GPU that is not there."""

import json
from types import SimpleNamespace

import pytest

from compclip.config.cell import Cell
from compclip.config.sections import Backbone, Train
from compclip.interface.method import load_method
from compclip.train.simulated_step import simulate_step
from tests.fake_device.test_steps import SHAPE


def simulate(name: str, recomputes: bool, **options):
    method, shape = load_method(name), json.loads(json.dumps(SHAPE))
    shape["vision_cfg"]["layers"] = shape["text_cfg"]["layers"] = 2
    train = Train(batch_size=32, checkpoint_activations=recomputes, **options)
    run = SimpleNamespace(cell=Cell(name, "b", "d", 0), method=method.Config(), train=train, backbone=Backbone())
    return simulate_step(run, method, shape)


@pytest.mark.usefixtures("first_step")
def test_less_memory_for_more_arithmetic():
    plain, recomputed = (simulate("negclip", recomputes, precision="bf16") for recomputes in (False, True))
    assert recomputed.peak_bytes < 0.7 * plain.peak_bytes
    assert 1.2 * plain.flops < recomputed.flops < 1.4 * plain.flops
    assert recomputed.waits == {}
