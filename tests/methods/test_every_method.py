"""What every method file must do, whatever the paper: new files are tested without being named here."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest
import torch

from compclip.base import plugins
from compclip.train.batch import Views
from compclip.train.features import Features
from tests.methods.conftest import drawn

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
def test_terms_are_finite_scalars_with_finite_gradients_whatever_the_masks(name, step):
    if name not in trained():
        return
    cfg = method(name).Config()
    for how in ({}, {"fill": "all"}, {"fill": "none", "M": 0}, {"B": 1, "M": 1}):
        batch = drawn(name, cfg, step, **how)
        terms = method(name).loss(batch, cfg, step)
        assert terms and all(term.shape == () and torch.isfinite(term) for term in terms.values())
        sum(terms.values()).backward()
        for leaf in tensors(batch):
            assert leaf.grad is None or torch.isfinite(leaf.grad).all()
        assert batch.image_BD.grad is not None and batch.text_BD.grad is not None


def tensors(batch: Features) -> list[torch.Tensor]:
    """The leaves of a batch that can have a gradient."""
    found = [getattr(batch, field.name) for field in fields(batch)]
    return [x for x in found if isinstance(x, torch.Tensor) and x.requires_grad]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_method_remembers_is_what_it_starts_from_and_finite(name):
    """The same names and shapes, whatever a batch lacks."""
    if not (remember := getattr(method(name), "remember", None)):
        return
    cfg = method(name).Config()
    start = method(name).memory(cfg)
    for fill in ("some", "all", "none"):
        found = remember(drawn(name, cfg, fill=fill), cfg)
        assert {k: v.shape for k, v in found.items()} == {k: v.shape for k, v in start.items()}
        assert all(torch.isfinite(v).all() and not v.requires_grad for v in map(torch.Tensor.detach, found.values()))


@pytest.mark.parametrize("name", plugins.names(plugins.METHODS))
@pytest.mark.parametrize("hook", ["reads", "needs", "check", "heads", "teacher", "memory", "remember"])
def test_what_is_called_for_a_method_is_its_own(name, hook):
    """A function that a module imports under the name of one that it may have would be called in its place."""
    method = plugins.find(plugins.METHODS, name)
    assert getattr(getattr(method, hook, None), "__module__", method.__name__) == method.__name__
