"""`config check` warns of a training that would swap; the bound is a sum that a person can do."""

import pytest

from compclip.config import __main__ as config_command
from compclip.config import least_memory
from tests.shipped_files import SHIPPED_PARAMS

VIT = ["--params", str(SHIPPED_PARAMS), "backbones.scenes.model=ViT-B-32", "train.batch_size=64"]
# 12 bytes a weight of blocks, words, patches and positions; 17 widths a position of each of 12 blocks.
WEIGHTS = 12 * 12 * (768**2 + 512**2) + 49408 * 512 + 3 * 32**2 * 768 + 50 * 768 + 77 * 512
KEPT = 12 * 17 * (50 * 768 + 77 * 512)


@pytest.fixture
def memory(monkeypatch, tmp_path):
    """What the machine has: no GPU, and the bytes that a test sets."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(least_memory, "LIMIT", limit)
    monkeypatch.setattr(least_memory, "GPUS", "no such file")
    return lambda size: limit.write_text(str(size))


@pytest.mark.parametrize(("overrides", "least"), [
    ([], 12 * WEIGHTS + 4 * 64 * KEPT), (["train.micro_batch=8"], 12 * WEIGHTS + 4 * 8 * KEPT),
    (["train.checkpoint_activations=true"], 12 * WEIGHTS), (["train.trainable=none"], 4 * WEIGHTS),
], ids=["all", "parts", "recomputed", "frozen"])  # fmt: skip
def test_the_bound_is_weights_moments_and_activations(memory, capsys, overrides, least):
    for size, is_warned in ((least, False), (least - 1, True)):
        memory(size)
        assert config_command.main(["check", *VIT, "grid.methods=[finetune]", "wise_ft.methods=[]", *overrides]) == 0
        assert ("finetune-scenes-scenes-0" in capsys.readouterr().err) == is_warned


def test_a_model_that_is_not_counted_is_not_warned_of(memory, capsys):
    """A ResNet's image tower is left out of the bound: 1 GiB is enough for the text tower of one picture."""
    memory(1 << 30)
    assert config_command.main(["check", *VIT[:2], "backbones.scenes.model=RN50", "train.micro_batch=1"]) == 0
    assert "swap" not in capsys.readouterr().err
