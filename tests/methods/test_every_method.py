"""What every method file must do, whatever the paper: new files are tested without being named here."""

import inspect
import math
import re
from dataclasses import fields
from types import ModuleType

import pytest
import torch

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.config.validation import load_section
from compclip.interface.features import Features
from compclip.interface.method import HOOKS, Method, load_method
from compclip.interface.views import Views
from tests.methods.conftest import drawn

NAMES = plugins.list_plugins("compclip.methods")
FREE_TEXTS = {("read_clip", "decoder"), *(("released", field) for field in ("path", "model", "tokenizer"))}


def method(name: str) -> Method:
    return load_method(name)


def trained() -> list[str]:
    return [name for name in NAMES if method(name).TRAINS]


@pytest.mark.parametrize("name", NAMES)
def test_a_field_refuses_what_it_cannot_be(name):
    """No number, fewer than none, a name that is none: each in one line that begins with field and value."""
    config = method(name).Config
    if not config.__module__.startswith("compclip.methods."):
        pytest.skip("what a method of another package refuses is its own")
    wrong_values = {float: math.nan, int: -1, str: "no_such"}
    for field in fields(config):
        value = wrong_values.get(type(field.default))
        if value is None or (name, field.name) in FREE_TEXTS:
            continue
        try:
            load_section(config, {field.name: value}, f"methods.{name}")
        except UserError as error:
            assert re.search(rf"\b{field.name}[=:].*{value}", str(error))
        else:
            pytest.fail(
                f"methods.{name}.{field.name}={value}: is taken; refuse it in `__post_init__`, by methods/_check"
            )


@pytest.mark.parametrize(
    ("name", "field", "value", "rule"),
    [
        ("fsc_clip", "gamma", -1.0, ">= 0"),
        ("fsc_clip", "lambda_local", math.inf, "finite"),
        ("fsc_clip", "epsilon", 1.0, "< 1"),
        ("clic", "positives", 0, ">= 1"),
        ("clic", "positives", 1, "lambda_uni=1.0"),  # CLIC's term compares two of them
        ("negclip", "hard_images", 4, "must be from 0 to 3"),
        ("released", "lora_alpha", 0.0, "> 0"),
        ("c2lip", "concepts", "pool", "did you mean 'pooled'"),
    ],
)
def test_a_refused_value_is_told_with_its_rule(name, field, value, rule):
    with pytest.raises(UserError, match=rule) as caught:
        method(name).Config(**{field: value})
    assert f"{field}={value}" in str(caught.value)


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
        assert any(x is not None and x.grad is not None for x in (batch.image_BD, batch.patch_BND))
        assert any(x is not None and x.grad is not None for x in (batch.text_BD, batch.token_BTD))


def tensors(batch: Features) -> list[torch.Tensor]:
    """The leaves of a batch that can have a gradient."""
    values = [getattr(batch, field.name) for field in fields(batch)]
    return [x for x in values if isinstance(x, torch.Tensor) and x.requires_grad]


@pytest.mark.parametrize("name", trained())
def test_what_a_method_remembers_is_what_it_starts_from_and_finite(name):
    """The same names and shapes, whatever a batch lacks."""
    cfg = method(name).Config()
    start = method(name).memory(cfg)
    for fill in ("some", "all", "none"):
        remembered = method(name).remember(drawn(name, cfg, fill=fill), cfg)
        assert {k: v.shape for k, v in remembered.items()} == {k: v.shape for k, v in start.items()}
        assert all(torch.isfinite(v).all() for v in remembered.values())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_called_for_a_method_is_its_own(name):
    """A function that a module imports under a hook's name would be called in its place."""
    module = plugins.load_plugin(plugins.METHODS, name)
    for hook in HOOKS:
        assert getattr(getattr(module, hook, None), "__module__", module.__name__) == module.__name__, hook


@pytest.mark.parametrize("name", NAMES)
def test_hooks_have_the_parameters_that_the_interface_declares(name):
    for hook in HOOKS:
        if hook in vars(method(name)):
            declared = inspect.signature(getattr(Method, hook)).parameters
            assert list(inspect.signature(getattr(method(name), hook)).parameters) == list(declared)[1:]


@pytest.mark.parametrize(
    "text, message",
    [
        ("def need(cfg):\n    return {}", "odd_module.need: is no hook; did you mean needs"),
        ("def need_bias(cfg):\n    return True", "odd_module.need_bias: is no hook; did you mean needs_bias"),
        ("heads = 3", "heads is not a function"),
    ],
)
def test_a_misspelt_hook_is_refused(text, message, monkeypatch):
    module = ModuleType("odd_module")
    exec(f"class Config: pass\n{text}\n", module.__dict__)
    monkeypatch.setattr(plugins, "load_plugin", lambda package, name: module)
    with pytest.raises(UserError, match=message):
        load_method("odd")
