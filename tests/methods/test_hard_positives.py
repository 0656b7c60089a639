"""Hard positives: the analogy term against loops, which rewrite it takes, and the variants by parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compclip.base.errors import UserError
from compclip.methods import hard_positives
from compclip.text import positives, swap
from compclip.text import replace as replacing
from compclip.train import losses
from tests import reference

Config = hard_positives.Config


def analogy(f) -> torch.Tensor:
    return losses.analogy(f.image_BD, f.text_BD, f.positive_BPD, f.positive_mask_BP, f.scale)


def with_mask(f, rows: list[list[bool]]):
    return replace(f, positive_mask_BP=torch.tensor(rows))


MASK = [[True, True], [False, True], [True, False], [False, False]]


def test_terms_with_negatives_in_the_contrast(features):
    f = with_mask(features(K=2, P=2), MASK)
    terms = hard_positives.loss(f, Config(lambda_s_neg=0.5, lambda_analogy=2.0), 0)
    negatives = (f.negative_BKD, f.mask_BK, f.scale)
    assert list(terms) == ["negclip", "s_neg", "analogy"]
    torch.testing.assert_close(terms["negclip"], reference.negclip(f.image_BD, f.text_BD, *negatives))
    torch.testing.assert_close(terms["s_neg"], 0.5 * reference.s_neg(f.image_BD, f.text_BD, *negatives))
    torch.testing.assert_close(terms["analogy"], 2.0 * reference.analogy(f))


def test_the_contrast_without_negatives_is_clip(features):
    f = features(K=2, P=2)
    terms = hard_positives.loss(f, Config(negatives_in_contrastive=False), 0)
    assert list(terms) == ["clip", "s_neg", "analogy"]
    torch.testing.assert_close(terms["clip"], reference.clip(f.image_BD, f.text_BD, f.scale))


def test_the_first_valid_rewrite_is_taken_and_the_caption_where_there_is_none(features):
    f = with_mask(features(P=2), MASK)
    expected = [f.positive_BPD[0, 0], f.positive_BPD[1, 1], f.positive_BPD[2, 0], f.text_BD[3]]
    assert torch.equal(losses.first_valid(f.positive_BPD, f.positive_mask_BP, f.text_BD), torch.stack(expected))


def test_analogy_is_not_symmetric_in_caption_and_rewrite(features):
    """Queries are images and captions, keys are rewrites: exchanging the roles gives another number."""
    f = features(K=2, P=1, fill="all")
    turned = replace(f, image_BD=f.positive_BPD[:, 0], text_BD=f.text_BD, positive_BPD=f.image_BD[:, None])
    assert analogy(f) != analogy(turned)


def test_hard_negatives_only_has_no_analogy_term(features):
    cfg = Config(hard_positives="none")
    assert hard_positives.views(cfg, 0).positives == ()
    assert list(hard_positives.loss(features(P=0), cfg, 0)) == ["negclip", "s_neg"]


@pytest.mark.parametrize(
    "kind,rules",
    [
        ("both", (positives.swap, positives.replace)),
        ("swap", (positives.swap,)),
        ("replace", (positives.replace,)),
    ],
)
def test_the_rules_for_positives_are_a_parameter(kind, rules):
    assert hard_positives.views(Config(hard_positives=kind), 0).positives == rules


@pytest.mark.parametrize(
    "kind,rules",
    [("both", (swap.negclip, replacing.wordnet)), ("swap", (swap.negclip,)), ("replace", (replacing.wordnet,))],
)
def test_the_rules_for_negatives_are_a_parameter(kind, rules):
    assert hard_positives.views(Config(hard_negatives=kind), 0).negatives == rules
    cfg = Config(hard_negatives=kind, replace="clove")
    assert [r for r in hard_positives.views(cfg, 0).negatives if r != swap.negclip] == [replacing.clove] * (
        kind != "swap"
    )
    assert hard_positives.needs(cfg) == ({} if kind == "swap" else {"relatives": True})


@pytest.mark.parametrize(
    "field,value,message",
    [
        ("lambda_analogy", -1.0, "lambda_analogy=-1.0: must be >= 0"),
        ("hard_positives", "repalce", "hard_positives=repalce: must be one of .*; did you mean 'replace'"),
        ("hard_negatives", "none", "hard_negatives=none: must be one of both, swap, replace"),
    ],
)
def test_bad_values_are_refused_by_name(field, value, message):
    with pytest.raises(UserError, match=message):
        Config(**{field: value})
