"""CLIC: the rhythm of composite and plain steps, and what each asks for; test_variants.py has Eq. 4–7."""

from dataclasses import replace

import pytest

from compclip.interface.views import Step, Views, step_in_epoch
from compclip.methods import clic


@pytest.mark.parametrize("norm", ["squared", "l2"])
def test_uni_of_equal_captions_is_zero_with_finite_slope(features, norm):
    f = features(K=1, P=1)
    same = replace(f, positive_BPD=f.text_BD.detach()[:, None].requires_grad_())
    value = clic.uni(same, norm)
    value.backward()
    assert value.item() == 0.0 and not same.text_BD.grad.any()


def test_the_alternation_may_begin_anew_with_each_epoch(features):
    """Epochs of three steps: by the run composites are at 0, 2, 4; by the epoch at 0 and 2 of each."""
    steps = [Step(number, per_epoch=3) for number in range(6)]
    f = features(K=1, P=3)
    for cfg, composites in ((clic.Config(), {0, 2, 4}), (clic.Config(restart=True), {0, 2, 3, 5}),
                            (clic.Config(restart=True, alternate=False), {*steps})):  # fmt: skip
        assert {s for s in steps if clic.views(cfg, s).composite} == composites
        assert {s for s in steps if "cont" in clic.loss(f, cfg, s)} == composites
    assert [step_in_epoch(s) for s in steps] == [0, 1, 2, 0, 1, 2] and step_in_epoch(5) == 5


def test_sentences_and_statistics_of_the_released_code_are_parameters():
    """ImageNet's are of composites alone, and so is a partner."""
    assert clic.views(clic.Config(), 1) == Views(caption="first", lowercase=True)
    assert clic.views(clic.Config(), 0).lowercase
    cfg = clic.Config(ends="clic", statistics="imagenet")
    composite, single = (clic.views(cfg, step) for step in (0, 1))
    assert (composite.ends, composite.statistics) == ("clic", "imagenet")
    assert (single.ends, single.statistics) == ("clic", "")
    of_one = clic.views(replace(cfg, composites=False, partner="common_noun"), 0)
    assert (of_one.statistics, of_one.composite.partner) == ("", "")
    assert clic.views(clic.Config(), 0).statistics == "" and clic.views(clic.Config(), 0).ends == "kept"
