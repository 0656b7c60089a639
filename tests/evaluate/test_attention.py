"""Attention pictures: the maps are Eq. 6's, equal models show no change, and the command takes cells and checkpoints."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.evaluate import attention
from compclip.model import backbone, towers
from tests.model.test_towers import TINY

PARAMS = """
grid: {methods: [finetune], backbones: [tiny], data: [d], seeds: [0]}
methods: {finetune: {}}
backbones: {tiny: {model: tiny.json}}
data: {d: {source: coco, path: x, images: y, captioner: none}}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A grid of one cell whose checkpoint differs from its backbone, and a picture."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS)
    write_json(tmp_path / "tiny.json", TINY)
    backbone.create("tiny.json", seed=1).save("models/tiny")
    backbone.create("tiny.json", seed=2).save("runs/finetune/tiny-d-0/checkpoint")
    Image.effect_noise((40, 32), 80).convert("RGB").save("p.png")
    return tmp_path


def test_map_equals_a_loop_over_patches(project):
    """softmax over patches of the cosine with the concept, in units of an even share."""
    model = backbone.load("models/tiny")
    pixels, concept = torch.randn(3, 32, 32), attention.embed_concept(model, "a red star")
    patches = towers.encode_images(model.clip, pixels[None], tokens=True)[1][0].detach().double().numpy()
    cosines = [float(p @ concept.detach().double().numpy()) / math.sqrt(float(p @ p)) for p in patches]
    total = sum(math.exp(c) for c in cosines)
    expected = np.array([4 * math.exp(c) / total for c in cosines]).reshape(2, 2)
    with torch.no_grad():
        np.testing.assert_allclose(attention.patch_map(model, pixels, concept), expected, rtol=1e-5)
        np.testing.assert_allclose(
            attention.patch_map(model, pixels, concept, "similarity").ravel(), cosines, rtol=1e-4
        )


def test_concept_of_a_caption_pools_its_tokens(project):
    """The mean of the projected tokens of its words, normalised; a text that is not there is refused."""
    model = backbone.load("models/tiny")
    caption = "a blue moon left of a red star"
    tokens = towers.encode_texts(model.clip, model.tokenize([caption]), tokens=True)[1][0]
    mean = tokens[6:9].mean(0)  # start token, five words before it
    torch.testing.assert_close(attention.embed_concept(model, "a red star", caption), mean / mean.norm())
    with pytest.raises(UserError, match="not in --caption"):
        attention.embed_concept(model, "a green star", caption)


def test_equal_models_show_no_change(project):
    """Every difference is exactly zero."""
    model = backbone.load("models/tiny")
    maps = attention.compute_maps(model, backbone.load("models/tiny"), "p.png", ["a red star"], "", "attention")
    assert not maps[0].difference_PP.any()
    assert maps[0].before_PP.sum() == pytest.approx(4)


def test_command_takes_a_cell_and_finds_its_backbone(project, capsys):
    """One row a text; the printed change is that of the maps; the picture is whole."""
    texts = ["--text", "a red star", "a moon"]
    cell = ["--checkpoint", "finetune-tiny-d-0", "--out", "out/f.png"]
    assert attention.main(["--image", "p.png", *texts, *cell]) == 0
    models = [backbone.load(f) for f in ("models/tiny", "runs/finetune/tiny-d-0/checkpoint")]
    row = attention.compute_maps(*models, "p.png", ["a red star"], "", "attention")[0]
    line = f"a red star: attention changes by {row.difference_PP.min():+.4f} to {row.difference_PP.max():+.4f}"
    assert line in capsys.readouterr().out and row.difference_PP.any()
    with Image.open("out/f.png") as picture:
        picture.load()
        assert picture.width > picture.height > 100
