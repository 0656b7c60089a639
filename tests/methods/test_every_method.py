"""What every method file must do, whatever the paper: new files are tested without being named here."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest
import torch

from compclip.base import plugins
from compclip.train.batch import Views
from compclip.train.features import Features

NAMES = plugins.names("compclip.methods")


def method(name: str):
    return plugins.find("compclip.methods", name)


def trained() -> list[str]:
    return [name for name in NAMES if method(name).TRAINS]


def test_the_papers_methods_are_there():
    assert {"pretrained", "finetune", "negclip", "clic", "fsc_clip", "c2lip", "hard_positives"} <= set(NAMES)
    assert set(NAMES) - set(trained()) == {"pretrained", "released"}


@pytest.mark.parametrize("name", NAMES)
def test_config_is_a_frozen_dataclass_with_the_papers_defaults(name):
    cfg = method(name).Config()
    assert is_dataclass(cfg)
    for field in fields(cfg):
        with pytest.raises(FrozenInstanceError):
            setattr(cfg, field.name, getattr(cfg, field.name))


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_views_are_a_function_of_config_and_step(name, step):
    if name in trained():
        one, other = (method(name).views(method(name).Config(), step) for _ in range(2))
        assert isinstance(one, Views) and one == other


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_terms_are_finite_scalars_with_finite_gradients_whatever_the_masks(features, name, step):
    if name not in trained():
        return
    for batch in (features(), features(fill="all"), features(fill="none", M=0), features(B=1, K=1, M=1)):
        terms = method(name).loss(batch, method(name).Config(), step)
        assert terms and all(term.shape == () and torch.isfinite(term) for term in terms.values())
        sum(terms.values()).backward()
        for leaf in tensors(batch):
            assert leaf.grad is None or torch.isfinite(leaf.grad).all()
        assert batch.image_BD.grad is not None and batch.text_BD.grad is not None


def tensors(batch: Features) -> list[torch.Tensor]:
    """The leaves of a batch that can have a gradient."""
    found = [getattr(batch, field.name) for field in fields(batch)]
    return [x for x in found if x is not None and x.requires_grad]
