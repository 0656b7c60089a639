"""Hard positives: which rewrite it takes, and the variants by parameters; test_variants.py has its terms."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compclip.methods import hard_positives
from compclip.text import positives, swap
from compclip.text import replace as replacing
from compclip.train import losses

Config = hard_positives.Config


def with_mask(f, rows: list[list[bool]]):
    return replace(f, positive_mask_BP=torch.tensor(rows))


MASK = [[True, True], [False, True], [True, False], [False, False]]


def test_the_first_valid_rewrite_is_taken_and_the_caption_where_there_is_none(features):
    f = with_mask(features(P=2), MASK)
    expected = [f.positive_BPD[0, 0], f.positive_BPD[1, 1], f.positive_BPD[2, 0], f.text_BD[3]]
    assert torch.equal(losses.first_valid(f.positive_BPD, f.positive_mask_BP, f.text_BD), torch.stack(expected))


def test_hard_negatives_only_has_no_analogy_term(features):
    cfg = Config(hard_positives="none")
    assert hard_positives.views(cfg, 0).positives == ()
    assert list(hard_positives.loss(features(P=0), cfg, 0)) == ["negclip", "s_neg"]


@pytest.mark.parametrize(
    "kind,rules",
    [("both", (positives.swap, positives.replace)), ("swap", (positives.swap,)), ("replace", (positives.replace,))],
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
