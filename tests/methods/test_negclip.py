"""NegCLIP: which exchange makes its negatives; test_variants.py has the term."""

import pytest

from compclip.methods import negclip
from compclip.text import swap


@pytest.mark.parametrize(
    "name,rule", [("negclip", swap.negclip), ("negclip_released", swap.negclip_released), ("clic", swap.single)]
)
def test_swap_chooses_the_rule(name, rule):
    assert negclip.views(negclip.Config(swap=name), 0).negatives == (rule,)


def test_hard_images_are_asked_for_as_neighbours():
    """The loss of a batch with them is that of twice as many rows: `test_neighbours.py` makes one by hand."""
    views = negclip.views(negclip.Config(hard_images=1), 0)
    assert (views.neighbours, views.nearest) == (1, 3)
    assert negclip.views(negclip.Config(), 0).neighbours == 0
