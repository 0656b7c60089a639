"""CLIC: the rhythm of composite and plain steps, and the ablations of Table 10; test_variants.py has Eq. 4–7."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from compclip.interface.views import Step, Views, step_in_epoch
from compclip.methods import clic
from tests import reference


def test_default_weights_are_the_papers(features):
    f = features(K=1, P=3)
    weighted, plain = (clic.loss(f, cfg, 0) for cfg in (clic.Config(), clic.Config(1.0, 1.0, 1.0)))
    assert [(weighted[k] / plain[k]).item() for k in ("cont", "s_neg", "uni")] == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("norm", ["squared", "l2"])
def test_uni_of_equal_captions_is_zero_with_finite_slope(features, norm):
    f = features(K=1, P=1)
    same = replace(f, positive_BPD=f.text_BD.detach()[:, None].requires_grad_())
    value = clic.uni(same, norm)
    value.backward()
    assert value.item() == 0.0 and not same.text_BD.grad.any()


def test_composites_come_first_then_single_images():
    cfg = clic.Config()
    assert [bool(clic.views(cfg, step).composite) for step in range(4)] == [True, False, True, False]
    assert clic.views(cfg, 1) == Views(caption="first", lowercase=True)
    assert clic.views(cfg, 0).lowercase


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
    """ImageNet's are of composites alone."""
    cfg = clic.Config(ends="clic", statistics="imagenet")
    composite, single = (clic.views(cfg, step) for step in (0, 1))
    assert (composite.ends, composite.statistics) == ("clic", "imagenet")
    assert (single.ends, single.statistics) == ("clic", "")
    assert clic.views(replace(cfg, composites=False), 0).statistics == ""
    assert clic.views(clic.Config(), 0).statistics == "" and clic.views(clic.Config(), 0).ends == "kept"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_number_of_positives_is_a_parameter(features, count):
    f = features(K=1, P=count - 1)
    cfg = clic.Config(positives=count, lambda_uni=float(count > 1))
    assert clic.views(cfg, 0).composite.captions == count
    terms = clic.loss(f, cfg, 0)
    all_p = [f.text_BD, *(f.positive_BPD[:, p] for p in range(count - 1))]
    torch.testing.assert_close(terms["cont"], 0.5 * sum(reference.clip(f.image_BD, p, f.scale) for p in all_p) / count)
    assert ("uni" in terms) == (count > 1)


@pytest.mark.parametrize(
    ("options", "partner"),
    [
        ({}, "random"),
        ({"partner": "common_noun"}, "common_noun"),
        ({"partner": "common_noun", "composites": False}, ""),
    ],
)
def test_partners_are_a_parameter(options, partner):
    composite = clic.views(clic.Config(**options), 0).composite
    assert (composite.captions, composite.partner) == (4, partner)
