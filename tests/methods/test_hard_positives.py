"""Hard positives: the variants by parameters; test_variants.py has its terms."""

import pytest

from compclip.methods import hard_positives
from compclip.text import positives, swap
from compclip.text import replace as replacing

Config = hard_positives.Config


def test_hard_negatives_only_has_no_analogy_term(features):
    cfg = Config(hard_positives="none")
    assert hard_positives.views(cfg, 0).positives == ()
    assert list(hard_positives.loss(features(P=0), cfg, 0)) == ["negclip", "s_neg"]


@pytest.mark.parametrize(("kind", "chosen"), [("both", slice(0, 2)), ("swap", slice(0, 1)), ("replace", slice(1, 2))])
def test_the_rules_are_parameters(kind, chosen):
    """Of positives and negatives, exchange and replacement; CLoVe's replacement asks for relatives."""
    views = hard_positives.views(Config(hard_positives=kind, hard_negatives=kind), 0)
    assert views.positives == (positives.swap, positives.replace)[chosen]
    assert views.negatives == (swap.negclip, replacing.wordnet)[chosen]
    clove = Config(hard_negatives=kind, replace="clove")
    assert hard_positives.views(clove, 0).negatives == (swap.negclip, replacing.clove)[chosen]
    assert hard_positives.needs(clove) == ({} if kind == "swap" else {"relatives": True})
