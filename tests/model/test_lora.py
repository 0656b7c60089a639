"""LoRA: the backbone keeps its bits, an untrained adapter changes nothing, the merged checkpoint is a plain one."""

import copy
import math
from concurrent.futures import ThreadPoolExecutor

import open_clip
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from compclip.base.errors import UserError
from compclip.config.sections import Lora, Train
from compclip.model import lora, towers
from compclip.train import optimiser
from tests.model.test_towers import TEXTS, TIMM, _timm_clip, make_model

BOTH = ("image", "text")
PROJECTIONS = ("attn.in_proj_weight", "attn.out_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path)


@pytest.fixture
def inputs(model):
    """Three pictures and three texts."""
    torch.manual_seed(0)
    return torch.randn(3, 3, 32, 32), model.tokenize(TEXTS)


def outputs(clip: nn.Module, inputs) -> list[torch.Tensor]:
    """Embeddings, patches and tokens."""
    image, text = inputs
    with torch.no_grad():
        features = [*towers.encode_images(clip, image, tokens=True), *towers.encode_texts(clip, text, tokens=True)]
        return [*features, clip.encode_image(image), clip.encode_text(text)]


def fit(clip: nn.Module, inputs, cfg: Train, steps: int = 4) -> None:
    """A few optimiser steps that pull pictures and texts together."""
    optimiser.freeze(clip, cfg)
    adamw = optimiser.adamw(clip, cfg)
    clip.train()
    for _ in range(steps):
        adamw.zero_grad()
        cosines = (towers.encode_images(clip, inputs[0])[0] * towers.encode_texts(clip, inputs[1])[0]).sum()
        (-cosines * clip.logit_scale.exp()).backward()
        adamw.step()
        optimiser.clamp_scale(clip, 100.0)


def backbone_state(clip: nn.Module) -> dict[str, torch.Tensor]:
    """The backbone's tensors under their plain names, adapted or not."""
    state = {}
    for name, tensor in clip.state_dict().items():
        if ".lora_" not in name:
            plain_name = name.replace("base_layer.", "").replace("in_proj.", "in_proj_")
            state[plain_name] = tensor.clone()
    return state


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Whether all tensors are equal to the bit."""
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


CFG = Train(lr=1e-2, lora=Lora())


def test_an_untrained_adapter_changes_nothing(model, inputs):
    """Every output is the pretrained model's, though each first factor is drawn, by the seed and no global generator."""
    other, before = copy.deepcopy(model.clip), outputs(model.clip, inputs)
    factors, draws = [], []
    for seed, global_seed, clip in ((0, 1, model.clip), (0, 2, copy.deepcopy(other)), (5, 1, other)):
        torch.manual_seed(global_seed)
        lora.inject(clip, Lora(), BOTH, seed)
        factors.append({name: p.detach() for name, p in lora.adapter_parameters(clip).items()})
        draws.append(torch.rand(1))
    torch.testing.assert_close(before, outputs(model.clip, inputs), rtol=0, atol=1e-6)
    assert all(p.count_nonzero() == p.numel() * ("lora_A" in n) for n, p in factors[0].items())
    assert same_bits(*factors[:2]) and not same_bits(factors[0], factors[2]) and draws[0] == draws[2]


def test_what_is_adapted_and_how_many_numbers(model):
    """By hand: rank 4 on four projections of two layers in two towers of width 32, and on the patch convolution."""
    plain = sum(p.numel() for p in model.clip.parameters())
    optimiser.freeze(model.clip, CFG)
    layer = 4 * ((32 + 96) + (32 + 32) + (32 + 128) + (128 + 32))
    patch = 4 * 3 * 16 * 16 + 32 * 4
    assert optimiser.count_parameters(model.clip) == {"trained_parameters": 4 * layer + patch, "parameters": plain}
    trained = {n for n, p in model.clip.named_parameters() if p.requires_grad}
    assert trained == set(lora.adapter_parameters(model.clip))
    assert len(trained) == 2 * (4 * 4 + 1)


def test_an_added_bias_is_trained_and_a_backbones_own_is_not(model):
    """The bias that a sigmoid loss gives a softmax model is no part of the backbone."""
    other = copy.deepcopy(model)
    model.add_bias(-10.0)
    other.clip.logit_bias = nn.Parameter(torch.tensor(-10.0))
    for m in (model, other):
        optimiser.freeze(m.clip, CFG)
    assert model.clip.logit_bias.requires_grad and not other.clip.logit_bias.requires_grad


def test_the_released_parametrisation_of_the_patch_convolution():
    """ViT-B/32 at rank 4: A [128, 96] and B [24576, 128] of the patches are 3.16 of 4.14 million trained numbers."""
    cfg = open_clip.get_model_config("ViT-B-32-quickgelu")
    with torch.device("meta"):
        clip = open_clip.CLIP(**cfg)
    optimiser.freeze(clip, Train(lora=Lora(patch="matrix")))
    patch = {n: tuple(p.shape) for n, p in lora.adapter_parameters(clip).items() if n.startswith("visual.conv1")}
    assert list(patch.values()) == [(128, 96), (24576, 128)]
    layers = 12 * 4 * sum((w + 3 * w) + (w + w) + 2 * (w + 4 * w) for w in (768, 512))
    assert 128 * 96 + 24576 * 128 == 3_158_016
    assert optimiser.count_parameters(clip)["trained_parameters"] == 3_158_016 + layers == 4_141_056


@pytest.mark.parametrize("targets", [["patch"], ["attention", "patch"]])
def test_a_patch_matrix_by_hand(model, inputs, tmp_path, targets):
    """It starts at zero, is saved and read again, and merges as W + scale alpha / r (B A) at every place of WiSE-FT."""
    cfg = Train(lr=1e-2, trainable="image", lora=Lora(rank=2, alpha=3.0, targets=targets, patch="matrix"))
    base, before = copy.deepcopy(model.clip), outputs(model.clip, inputs)
    lora.inject(model.clip, cfg.lora, ("image",))
    torch.testing.assert_close(before, outputs(model.clip, inputs), rtol=0, atol=1e-5)
    fit(model.clip, inputs, cfg)
    model.clip.eval()
    adapted = outputs(model.clip, inputs)
    lora.save_and_merge(model.clip, tmp_path)
    a, b = (load_file(tmp_path / lora.WEIGHTS)[f"visual.conv1.lora_{f}.weight"].double() for f in "AB")
    assert (a.shape, b.shape) == ((2 * 16, 3 * 16), (32 * 16, 2 * 16))
    assert b.abs().max() > 1e-3
    for scale in (0.0, 0.3, 1.0):
        clip = copy.deepcopy(base).eval()
        lora.load_adapter(clip, tmp_path)
        lora.merge(clip, scale)
        expected = base.visual.conv1.weight.double() + scale * 1.5 * (b @ a).reshape(32, 3, 16, 16)
        torch.testing.assert_close(clip.visual.conv1.weight.double(), expected, rtol=0, atol=1e-7)
        assert clip.state_dict().keys() == base.state_dict().keys()
    for adapted_clip in (clip, model.clip):
        torch.testing.assert_close(outputs(adapted_clip, inputs), adapted, rtol=0, atol=1e-5)


def test_the_backbone_keeps_its_bits(model, inputs):
    """Training, and scoring from two threads in between, moves the adapter alone; not even the scale is clamped."""
    with torch.no_grad():
        model.clip.logit_scale.fill_(math.log(100.0) + 1e-3)
    before, outputs_before = backbone_state(model.clip), outputs(model.clip, inputs)
    fit(model.clip, inputs, CFG)
    with ThreadPoolExecutor(2) as pool:
        scored = list(pool.map(lambda _: outputs(model.clip, inputs)[0], range(8)))
    assert all(torch.equal(scored[0], s) for s in scored)
    fit(model.clip, inputs, CFG)
    assert same_bits(before, backbone_state(model.clip))
    assert all(p.count_nonzero() for p in lora.adapter_parameters(model.clip).values())
    assert (outputs(model.clip, inputs)[0] - outputs_before[0]).abs().max() > 1e-2


def test_merged_checkpoint_opens_in_plain_open_clip(model, inputs, tmp_path):
    """The saved weights have open_clip's names and give the adapted model's outputs; so does base + saved adapter."""
    names, base = list(model.clip.state_dict()), copy.deepcopy(model.clip)
    fit(model.clip, inputs, CFG)
    model.clip.eval()
    adapted = outputs(model.clip, inputs)
    lora.save_and_merge(model.clip, tmp_path / "c" / lora.FOLDER)
    model.save(tmp_path / "c")
    plain = open_clip.create_model(f"local-dir:{tmp_path / 'c'}").eval()
    assert list(plain.state_dict()) == names
    lora.load_adapter(base.eval(), tmp_path / "c" / lora.FOLDER)
    for clip in (plain, model.clip, base):
        torch.testing.assert_close(outputs(clip, inputs), adapted, rtol=0, atol=1e-5)
    assert not hasattr(model.clip, "peft_config")
    assert type(model.clip.transformer.resblocks[0].attn) is nn.MultiheadAttention


def test_merged_weights_by_hand(model, inputs, tmp_path):
    """W + alpha / rank · B A for every adapted matrix, once, and the pretrained bits everywhere else (float64)."""
    before, cfg = backbone_state(model.clip), Train(lr=1e-2, lora=Lora(rank=2, alpha=3.0))
    fit(model.clip, inputs, cfg)
    lora.save_and_merge(model.clip, tmp_path)
    factors, after = load_file(tmp_path / lora.WEIGHTS), backbone_state(model.clip)
    for tower in ("visual.transformer", "transformer"):
        for layer in (0, 1):
            for name in (f"{tower}.resblocks.{layer}.{p}" for p in PROJECTIONS):
                module = name.replace("in_proj_weight", "in_proj.weight").removesuffix(".weight")
                a, b = (factors[f"{module}.lora_{f}.weight"].double() for f in "AB")
                expected = before.pop(name).double() + 1.5 * b @ a
                torch.testing.assert_close(after.pop(name).double(), expected, rtol=0, atol=1e-6)
    a, b = (factors[f"visual.conv1.lora_{f}.weight"].double() for f in "AB")
    expected = before.pop("visual.conv1.weight").double() + 1.5 * torch.einsum("or,rcij->ocij", b[..., 0, 0], a)
    torch.testing.assert_close(after.pop("visual.conv1.weight").double(), expected, rtol=0, atol=1e-6)
    assert same_bits(before, after)


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_is_multihead_attention(batch_first):
    """Outputs and all gradients, with a causal mask, and the same parameters after it is restored."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    nn.init.normal_(theirs.in_proj_bias)
    ours = lora.Attention(copy.deepcopy(theirs))
    x, mask = torch.randn(5, 5, 8), torch.full((5, 5), -math.inf).triu(1)
    expected, actual = (m(x, x, x, need_weights=False, attn_mask=mask)[0] for m in (theirs, ours))
    torch.testing.assert_close(expected, actual)
    expected.square().sum().backward()
    actual.square().sum().backward()
    for a, b in zip(theirs.parameters(), ours.restore().parameters(), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a.grad, b.grad)


def test_siglip_trunk(tmp_path):
    """timm's fused projections, MLPs, attention pool and patch embedding are adapted, and merge."""
    clip = _timm_clip()
    image, before = torch.randn(2, 3, 32, 32), backbone_state(clip)
    optimiser.freeze(clip, Train(trainable="image", lora=Lora()))
    adapted = {n.split(".lora_")[0] for n in lora.adapter_parameters(clip)}
    names = "patch_embed.proj attn_pool.kv attn_pool.mlp.fc1 blocks.0.attn.qkv blocks.0.attn.proj blocks.0.mlp.fc2"
    assert {f"visual.trunk.{name}" for name in names.split()} <= adapted
    adamw = optimiser.adamw(clip, Train(lr=1e-2))
    for _ in range(2):
        adamw.zero_grad()
        pooled, tokens = towers.encode_images(clip, image, tokens=True)
        (pooled.sum() + tokens.square().sum()).backward()
        adamw.step()
    assert same_bits(before, backbone_state(clip))
    with torch.no_grad():
        trained = towers.encode_images(clip, image, tokens=True)
        lora.save_and_merge(clip, tmp_path)
        torch.testing.assert_close(towers.encode_images(clip, image, tokens=True), trained, rtol=1e-5, atol=1e-5)
    assert clip.state_dict().keys() == before.keys()


def test_eva_s_trunk():
    """Its three projections and its gated MLP are adapted, and used: one whose bias is beside it would not be."""
    clip, image = _timm_clip(*TIMM["EVA02"]), torch.randn(1, 3, 32, 32)
    lora.inject(clip, Lora(), ("image",))
    names = [name for name in lora.adapter_parameters(clip) if "blocks.1" in name]
    adapted = {name.split(".lora_")[0].rpartition("blocks.1.")[2] for name in names}
    mlp = {f"mlp.{name}" for name in ("fc1_g", "fc1_x", "fc2")}
    assert adapted == mlp | {f"attn.{name}_proj" for name in "qkv"} | {"attn.proj"}
    sum(x.sum() for x in towers.encode_images(clip, image, tokens=True)).backward()
    assert all(p.grad.abs().sum() > 0 for n, p in lora.adapter_parameters(clip).items() if "lora_B" in n)
    fused = _timm_clip("eva_giant_patch14_clip_224", TIMM["EVA02"][1] | {"img_size": 28})
    with pytest.raises(UserError, match="visual.trunk.blocks.0.attn is attention that cannot be adapted"):
        lora.inject(fused, Lora(), ("image",))
