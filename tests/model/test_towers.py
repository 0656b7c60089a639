"""Towers agree with open_clip: same embeddings, and tokens whose pooled ones are those embeddings."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.model import backbone, towers
from compclip.model.clip_model import ClipModel

TINY = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 32, "layers": 2, "head_width": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TEXTS = ["a red umbrella", "", "a blue anchor to the left of a small green star, seen from above"]


def make_model(folder: Path, changes: dict | None = None, **options) -> ClipModel:
    """A tiny model with random weights, from a config file."""
    write_json(folder / "tiny.json", TINY | (changes or {}))
    return backbone.create(str(folder / "tiny.json"), seed=3, **options)


@pytest.fixture
def model(tmp_path) -> ClipModel:
    return make_model(tmp_path)


@pytest.mark.parametrize("texts", [TEXTS, [*TEXTS, "word " * 200]])
def test_global_embeddings_equal_open_clip(model, texts):
    """Images, and texts of which one fills the context, to the bit; a tower cut behind the longest text to rounding."""
    image, text = torch.randn(3, 3, 32, 32), model.tokenize(texts)
    assert torch.equal(towers.encode_images(model.clip, image)[0], model.clip.encode_image(image, normalize=True))
    vectors, expected = towers.encode_texts(model.clip, text)[0], model.clip.encode_text(text, normalize=True)
    torch.testing.assert_close(vectors, expected)
    assert texts == TEXTS or torch.equal(vectors, expected)


FAMILIES = {
    "CLIPA": {"pool_type": "last", "no_causal_mask": True},
    "MetaCLIP 2, mT5": {"pool_type": "eos", "eos_id": 1},
    "MetaCLIP 2, XLM-V": {"pool_type": "eos", "eos_id": 2},
    "EVA02 and PE": {},
    "SigLIP 2": {"pool_type": "last", "no_causal_mask": True, "proj_bias": True, "norm_kwargs": {"eps": 1e-6}},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_other_towers_equal_open_clip_exactly(tmp_path, family):
    """Pooled at the last position, an end token of their own, or by a module: the projected token is the embedding."""
    is_module, text_cfg = family in ("EVA02 and PE", "SigLIP 2"), FAMILIES[family]
    more = {} if is_module else {"vocab_size": 1000, "hf_tokenizer_name": "none/here"}
    cfg = {"custom_text": is_module, "text_cfg": TINY["text_cfg"] | more | text_cfg}
    model = make_model(tmp_path, cfg, tokenizer="" if is_module else "clip")
    text = model.tokenize(TEXTS)
    vectors, tokens = towers.encode_texts(model.clip, text, tokens=True)
    assert torch.equal(vectors, model.clip.encode_text(text, normalize=True))
    ends = (text == text_cfg.get("eos_id", text.max())).int().argmax(-1)
    ends = text.shape[1] - 1 if text_cfg.get("pool_type") == "last" else ends
    torch.testing.assert_close(F.normalize(tokens[torch.arange(3), ends], dim=-1), vectors)
    assert (vectors[0] - vectors[2]).norm() > 0.01  # where no end is found, the first position is every text's


def test_tokens_pool_to_the_embeddings(model):
    """End tokens give texts; patches are the last block's through ln_post and the projection, without the class token."""
    image, text = torch.randn(2, 3, 32, 32), model.tokenize(TEXTS)
    visual, captured = model.clip.visual, {}
    with visual.transformer.register_forward_hook(lambda _m, _i, out: captured.update(out=out)):
        expected = model.clip.encode_image(image, normalize=True)
    pooled, patches = towers.encode_images(model.clip, image, tokens=True)
    assert torch.equal(pooled, expected) and patches.shape == (2, 4, 16)
    torch.testing.assert_close(patches, visual.ln_post(captured["out"])[:, 1:] @ visual.proj)
    vectors, tokens = towers.encode_texts(model.clip, text, tokens=True)
    torch.testing.assert_close(F.normalize(tokens[torch.arange(3), text.argmax(-1)], dim=-1), vectors)
    token_mask = towers.mask_own_tokens(model.tokenize(["a star", ""]), 5)  # of an empty caption the end token alone
    assert torch.equal(token_mask, torch.tensor([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]], dtype=torch.bool))


def test_the_one_patch_of_a_mean_is_the_embedding(tmp_path):
    """CLIPA and CLIPS take the mean of patches, then the norm: of one patch its token is the picture's embedding."""
    mean = {"image_size": 16, "no_ln_pre": True, "pool_type": "avg", "final_ln_after_pool": True}
    clip = make_model(tmp_path, {"vision_cfg": TINY["vision_cfg"] | mean}).clip
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


@pytest.mark.parametrize("change,message", [({"embed_dim": 8}, "embed_dim"), ({"quick_gelu": True}, "quick_gelu")])
def test_other_architecture_is_refused(model, tmp_path, change, message):
    """A checkpoint folder whose config differs from the wanted model names what differs."""
    model.save(tmp_path / "saved")
    write_json(tmp_path / "other.json", TINY | change)
    with pytest.raises(UserError, match=message):
        backbone.create(str(tmp_path / "other.json"), str(tmp_path / "saved"))
