"""A pretrained tower with further class tokens: what they begin as, and which towers are refused."""

import copy

import pytest
import torch
from torch import nn

from compclip.model import class_tokens, clip_model
from compclip.model.clip_model import ClipModel
from tests.distributed_check import SHAPE


def make_model(**vision_cfg) -> ClipModel:
    cfg = copy.deepcopy(SHAPE) | {"vision_cfg": SHAPE["vision_cfg"] | vision_cfg}
    torch.manual_seed(0)
    return ClipModel(clip_model.build_module(cfg), None, None, cfg, {}, "")


def test_further_tokens_are_the_first_one_with_noise():
    """A tenth of a drawn token's; the first one, its place and the patches' stay. The tower is read again from its config."""
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.clip.state_dict().items()}
    class_tokens.extend_tower(model, 40, seed=3)
    visual = model.clip.visual
    token_W, position_NW = before["visual.class_embedding"], before["visual.positional_embedding"]
    assert torch.equal(visual.class_embedding[0], token_W)
    assert torch.equal(visual.positional_embedding[40:], position_NW[1:])
    assert all(torch.equal(place_W, position_NW[0]) for place_W in visual.positional_embedding[:40])
    noise_KW = (visual.class_embedding[1:] - token_W).detach()
    assert noise_KW.std().item() == pytest.approx(0.1 / 32**0.5, rel=0.05) and len(noise_KW.unique(dim=0)) == 39
    assert torch.equal(visual.first_proj, before["visual.proj"]) and visual.proj is None
    other = make_model()
    class_tokens.extend_tower(other, 40, seed=4)
    assert not torch.equal(other.clip.visual.class_embedding[1:], visual.class_embedding[1:])
    assert model.model_cfg["vision_cfg"]["class_tokens"] == 40 and "class_tokens" not in SHAPE["vision_cfg"]
    again = class_tokens.build_module(model.model_cfg).eval()
    again.load_state_dict(model.clip.state_dict())
    pictures = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again.encode_image(pictures), model.clip.eval().encode_image(pictures))


def test_a_picture_that_is_one_patch_of_nothing_has_equal_tokens():
    """Without blocks a class token is its own embedding and place behind two layer norms: numbers by hand."""
    model = make_model(layers=1)
    class_tokens.extend_tower(model, 2, seed=0)
    visual = model.clip.visual
    visual.transformer.resblocks = nn.ModuleList()
    out = visual.forward_intermediates(torch.zeros(1, 3, 32, 32))
    raw_KW = visual.class_embedding + visual.positional_embedding[:2]
    expected_KW = nn.functional.layer_norm(nn.functional.layer_norm(raw_KW, (32,)), (32,))
    torch.testing.assert_close(out["image_intermediates"][0][0], expected_KW)
    torch.testing.assert_close(out["image_features"][0], expected_KW[0] @ visual.first_proj)
