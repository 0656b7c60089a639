"""Weights in bfloat16 as open_clip's `--precision bf16` has them: which, what the towers then compute, what a step moves."""

import open_clip
import pytest
import torch

from compclip.base.files import write_json
from compclip.config.sections import Lora, Train
from compclip.model import backbone, lora, towers
from compclip.train import optimiser
from tests.model.test_backbone import SIGLIP
from tests.model.test_towers import TEXTS, TINY

FAMILIES = {
    "CLIP": TINY,
    "OpenAI": TINY | {"quick_gelu": True},
    "own_text_tower": TINY | {"custom_text": True},
    "ResNet": TINY | {"vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 32, "head_width": 32}},
    "SigLIP": SIGLIP,
}


def make_model(folder, family):
    """A family's model, which open_clip then knows by this name."""
    path = folder / f"bfloat16_{family}.json"
    write_json(path, FAMILIES[family])
    return backbone.create(str(path), seed=2, tokenizer="clip" if family == "SigLIP" else "")


@pytest.fixture(params=FAMILIES)
def models(request, tmp_path):
    """A family's model in bfloat16, ours and open_clip's own, with the same weights."""
    torch.set_grad_enabled(False)
    ours = make_model(tmp_path, request.param)
    theirs = open_clip.create_model(f"bfloat16_{request.param}", precision="bf16")
    theirs.load_state_dict(ours.clip.state_dict())
    towers.cast_weights(ours.clip, "bf16_weights")
    yield ours, theirs
    torch.set_grad_enabled(True)


def test_the_same_weights_are_bfloat16_and_the_towers_compute_the_same_bits(models):
    """In evaluation mode, the whole context read; norms stay in float32, of open_clip's towers embeddings and scale too."""
    ours, theirs = (models[0].clip.eval(), models[1].eval())
    types, their_types = ({name: value.dtype for name, value in m.state_dict().items()} for m in (ours, theirs))
    assert types == their_types and set(types.values()) >= {torch.bfloat16, torch.float32}
    size, text = models[0].image_size, models[0].tokenize([*TEXTS, "word " * 200])
    image = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(towers.encode_images(ours, image)[0], theirs.encode_image(image.bfloat16(), normalize=True))
    assert torch.equal(towers.encode_texts(ours, text)[0], theirs.encode_text(text, normalize=True))


@pytest.mark.parametrize(("family", "adapted"), [("CLIP", False), ("own_text_tower", False), ("SigLIP", True)])
def test_a_step_runs_through_patches_tokens_and_adapters(tmp_path, family, adapted):
    """Forward with tokens, backward, clipped gradients and a fused step, in two types side by side."""
    model = make_model(tmp_path, family)
    towers.cast_weights(model.clip, "bf16_weights")
    cfg = Train(lr=1e-3, lora=Lora(rank=2, alpha=2) if adapted else None)
    optimiser.freeze(model.clip, cfg)
    assert bool(lora.adapter_parameters(model.clip)) == adapted
    adamw = optimiser.adamw(model.clip, cfg)
    image = torch.randn(2, 3, model.image_size, model.image_size, generator=torch.Generator().manual_seed(0))
    features = towers.encode_images(model.clip, image, tokens=True)
    features += towers.encode_texts(model.clip, model.tokenize(TEXTS), tokens=True)
    assert {feature.dtype for feature in features} == {torch.bfloat16}
    sum((feature.float() ** 2).sum() + feature.float()[..., 0].sum() for feature in features).backward()
    trained = [p for p in model.clip.parameters() if p.grad is not None]
    before = [p.detach().clone() for p in trained]
    assert torch.isfinite(torch.nn.utils.clip_grad_norm_(trained, 1.0))
    adamw.step()
    assert sum(not torch.equal(p, b) for p, b in zip(trained, before, strict=True)) >= len(trained) / 2


def test_a_small_step_moves_what_stays_in_float32(tmp_path):
    """1e-5, the rate of C2LIP: in bfloat16 throughout, the scale stood still and five of six embeddings did."""
    model = make_model(tmp_path, "CLIP")
    towers.cast_weights(model.clip, "bf16_weights")
    adamw = optimiser.adamw(model.clip, Train(lr=1e-5, weight_decay=0.0))
    before = {name: p.detach().clone() for name, p in model.clip.named_parameters()}
    for parameter in model.clip.parameters():
        parameter.grad = torch.ones_like(parameter)
    adamw.step()
    moved = {name: (p != before[name]).float().mean().item() for name, p in model.clip.named_parameters()}
    float32 = "logit_scale token_embedding.weight positional_embedding visual.class_embedding ln_final.weight"
    assert {moved[name] for name in float32.split()} == {1.0}
    assert 0 < moved["transformer.resblocks.0.mlp.c_fc.weight"] < 0.5
