"""NegCLIP: the term, and which exchange makes its negatives."""

from __future__ import annotations

import pytest
import torch

from compclip.base.errors import UserError
from compclip.methods import negclip
from compclip.text import swap
from tests import reference


def test_loss_is_eq_2_with_the_batchs_negatives(features):
    f = features()
    expected = reference.negclip(f.image_BD, f.text_BD, f.negative_BKD, f.mask_BK, f.scale)
    terms = negclip.loss(f, negclip.Config(), 0)
    assert list(terms) == ["negclip"]
    torch.testing.assert_close(terms["negclip"], expected)
    assert expected > reference.clip(f.image_BD, f.text_BD, f.scale)


@pytest.mark.parametrize("name,rule", [("negclip", swap.negclip), ("clic", swap.single)])
def test_swap_chooses_the_rule(name, rule):
    assert negclip.views(negclip.Config(swap=name), 0).negatives == (rule,)


def test_an_unknown_swap_is_refused():
    with pytest.raises(UserError, match="swap=negclp: must be one of negclip, clic; did you mean 'negclip'"):
        negclip.Config(swap="negclp")
