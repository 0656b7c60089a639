"""Pretraining of the world's model: its rate, its batches, its texts, and that a stopped one loses nothing."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import read
from compclip.model import __main__ as backbone_command
from compclip.model import backbone
from compclip.scenes.layout import EVERY_COLOUR, EVERY_SYMBOL
from tests.conftest import ROOT
from tests.pretrain_script import pretrain
from tests.tiny_project import PARAMS, TINY

FEW = pretrain.Pretrain(
    steps=20,
    batch_size=6,
    warmup_steps=4,
    cooldown=0.5,
    save_every_steps=10,
    unbound_steps=8,
    unbound_lr=1e-3,
    threads=1,  # two would wait for each other beside other tests
)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with the architecture of a tiny model, and how to make the model."""
    write_json(tmp_path / "tiny.json", TINY)
    monkeypatch.chdir(tmp_path)
    return lambda: backbone.create("tiny.json", "", 0)


def test_rate_rises_stays_and_falls_twice():
    """By hand: 4 steps up, then the whole rate, and from half of 20 steps a line down to nothing; the same for 8."""
    rates = [pretrain.learning_rate(FEW, step) / FEW.lr for step in range(FEW.steps)]
    assert rates == pytest.approx([0.25, 0.5, 0.75, *[1.0] * 7, *(i / 10 for i in range(10, 0, -1))])
    again = [pretrain.learning_rate(FEW, step) / FEW.unbound_lr for step in range(20, 28)]
    assert again == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25])
    assert pretrain.learning_rate(replace(FEW, warmup_steps=0), 0) == FEW.lr


def test_a_batch_is_a_function_of_seed_and_step():
    """The same again, others with another seed or step."""
    pictures, texts = pretrain.draw_batch(FEW, 0, 3)
    again, same = pretrain.draw_batch(FEW, 0, 3)
    assert texts == same
    assert all((a == b).all() for a, b in zip(pictures, again, strict=True))
    assert texts not in (pretrain.draw_batch(FEW, 0, 4)[1], pretrain.draw_batch(FEW, 1, 3)[1])


@pytest.mark.parametrize(
    ("step", "expected"), [(0, "c127524e4e8ff39e"), (700, "e9ef70abefbf409a"), (8100, "37d00a947e606bde")]
)
def test_the_shipped_weights_texts_are_drawn_still(step, expected):
    """The default section draws the texts that the shipped model was trained on, whatever options there are beside."""
    texts = pretrain.draw_batch(replace(pretrain.Pretrain(), batch_size=32), 0, step)[1]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == expected


def test_the_last_steps_bind_nothing():
    """Where other texts put colours before their symbols, those behind `steps` list both in any order: a few, by chance."""
    telling = replace(FEW, batch_size=400, paired=1.0, siblings=0.5, noise=0.0, collages=0.0, things=(0, 1, 0, 0))
    shares = [np.mean([_binds(text) for text in pretrain.draw_batch(telling, 0, step)[1]]) for step in (19, 20, 27)]
    assert shares[0] > 0.6 and max(shares[1:]) < 0.15


def _binds(text: str) -> bool:
    """Whether a text puts a colour before a symbol's name."""
    colours, symbols = ("|".join(_words(names)) for names in (EVERY_COLOUR, EVERY_SYMBOL))
    return re.search(rf"\b({colours}) ({symbols})\b", text) is not None


def _words(names: dict) -> list[str]:
    return [word for name, (_, synonyms) in names.items() for word in (name, *synonyms)]


class Stopped(Exception):
    """What ends a training from outside."""


@pytest.mark.parametrize(("last", "start"), [(6, 4), pytest.param(9, 8, marks=pytest.mark.long)])
def test_a_stopped_training_ends_with_the_same_bits(tiny, monkeypatch, last, start):
    """Stopped and started again, it goes on from its last save; weights and losses are those of one in a piece."""
    numbers = replace(FEW, steps=8, warmup_steps=2, save_every_steps=4, unbound_steps=2)
    uninterrupted, halves = tiny(), tiny()
    pretrain.train(uninterrupted, numbers, 0, Path("whole.fp16.safetensors"))
    with monkeypatch.context() as patch:
        patch.setattr(pretrain, "draw_batch", _until(last, pretrain.draw_batch))
        with pytest.raises(Stopped):
            pretrain.train(halves, numbers, 0, Path("halves.fp16.safetensors"))
    steps = []
    monkeypatch.setattr(
        pretrain,
        "draw_batch",
        lambda cfg, seed, step, make=pretrain.draw_batch: steps.append(step) or make(cfg, seed, step),
    )
    fresh = tiny()
    pretrain.train(fresh, numbers, 0, Path("halves.fp16.safetensors"))
    assert steps == list(range(start, 10))
    for (name, a), b in zip(uninterrupted.clip.state_dict().items(), fresh.clip.state_dict().values(), strict=True):
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
    short = replace(FEW, steps=4, save_every_steps=2, unbound_steps=2)
    pretrain.train(tiny(), short, 0, Path("a.fp16.safetensors"))
    for cfg, seed in ((short, 1), (replace(short, lr=1e-4), 0)):
        with pytest.raises(UserError, match="a.fp16.state.pt: is of a training with other numbers; remove it"):
            pretrain.train(tiny(), cfg, seed, Path("a.fp16.safetensors"))
    pretrain.train(tiny(), replace(short, threads=2), 0, Path("a.fp16.safetensors"))


