"""Towers agree with open_clip: same embeddings, and tokens whose pooled ones are those embeddings."""

import pytest
import torch
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.model import backbone, towers

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 32, "layers": 2, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TEXTS = ["a red umbrella", "", "a blue anchor to the left of a small green star, seen from above"]


@pytest.fixture
def model(tmp_path):
    """A tiny model with random weights, from a config file."""
    write_json(tmp_path / "tiny.json", TINY)
    return backbone.create(str(tmp_path / "tiny.json"), seed=3)


def test_global_embeddings_equal_open_clip(model):
    """Image embeddings to the bit; a text tower cut behind the longest text to rounding."""
    image = torch.randn(3, 3, 32, 32)
    text = model.tokenize(TEXTS)
    assert torch.equal(towers.encode_images(model.clip, image)[0], model.clip.encode_image(image, normalize=True))
    torch.testing.assert_close(towers.encode_texts(model.clip, text)[0], model.clip.encode_text(text, normalize=True))


def test_full_length_text_equals_open_clip_exactly(model):
    """With a text that fills the context nothing is cut, and every bit is open_clip's."""
    text = model.tokenize([*TEXTS, "word " * 200])
    assert torch.equal(towers.encode_texts(model.clip, text)[0], model.clip.encode_text(text, normalize=True))


@pytest.mark.parametrize(
    "text_cfg",
    [
        {"pool_type": "last", "no_causal_mask": True},
        {"pool_type": "eos", "eos_id": 1},
        {"pool_type": "eos", "eos_id": 2},
    ],
    ids=["CLIPA", "MetaCLIP 2, mT5", "MetaCLIP 2, XLM-V"],
)
def test_other_towers_equal_open_clip_exactly(tmp_path, text_cfg):
    """CLIPA looks both ways and pools at the last position; multilingual models pool at an end token of their own."""
    cfg = TINY | {"text_cfg": TINY["text_cfg"] | {"vocab_size": 1000, "hf_tokenizer_name": "none/here"} | text_cfg}
    write_json(tmp_path / "tiny.json", cfg)
    model = backbone.create(str(tmp_path / "tiny.json"), seed=3, tokenizer="clip")
    text = model.tokenize(TEXTS)
    vectors, tokens = towers.encode_texts(model.clip, text, tokens=True)
    assert torch.equal(vectors, model.clip.encode_text(text, normalize=True))
    ends = text.shape[1] - 1 if text_cfg["pool_type"] == "last" else (text == text_cfg["eos_id"]).int().argmax(-1)
    torch.testing.assert_close(F.normalize(tokens[torch.arange(3), ends], dim=-1), vectors)
    assert (vectors[0] - vectors[2]).norm() > 0.01  # where no end is found, the first position is every text's


SIGLIP_TEXT = {"pool_type": "last", "no_causal_mask": True, "proj_bias": True, "norm_kwargs": {"eps": 1e-6}}


@pytest.mark.parametrize("text_cfg", [{}, SIGLIP_TEXT], ids=["EVA02 and PE", "SigLIP 2"])
def test_towers_of_their_own_equal_open_clip_exactly(tmp_path, text_cfg):
    """The text tower as a module of its own: the pooled token's projection is the embedding."""
    write_json(tmp_path / "own.json", TINY | {"custom_text": True, "text_cfg": TINY["text_cfg"] | text_cfg})
    model = backbone.create(str(tmp_path / "own.json"), seed=3)
    text = model.tokenize(TEXTS)
    vectors, tokens = towers.encode_texts(model.clip, text, tokens=True)
    assert torch.equal(vectors, model.clip.encode_text(text, normalize=True))
    ends = text.shape[1] - 1 if text_cfg else text.argmax(-1)
    torch.testing.assert_close(F.normalize(tokens[torch.arange(3), ends], dim=-1), vectors)


def test_tokens_pool_to_the_embeddings(model):
    """The end token's projection is the text embedding; the image embedding is unchanged by asking for patches."""
    image, text = torch.randn(2, 3, 32, 32), model.tokenize(TEXTS)
    pooled, patches = towers.encode_images(model.clip, image, tokens=True)
    assert torch.equal(pooled, model.clip.encode_image(image, normalize=True))
    assert patches.shape == (2, 4, 16)
    vectors, tokens = towers.encode_texts(model.clip, text, tokens=True)
    ends = tokens[torch.arange(3), text.argmax(-1)]
    torch.testing.assert_close(F.normalize(ends, dim=-1), vectors)


