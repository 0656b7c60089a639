"""C2LIP: batches without concepts, and what it asks of the batch and the backbone; test_variants.py has Eq. 4–8."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compclip.methods import c2lip

CONTRASTIVE = c2lip.Config(lambda_npc=0.0, lambda_xac=0.0)


def test_the_contrastive_term_divides_by_images_and_npc_by_concepts(features):
    f = features(M=8)
    silent = torch.tensor(0.0, dtype=torch.float64)  # every pair costs log 2
    terms = c2lip.loss(replace(f, scale=silent, bias=silent), c2lip.Config(), 0)
    pair = torch.log(torch.tensor(2.0, dtype=torch.float64))
    torch.testing.assert_close(terms["contrastive"], 4 * pair)  # 4 x 4 pairs over 4 images
    torch.testing.assert_close(terms["npc"], 4 * pair)  # 4 x 8 pairs over 8 concepts


@pytest.mark.parametrize("kind", ["pooled", "encoded"])
def test_views_ask_for_concepts_and_patches(kind):
    views = c2lip.views(c2lip.Config(concepts=kind), 0)
    assert (views.concepts, views.tokens, views.negatives) == (kind, True, ()) and not views.whole_concept
    assert c2lip.views(c2lip.Config(concepts=kind, whole_concept=True), 0).whole_concept


def test_terms_of_weight_zero_ask_for_nothing(features):
    npc_only, neither = c2lip.Config(lambda_xac=0.0), c2lip.Config(lambda_npc=0.0, lambda_xac=0.0)
    assert not c2lip.views(npc_only, 0).tokens and c2lip.views(npc_only, 0).concepts == "pooled"
    assert c2lip.views(neither, 0).concepts == ""
    assert list(c2lip.loss(replace(features(), patch_BND=None), npc_only, 0)) == ["contrastive", "npc"]


def test_a_softmax_backbone_is_to_be_given_a_bias():
    assert c2lip.needs_bias(c2lip.Config()) and c2lip.Config().init_bias == -10.0


def test_the_bias_of_a_scale_of_100(features):
    """Cosines 0.27 for pairs and 0.15 otherwise, as CLIP has them: −10 starts far from where the loss is lowest."""
    B, apart = 64, torch.eye(193, dtype=torch.float64)
    shared = 0.15**0.5 * apart[-1] + 0.12**0.5 * apart[:B]
    image_BD, text_BD = (shared + 0.73**0.5 * apart[k * B : (k + 1) * B] for k in (1, 2))
    f = replace(features(B=B), image_BD=image_BD, text_BD=text_BD, scale=torch.tensor(100.0, dtype=torch.float64))
    torch.testing.assert_close(f.image_BD @ f.text_BD.T, 0.15 + 0.12 * torch.eye(B, dtype=torch.float64))
    start = {
        b: c2lip.loss(replace(f, bias=torch.tensor(b, dtype=torch.float64)), CONTRASTIVE, 0)["contrastive"].item()
        for b in (-10.0, -27.0, -40.0)
    }
    assert start[-27.0] < 1 < 300 < start[-10.0] and start[-27.0] < start[-40.0]
