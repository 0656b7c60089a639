"""Pretraining of the world's model: its rate, its batches, its texts, and that a stopped one loses nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.sections import Pretrain
from compclip.model import backbone, towers
from compclip.train import pretrain
from tests.tiny_project import PARAMS, TINY

FEW = Pretrain(steps=20, batch_size=6, warmup_steps=4, cooldown=0.5, save_every_steps=10)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with the architecture of a tiny model, and how to make the model."""
    write_json(tmp_path / "tiny.json", TINY)
    monkeypatch.chdir(tmp_path)
    return lambda: backbone.create("tiny.json", "", 0)


def test_rate_rises_stays_and_falls():
    """By hand: 4 steps up, then the whole rate, and from half of 20 steps a line down to nothing."""
    rates = [pretrain.rate(FEW, step) / FEW.lr for step in range(FEW.steps)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, *[1.0] * 7, *(i / 10 for i in range(10, 0, -1))])
    assert pretrain.rate(replace(FEW, warmup_steps=0), 0) == FEW.lr


def test_a_batch_is_a_function_of_seed_and_step():
    """The same again, others with another seed or step."""
    pictures, texts = pretrain.batch(FEW, 0, 3)
    again, same = pretrain.batch(FEW, 0, 3)
    assert texts == same
    assert all((a == b).all() for a, b in zip(pictures, again, strict=True))
    assert texts not in (pretrain.batch(FEW, 0, 4)[1], pretrain.batch(FEW, 1, 3)[1])


def test_texts_by_length_are_the_texts_in_order(tiny):
    """Each row is what the tower gives for the text alone."""
    model = tiny()
    texts = ["a " * n + "red star" for n in (9, 1, 30, 4, 1, 17, 2)]
    with torch.no_grad():
        together_BD = pretrain._texts(model, texts)
        alone_BD = torch.cat([towers.text(model.clip, model.tokenize([text]))[0] for text in texts])
    torch.testing.assert_close(together_BD, alone_BD, rtol=0, atol=1e-6)


class Stopped(Exception):
    """What ends a training from outside."""


def test_a_stopped_training_ends_with_the_same_bits(tiny, monkeypatch):
    """Stopped at step 15 and started again, it goes on from step 10; weights and losses are those of one in a piece."""
    whole, halves = tiny(), tiny()
    pretrain.train(whole, FEW, 0, Path("whole.fp16.safetensors"))
    with monkeypatch.context() as patch:
        patch.setattr(pretrain, "batch", _until(15, pretrain.batch))
        with pytest.raises(Stopped):
            pretrain.train(halves, FEW, 0, Path("halves.fp16.safetensors"))
    steps = []
    monkeypatch.setattr(
        pretrain, "batch", lambda cfg, seed, step, make=pretrain.batch: steps.append(step) or make(cfg, seed, step)
    )
    fresh = tiny()
    pretrain.train(fresh, FEW, 0, Path("halves.fp16.safetensors"))
    assert steps == list(range(10, 20))
    for (name, a), b in zip(whole.clip.state_dict().items(), fresh.clip.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert _losses("whole") == _losses("halves")


def _until(last: int, make):
    def batch(cfg, seed, step):
        if step == last:
            raise Stopped
        return make(cfg, seed, step)

    return batch


def _losses(name: str) -> list[tuple[int, float]]:
    rows = map(json.loads, Path(f"{name}.fp16.log.jsonl").read_text().splitlines())
    return [(row["step"], row["loss"]) for row in rows]


def test_a_state_of_other_numbers_is_refused(tiny):
    """Neither another seed nor another rate goes on from it; another number of threads does."""
    pretrain.train(tiny(), FEW, 0, Path("a.fp16.safetensors"))
    for cfg, seed in ((FEW, 1), (replace(FEW, lr=1e-4), 0)):
        with pytest.raises(UserError, match="a.fp16.state.pt: is of a training with other numbers; remove it"):
            pretrain.train(tiny(), cfg, seed, Path("a.fp16.safetensors"))
    pretrain.train(tiny(), replace(FEW, threads=2), 0, Path("a.fp16.safetensors"))


def test_the_command_writes_weights_and_log_and_leaves_no_state(tiny, capsys):
    """Half-precision weights that the model loads, a line every ten steps, and nothing to go on from."""
    params = PARAMS.replace("STEPS", "2").replace(
        "{model: tiny.json}", "{model: tiny.json, weights: w.fp16.safetensors}"
    )
    numbers = "{steps: 10, batch_size: 4, warmup_steps: 2, save_every_steps: 5}"
    Path("params.yaml").write_text(params.replace("processes: 1}", f"processes: 1, pretrain: {numbers}}}"))
    assert pretrain.main(["--backbone", "tiny"]) == 0
    assert "w.fp16.safetensors: written" in capsys.readouterr().out
    held = load_file("w.fp16.safetensors")
    assert {v.dtype for v in held.values()} == {torch.float16}
    assert set(held) == set(tiny().clip.state_dict())
    assert [step for step, _ in _losses("w")] == [10]
    assert sorted(p.name for p in Path().glob("w.*")) == ["w.fp16.log.jsonl", "w.fp16.safetensors"]


def test_somebody_s_weights_are_not_replaced(tiny):
    """A backbone whose weights are a tag or another file is refused before a step."""
    Path("params.yaml").write_text(
        PARAMS.replace("STEPS", "2").replace("tiny.json}", "tiny.json, weights: mine.safetensors}")
    )
    with pytest.raises(UserError, match="backbones.tiny.weights='mine.safetensors': are somebody's"):
        pretrain.main(["--backbone", "tiny"])


def test_pixels_by_hand(tiny):
    """A white and a black picture, by the model's own mean and deviation."""
    model = tiny()
    white, black = (np.full((64, 64, 3), value, np.uint8) for value in (255, 0))
    got_B3HW = pretrain.pixels([white, black], model)
    mean, std = (torch.tensor(model.preprocess_cfg[k]) for k in ("mean", "std"))
    torch.testing.assert_close(got_B3HW[:, :, 5, 7], torch.stack([(1 - mean) / std, -mean / std]))