def test_patches_are_projected_class_free_tokens(model):
    """Patches equal open_clip's last block through ln_post and the projection, the class token left out."""
    image = torch.randn(2, 3, 32, 32)
    visual, captured = model.clip.visual, {}
    hook = visual.transformer.register_forward_hook(lambda _m, _i, out: captured.update(out=out))
    model.clip.encode_image(image)
    hook.remove()
    expected = visual.ln_post(captured["out"])[:, 1:] @ visual.proj
    torch.testing.assert_close(towers.encode_images(model.clip, image, tokens=True)[1], expected)


def test_the_one_patch_of_a_mean_is_the_embedding(tmp_path):
    """CLIPA and CLIPS take the mean of patches, then the norm: of one patch its token is the picture's embedding."""
    mean = {"image_size": 16, "no_ln_pre": True, "pool_type": "avg", "final_ln_after_pool": True}
    write_json(tmp_path / "mean.json", TINY | {"vision_cfg": TINY["vision_cfg"] | mean})
    clip = backbone.create(str(tmp_path / "mean.json"), seed=3).clip
    image = torch.randn(2, 3, 16, 16)
    pooled, patches = towers.encode_images(clip, image, tokens=True)
    assert torch.equal(pooled, clip.encode_image(image, normalize=True))
    torch.testing.assert_close(F.normalize(patches[:, 0], dim=-1), pooled)


TIMM = {
    "SigLIP": ("vit_tiny_patch16_224", {"global_pool": "map", "class_token": False, "num_classes": 0}),
    "EVA02": ("eva02_base_patch16_clip_224", {"global_pool": "token", "num_classes": 24, "embed_dim": 48}),
    "PE": ("vit_pe_core_tiny_patch16_384", {"global_pool": "map", "num_classes": 24, "embed_dim": 48}),
}


@pytest.mark.parametrize("tower", TIMM)
def test_patches_of_timm_s_towers(tower):
    """A patch's token is what the model's own head gives that sees this patch alone; the class token is left out."""
    clip = _timm_clip(*TIMM[tower])
    image, trunk = torch.randn(2, 3, 32, 32), clip.visual.trunk
    pooled, patches = towers.encode_images(clip, image, tokens=True)
    assert torch.equal(pooled, clip.encode_image(image, normalize=True))
    seen = trunk.forward_features(image)
    assert patches.shape == (2, 4, pooled.shape[1]) and seen.shape[1] == 4 + (tower != "SigLIP")
    for i in range(4):
        place = seen.shape[1] - 4 + i
        torch.testing.assert_close(patches[:, i], trunk.forward_head(seen[:, place : place + 1]))


def test_siglip_value_tokens():
    """With zero keys the pool attends uniformly: its output before the MLP is the mean of our tokens' value path."""
    clip = _timm_clip()
    image = torch.randn(2, 3, 32, 32)
    pooled, tokens = towers.encode_images(clip, image, tokens=True)
    torch.testing.assert_close(pooled, clip.encode_image(image, normalize=True))
    assert tokens.shape == (2, 4, 192)
    pool = clip.visual.trunk.attn_pool
    with torch.no_grad():
        pool.kv.weight[:192] = 0
        pool.kv.bias[:192] = 0
        pool.mlp.fc2.weight.zero_()
        pool.mlp.fc2.bias.zero_()
    pooled, tokens = towers.encode_images(clip, image, tokens=True)
    torch.testing.assert_close(F.normalize(tokens.mean(1), dim=-1), pooled)


def _timm_clip(name=TIMM["SigLIP"][0], options=TIMM["SigLIP"][1]):
    import timm

    class Visual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = timm.create_model(name, **{"img_size": 32, "depth": 2, "num_heads": 3} | options)
            self.head = torch.nn.Identity()

        def forward(self, x):
            return self.head(self.trunk(x))

    clip = torch.nn.Module()
    clip.visual = Visual()
    clip.encode_image = lambda x, normalize: F.normalize(clip.visual(x), dim=-1)
    return clip


def test_own_tokens(model):
    """A caption's own tokens and its end token; an empty caption keeps its end token alone."""
    text = model.tokenize(["a star", ""])
    assert towers.mask_own_tokens(text, 5).tolist() == [
        [False, True, True, True, False],
        [False, True, False, False, False],
    ]


@pytest.mark.parametrize(
    "change,message",
    [
        ({"embed_dim": 8}, "another architecture"),
        ({"quick_gelu": True}, "quick_gelu"),
    ],
)
def test_other_architecture_is_refused(model, tmp_path, change, message):
    """A checkpoint folder whose config differs from the wanted model names what differs."""
    model.save(tmp_path / "saved")
    write_json(tmp_path / "other.json", TINY | change)
    with pytest.raises(UserError, match=message):
        backbone.create(str(tmp_path / "other.json"), str(tmp_path / "saved"))
