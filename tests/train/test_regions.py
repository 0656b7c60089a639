"""Vectors of regions: pooled as torchvision pools them, of patches that see only themselves; nothing changes without them.

B images, R regions, N patches, S side of the grid, D dim.
"""

import contextlib
import functools
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import timm
import torch
import torchvision
from PIL import Image
from torch.nn import functional as F

from compclip.interface.method import load_method
from compclip.interface.views import Regions, Views
from compclip.model import backbone, towers
from compclip.train import accumulate, encode, extras, picture_views
from tests import distributed_check, tiny_project
from tests.model.test_towers import make_model
from tests.reference import dot

S, D = 5, 3


def test_pooling_equals_torchvision():
    """Of each picture a random box, a thin one, one smaller than a patch, one at a corner, and the whole picture."""
    boxes = torch.tensor([
        [[0.13, 0.21, 0.77, 0.64], [0.4, 0.0, 0.43, 1.0], [0.51, 0.52, 0.55, 0.61], [0.86, 0.9, 1.0, 1.0], [0, 0, 1, 1]],
        [[0.0, 0.3, 0.31, 0.99], [0.1, 0.5, 0.9, 0.52], [0.01, 0.01, 0.02, 0.02], [0.0, 0.0, 0.11, 0.07], [0.33, 0, 0.61, 1]],
    ], dtype=torch.float64)  # fmt: skip
    patches = torch.randn(2, S * S, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pooled = encode.pool_regions(patches, boxes)
    grid_BDHW = patches.reshape(2, S, S, D).permute(0, 3, 1, 2)
    theirs = torchvision.ops.roi_align(grid_BDHW, list(boxes * S), (1, 1), 1.0, -1, True)[..., 0, 0]
    torch.testing.assert_close(pooled.flatten(0, 1), theirs, rtol=0, atol=1e-12)


# --- patches that see only themselves ------------------------------------------------------------------------------


def test_local_patches_are_the_last_blocks_values():
    """By the weights of the block: norm, values, output projection, MLP; and the picture's own vector is the usual one."""
    clip = distributed_check.model(bias=False)
    picture = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    image, patch, local = towers.encode_with_local_patches(clip, picture, tokens=True)
    expected_image, expected_patch = towers.encode_images(clip, picture, tokens=True)
    assert torch.equal(image, expected_image) and torch.equal(patch, expected_patch)
    visual = clip.visual
    block = visual.transformer.resblocks[-1]  # the only one of this model
    tokens = visual.ln_pre(visual._embeds(picture)) if not hasattr(visual, "_embeds") else visual._embeds(picture)
    for i in range(2):
        for n in range(4):
            x, W = tokens[i, n + 1], block.attn.embed_dim
            value = block.attn.in_proj_weight[2 * W :] @ block.ln_1(x) + block.attn.in_proj_bias[2 * W :]
            x = x + block.attn.out_proj(value)
            x = visual.ln_post(x + block.mlp(block.ln_2(x))) @ visual.proj
            torch.testing.assert_close(local[i, n], x, rtol=0, atol=1e-12)
    assert not block._forward_pre_hooks


@pytest.mark.parametrize("name,changes", [
    ("eva02_tiny_patch14_224", {"img_size": 28, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 0}),
    ("vit_tiny_patch16_224", {"img_size": 32, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 0, "class_token": False, "global_pool": "map"}),
])  # fmt: skip
def test_local_patches_of_timm(name, changes):
    """A patch's vector does not change with the other patches that go into the last block; the usual one does."""
    visual = open_clip.timm_model.TimmModel.__new__(open_clip.timm_model.TimmModel)
    torch.nn.Module.__init__(visual)
    torch.manual_seed(0)
    visual.trunk, visual.head = timm.create_model(name, **changes).eval(), torch.nn.Linear(24, D)
    visual.forward = lambda x: visual.head(visual.trunk(x))
    block = visual.trunk.blocks[-1]
    x = torch.randn(1, 4 + visual.trunk.num_prefix_tokens, 24)
    other = x.clone()
    other[:, -1] = torch.randn(24)
    local, changed = (towers._project_alone(visual, block, tokens) for tokens in (x, other))
    assert local.shape == (1, 4, D)
    torch.testing.assert_close(local[:, :3], changed[:, :3])
    assert not torch.allclose(local[:, 3], changed[:, 3])
    assert not torch.allclose(block(x)[:, :-1], block(other)[:, :-1])


# --- features ------------------------------------------------------------------------------------------------------


def encoded(views: Views):
    clip = distributed_check.model(bias=False)
    batch = distributed_check.batch(views)
    return clip, batch, encode.encode_features(clip, batch, views)


@pytest.mark.parametrize("unit", [True, False])
def test_features_of_regions(unit):
    """Each region's vector is its box's mean of patches, its crop's that of a picture, its text's that of a caption."""
    views = Views(regions=Regions(2, negatives=1, crops=1.5, unit_patches=unit))
    clip, batch, f = encoded(views)
    local = towers.encode_with_local_patches(clip, batch.image_B3HW, tokens=False)[2]
    local = F.normalize(local, dim=-1) if unit else local
    pooled = F.normalize(encode.pool_regions(local, batch.pictures["regions"].box_BJ4), dim=-1)
    torch.testing.assert_close(f.named["regions"].values, pooled)
    crop = clip.encode_image(batch.pictures["region_crops"].image_BJ3HW[3, 1][None], normalize=True)[0]
    torch.testing.assert_close(f.named["region_crops"].values[3, 1], crop)
    text = clip.encode_text(batch.texts["region_texts"].ids[3, 1, 2][None], normalize=True)[0]
    torch.testing.assert_close(f.named["region_texts"].values[3, 1, 2], text)
    assert f.named["region_texts"].values.shape == (6, 2, 3, 16) and f.patch_BND is None
    assert abs(dot(f.named["regions"].values[0, 0], f.named["regions"].values[0, 0]).item() - 1) < 1e-12


def test_other_features_have_the_same_bits_with_regions_beside():
    """Those of the picture and its caption."""
    clip, batch, f = encoded(Views(regions=Regions(2, unit_patches=True)))
    texts = {name: block for name, block in batch.texts.items() if name != "region_texts"}
    without = replace(batch, pictures={}, texts=texts)
    plain = encode.encode_features(clip, without, Views())
    assert torch.equal(plain.image_BD, f.image_BD)
    torch.testing.assert_close(plain.text_BD, f.text_BD, rtol=0, atol=1e-14)
    assert plain.named == {}


def test_texts_that_are_not_there_are_zeros_and_never_encoded():
    clip, batch, _ = encoded(views := Views(regions=Regions(2, negatives=2)))
    mask = batch.texts["region_texts"].mask
    counted = distributed_check.change_texts(batch, "region_texts", encoded=mask.numpy())
    sizes = []
    hook = clip.transformer.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    f = encode.encode_features(clip, counted, views)
    hook.remove()
    assert sizes == [6 + int(mask.sum())]
    assert not f.named["region_texts"].values[~mask].any() and f.named["region_texts"].values[mask].any(-1).all()


def test_a_frozen_image_tower_is_encoded_once():
    """Its regions and crops are taken from the first pass: the same terms, and texts have gradients."""
    method = load_method("fineclip")
    cfg = method.Config(regions=2)
    views = method.views(cfg, 0)
    terms = []
    for micro in (0, 2):
        clip = distributed_check.model(bias=False)
        distributed_check.freeze(clip, frozenset({"image"}))
        computer = accumulate.GradientComputer(clip, frozenset({"image"}), contextlib.nullcontext, micro)
        loss = functools.partial(method.loss, cfg=cfg, step=0)
        terms.append(computer.compute_gradients(distributed_check.batch(views), views, loss))
        assert clip.visual.proj.grad is None and clip.text_projection.grad is not None
    torch.testing.assert_close(terms[0], terms[1])


@pytest.mark.parametrize("name", ["fineclip", "fg_clip"])
def test_whole_pictures_are_scored_as_they_are_trained_on(name, tmp_path):
    """A wide picture, of which a square from the middle lacks two thirds: here, and of the finished model's folder."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 180, 3), dtype=np.uint8))
    squashed = np.asarray(picture_views.resize_by_pillow(picture, (64, 64)))
    method = load_method(name)
    model = make_model(tmp_path, tiny_project.TINY)
    extras.prepare_model(method, method.Config(), model, 0)
    model.save(tmp_path / "saved")
    for scored in (model, backbone.load(tmp_path / "saved")):
        assert np.array_equal(scored.fit_picture(picture), squashed)
