"""FSC-CLIP: its ablation rows by parameters; test_variants.py has Eq. 3–11 in loops."""

from dataclasses import replace

from compclip.methods import fsc_clip
from compclip.text import replace as replacing
from compclip.text import shuffle, swap


def test_terms_of_weight_zero_need_no_tokens(features):
    f = replace(features(), patch_BND=None, token_BTD=None, negative_token_BKTD=None)
    cfg = fsc_clip.Config(lambda_local=0.0)
    assert list(fsc_clip.loss(f, cfg, 0)) == ["clip", "global"] and not fsc_clip.views(cfg, 0).tokens
    assert list(fsc_clip.loss(features(), fsc_clip.Config(lambda_global=0.0), 0)) == ["clip", "local"]


def test_views_are_three_negatives_with_tokens():
    views = fsc_clip.views(fsc_clip.Config(), 0)
    assert views.negatives == (swap.negclip, replacing.wordnet, shuffle.bigram) and views.tokens


def test_the_rules_of_the_released_code_are_parameters():
    cfg = fsc_clip.Config(replace="clove", shuffle="tokens")
    assert fsc_clip.views(cfg, 0).negatives == (swap.negclip, replacing.clove, shuffle.tokens)
    assert (fsc_clip.needs(cfg), fsc_clip.needs(fsc_clip.Config())) == ({"relatives": True}, {})
