"""The parts of training that need no data: schedule, freezing, checkpoints, the log."""

import json

import open_clip
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from compclip.base.errors import UserError
from compclip.config.sections import Train
from compclip.train import checkpoint, encode, optimiser, recorder
from compclip.train.fine_tuning import StepNumbers
from tests import checkpoint_files
from tests.distributed_check import SHAPE

CFG = Train(lr=1e-3, lr_start=1e-5, lr_end=1e-6, warmup_steps=10)


class Clip(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = torch.nn.Linear(3, 3)
        self.transformer = torch.nn.Linear(3, 3)
        self.logit_scale = torch.nn.Parameter(torch.tensor(2.0))
        self.logit_bias = None

    def forward(self, x):
        return self.transformer(self.visual(x)).sum() * self.logit_scale


def test_schedule_by_hand():
    """Linear to lr over ten steps, lr at the end of the warm-up, half way down in the middle, lr_end at the last."""
    rates = [optimiser.learning_rate(s, 111, CFG) for s in range(111)]
    by_hand = {0: 1e-5 + (1e-3 - 1e-5) / 10, 9: 1e-3, 10: 1e-3, 60: (1e-3 + 1e-6) / 2, 110: 1e-6}
    assert {step: rates[step] for step in by_hand} == pytest.approx(by_hand)
    assert rates[:10] == sorted(rates[:10]) and rates[10:] == sorted(rates[10:], reverse=True)
    share = Train(lr=1.0, warmup_fraction=0.2, warmup_steps=1)  # of 50 steps ten, whatever `warmup_steps` says
    assert optimiser.learning_rate(9, 50, share) == pytest.approx(1.0) and optimiser.learning_rate(8, 50, share) < 1.0


def test_the_first_text_layers_alone_are_trained():
    """Of three blocks the first, with embeddings, last norm and projection; the frozen towers as `trainable` says."""
    clip = open_clip.CLIP(**SHAPE | {"text_cfg": SHAPE["text_cfg"] | {"layers": 3}})
    for trainable, frozen in (("all", set()), ("image", {"text"}), ("none", {"image", "text"}), ("text", {"image"})):
        assert optimiser.freeze(clip, Train(trainable=trainable, text_layers=int(trainable == "text"))) == frozen
    trained = {name for name, parameter in clip.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[2] for name in trained if "resblocks" in name} == {"0"}
    outside = {name for name in trained if "resblocks" not in name}
    beside = {"token_embedding.weight", "positional_embedding", "ln_final.weight", "ln_final.bias", "text_projection"}
    assert outside == {*beside, "logit_scale"}
    with pytest.raises(ValueError, match="text_layers=1: needs trainable all or text"):
        Train(trainable="image", text_layers=1)


def _steps(clip, adamw, count):
    for _ in range(count):
        adamw.zero_grad()
        clip(torch.ones(2, 3)).backward()
        adamw.step()


def _pair(seed):
    torch.manual_seed(seed)
    clip = Clip()
    return clip, optimiser.adamw(clip, Train(lr=0.01))


def test_torn_checkpoint_falls_back(tmp_path, capsys):
    """A file cut short is passed over with a warning; with none left training starts anew."""
    clip, adamw = _two_checkpoints(tmp_path)
    last = tmp_path / "step_00000002.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    assert checkpoint.read(tmp_path, clip, adamw)["step"] == 1
    assert "unreadable checkpoint" in capsys.readouterr().err
    (tmp_path / "step_00000001.safetensors").write_bytes(b"")
    assert checkpoint.read(tmp_path, clip, adamw) is None


def _two_checkpoints(folder):
    """Checkpoints of two steps, and the model that made them with its optimiser."""
    clip, adamw = _pair(0)
    for step in (1, 2):
        _steps(clip, adamw, 1)
        checkpoint_files.write(folder, step, clip, adamw, {"dropped": {}})
    return clip, adamw


def _rewrite(path, change):
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (no mapping)
        header = json.loads(file.metadata()["header"])
    tensors, header = change(tensors, header)
    save_file(tensors, path, {"header": header})


@pytest.mark.parametrize("change", [
    lambda t, h: (t, "[" * 100_000),
    lambda t, h: (t, "[]"),
    lambda t, h: (t, json.dumps(h | {"step": 1})),
    lambda t, h: (t | {"model.other": torch.ones(1)}, json.dumps(h)),
    lambda t, h: ({k: v for k, v in t.items() if k != max(n for n in t if n.startswith("model."))}, json.dumps(h)),
    lambda t, h: ({k: v[..., :1].contiguous() if v.ndim else v for k, v in t.items()}, json.dumps(h)),
    lambda t, h: ({k: v.to(torch.int8) for k, v in t.items()}, json.dumps(h)),
])  # fmt: skip
def test_a_damaged_checkpoint_leaves_the_model_as_it_was(tmp_path, capsys, monkeypatch, change):
    """Its checksum is right, and what it holds is wrong: the one before counts, and nothing of the wrong one stays."""
    _two_checkpoints(tmp_path)
    _rewrite(tmp_path / "step_00000002.safetensors", change)
    monkeypatch.setattr(checkpoint.run_folder, "check_file", lambda _path: None)
    other, adamw = _pair(7)
    assert checkpoint.read(tmp_path, other, adamw) == {"step": 1, "dropped": {}}
    assert "unreadable checkpoint" in capsys.readouterr().err
    first, adamw = _pair(0)
    _steps(first, adamw, 1)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    """No space while saving: a clear error, and the checkpoints before are still there and whole."""

    def full_disk(_fd):
        raise OSError(28, "No space left on device")

    clip, adamw = _two_checkpoints(tmp_path)
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(UserError, match="No space left on device"):
        checkpoint_files.write(tmp_path, 3, clip, adamw, {"dropped": {}})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_00000001.safetensors", "step_00000002.safetensors"]
    assert checkpoint.read(tmp_path, clip, adamw)["step"] == 2


def test_log_is_cut_back_to_the_checkpoint(tmp_path, capsys):
    """After a resume from step 2 the lines behind it, and a torn one, are gone and are written once."""
    path = tmp_path / "metrics.jsonl"
    log = recorder.MetricsLog(path, 0, 4, batch_size=8, per_epoch=2)
    for step in (1, 2, 3):
        log.write(step, StepNumbers({"clip": 1.5, "global": 0.5}, norm=0.1, scale=14.0), 1e-3)
    with open(path, "a") as file:
        file.write('{"step": 4, "lo')
    log = recorder.MetricsLog(path, 2, 4, batch_size=8, per_epoch=2)
    log.write(3, StepNumbers({"clip": 1.0}, norm=0.1, scale=14.0), 1e-3)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["step"] for r in rows] == [1, 2, 3]
    assert (rows[0]["loss"], rows[0]["epoch"]) == (2.0, 0.5)
    assert "ETA" in capsys.readouterr().out


def test_pooled_concepts_are_normalised_means():
    """Two concepts of one caption: the mean over positions 1-2 and over position 3."""
    tokens = torch.tensor([[[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [3.0, 4.0]]])
    pooled = encode.pool_concepts(tokens, torch.tensor([[1, 3], [3, 4]]), torch.tensor([0, 0]))
    torch.testing.assert_close(pooled, torch.tensor([[0.5**0.5, 0.5**0.5], [0.6, 0.8]]))
