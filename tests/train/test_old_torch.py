"""With a torch that simulates no device, costs of a card are those of the CPU's kernels, and a line says so."""

from types import SimpleNamespace

from compclip.config.cell import Cell
from compclip.config.sections import Backbone, Train
from compclip.interface.method import load_method
from compclip.train import fake_device, simulated_step

SHAPE = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


def test_a_step_has_its_memory_and_its_arithmetic(monkeypatch, capsys):
    """Weights, slopes and two moments, 16 bytes a weight; three times the products of the forward pass."""
    monkeypatch.setattr(fake_device, "NAME", "cpu")
    fake_device.register_device.cache_clear()
    method = load_method("finetune")
    cell, train = Cell("finetune", "b", "d", 0), Train(batch_size=256)
    run = SimpleNamespace(cell=cell, method=method.Config(), train=train, backbone=Backbone())
    step = simulated_step.simulate_step(run, method, SHAPE)
    fake_device.register_device.cache_clear()
    assert "costs are those of a CPU's kernels" in capsys.readouterr().err
    text = 49408 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32 + 32 * 32
    image = 3 * 8 * 8 * 64 + 64 + 17 * 64 + 2 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64 + 64 * 32
    activations = 4 * 256 * 2 * 17 * (17 * 64 + 16 * 32)
    assert 12 * (text + image) + activations < step.peak_bytes < 16 * (text + image) + 3 * activations
    # of 2 blocks a tower, at each position: 12 products of a width's square
    blocks = 2 * 256 * 2 * 12 * (17 * 64**2 + 16 * 32**2)
    patches = 2 * 256 * 16 * 3 * 8 * 8 * 64
    assert 0.95 < step.flops / (3 * blocks + 2 * patches) < 1.1
