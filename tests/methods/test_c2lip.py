"""C2LIP: what it asks of the batch and the backbone; test_variants.py has Eq. 4–8."""

from dataclasses import replace

import pytest

from compclip.methods import c2lip


@pytest.mark.parametrize("kind", ["pooled", "encoded"])
def test_views_ask_for_concepts_and_patches(kind):
    """And for a bias, which a softmax backbone has not."""
    views = c2lip.views(c2lip.Config(concepts=kind), 0)
    assert (views.concepts, views.tokens, views.negatives) == (kind, True, ()) and not views.whole_concept
    assert c2lip.views(c2lip.Config(concepts=kind, whole_concept=True), 0).whole_concept
    assert c2lip.needs_bias(c2lip.Config())


def test_terms_of_weight_zero_ask_for_nothing(features):
    npc_only, neither = c2lip.Config(lambda_xac=0.0), c2lip.Config(lambda_npc=0.0, lambda_xac=0.0)
    assert not c2lip.views(npc_only, 0).tokens and c2lip.views(npc_only, 0).concepts == "pooled"
    assert c2lip.views(neither, 0).concepts == ""
    assert list(c2lip.loss(replace(features(), patch_BND=None), npc_only, 0)) == ["contrastive", "npc"]