@pytest.fixture
def made_model(tiny, monkeypatch):
    numbers = replace(FEW, steps=6, batch_size=4, warmup_steps=2, save_every_steps=5, unbound_steps=4)
    model = pretrain.WorldModel("tiny.json", "made/tiny.fp16.safetensors", 7, numbers)
    monkeypatch.setattr(pretrain, "MODELS", {"tiny": model})
    return model


def test_the_command_writes_weights_and_log_and_leaves_no_state(made_model, tiny, capsys):
    """The cost first; half-precision weights that the model loads, a line every ten steps, nothing to go on from."""
    assert pretrain.main(["tiny"]) == 0
    said = capsys.readouterr()
    assert "made/tiny.fp16.safetensors: written" in said.out
    assert "tiny: pretraining made/tiny.fp16.safetensors: 10 steps of 4 pictures, about 1 CPU" in said.err
    weights = load_file(made_model.weights)
    assert {v.dtype for v in weights.values()} == {torch.float16}
    assert set(weights) == set(tiny().clip.state_dict())
    assert [step for step, _ in _losses("made/tiny")] == [10]
    assert sorted(p.name for p in Path("made").iterdir()) == ["tiny.fp16.log.jsonl", "tiny.fp16.safetensors"]
    expected = backbone.create("tiny.json", "", made_model.seed)
    pretrain.train(expected, made_model.numbers, made_model.seed, Path("again.fp16.safetensors"))
    assert torch.equal(weights["positional_embedding"], expected.clip.positional_embedding.half())


def test_pixels_by_hand(tiny):
    """A white and a black picture, by the model's own mean and deviation."""
    model = tiny()
    white, black = (np.full((64, 64, 3), value, np.uint8) for value in (255, 0))
    got_B3HW = pretrain.pixels([white, black], model)
    mean, std = (torch.tensor(model.preprocess_cfg[k]) for k in ("mean", "std"))
    torch.testing.assert_close(got_B3HW[:, :, 5, 7], torch.stack([(1 - mean) / std, -mean / std]))


# --- models that are not there


def test_the_stage_makes_missing_weights_once_and_nobody_else_s(made_model):
    """As its command, with DVC's name of the stage."""
    others = "{tiny: {model: tiny.json, weights: made/tiny.fp16.safetensors}, mine: {model: tiny.json, weights: m.pt}}"
    params = PARAMS.replace("STEPS", "2").splitlines()
    lines = [line for line in params if not line.startswith("backbones")]
    Path("params.yaml").write_text("\n".join([*lines, f"backbones: {others}"]))
    assert pretrain.main(["--missing", "backbone@mine"]) == 0 and not Path("made").exists()
    assert pretrain.main(["--missing", "backbone@tiny"]) == 0
    Path(made_model.weights).write_bytes(b"somebody's now")
    assert pretrain.main(["--missing", "backbone@tiny"]) == 0
    assert Path(made_model.weights).read_bytes() == b"somebody's now"
    with pytest.raises(UserError, match="unknown backbone 'tinny'; did you mean 'tiny'"):
        pretrain.main(["--missing", "backbone@tinny"])


def test_the_stage_starts_the_script_for_missing_weights_alone(tiny):
    """A process with torch that finds nothing to do costs as much as the stage."""
    lines = [line for line in PARAMS.replace("STEPS", "2").splitlines() if not line.startswith("backbones")]
    section = "backbones: {tiny: {model: tiny.json, weights: made/tiny.fp16.safetensors}}"
    Path("params.yaml").write_text("\n".join([*lines, section]))
    tiny().save(Path("whole"))
    Path("experiments/backbones").mkdir(parents=True)
    weights = Path("made/tiny.fp16.safetensors")
    script = "import pathlib, shutil, sys; pathlib.Path('started').write_text(' '.join(sys.argv[1:])); "
    script += f"pathlib.Path('made').mkdir(); shutil.copy('whole/open_clip_model.safetensors', '{weights}')"
    Path("experiments/backbones/pretrain.py").write_text(script)
    assert backbone_command.main(["--backbone", "backbone@tiny"]) == 0
    assert Path("started").read_text() == "--missing tiny"
    Path("started").unlink()
    assert backbone_command.main(["--backbone", "backbone@tiny"]) == 0
    assert not Path("started").exists()


def test_the_grid_names_what_the_script_makes():
    """The stage knows a model by its weights: those of a committed grid are the script's, with its architecture."""
    section = read.load_params(ROOT / "experiments" / "grids" / "scenes_like_clip.yaml").backbones
    models = {model.weights: model.model for model in pretrain.MODELS.values()}
    assert section and all(models[spec.weights] == spec.model for spec in section.values())
