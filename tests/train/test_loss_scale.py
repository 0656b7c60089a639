"""The factor of a float16 run's loss: beside torch's own scaler, step by step, and in every gradient."""

import contextlib
import functools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.interface.views import Step
from compclip.train import accumulate, extras, fine_tuning, optimiser
from compclip.train.extras import Extras, LossScale
from tests import distributed_check

CPU = torch.device("cpu")
INF = math.inf


class Scalars(nn.Module):
    """Three numbers with a logit scale beside them, as a model that is stepped."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[0.5, -1.0, 2.0]]))
        self.logit_scale = nn.Parameter(torch.tensor(1.0))


def slope_loss(model: Scalars, slopes: list[float]) -> torch.Tensor:
    """A loss with these slopes: the last one is the logit scale's."""
    return (model.weight * torch.tensor(slopes[:3])).sum() + model.logit_scale * slopes[3]


SLOPES = [
    [0.1, 0.2, -0.3, 0.1], [INF, 0.0, 0.0, 0.0], [3.0, -4.0, 0.0, 0.5], [0.0, 1e-7, 0.0, 0.0], [0.0, 0.0, 0.0, math.nan],
    [1.0, 1.0, 1.0, 1.0], [0.1, 0.0, 0.0, 0.0], [0.2, 0.0, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0], [3e38, 0.0, 0.0, 0.0],
    [-0.3, 0.5, 0.0, 0.0],
]  # fmt: skip


def test_factor_and_weights_are_those_of_torch_s_scaler(monkeypatch):
    """Eleven steps, three of which overflow, with a growth after three in turn; clipped gradients; all bits."""
    monkeypatch.setattr(extras, "GROWTH_INTERVAL", 3)
    cfg = Train(lr=0.1, grad_clip_norm=1.0, max_logit_scale=None)
    ours, theirs, scale_extras = Scalars(), Scalars(), Extras(loss_scale=LossScale(CPU))
    adamw, their_adamw = optimiser.adamw(ours, cfg), optimiser.adamw(theirs, cfg)
    scaler, skipped, factors = torch.amp.GradScaler("cpu", growth_interval=3), 0, []
    for slopes in SLOPES:
        adamw.zero_grad()
        scale_extras.scale_loss(slope_loss(ours, slopes)).backward()
        norm = fine_tuning.update(SimpleNamespace(clip=ours), adamw, cfg.lr, cfg, scale_extras)
        their_adamw.zero_grad()
        scaler.scale(slope_loss(theirs, slopes)).backward()
        scaler.unscale_(their_adamw)
        nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        scaler.step(their_adamw)
        before = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < before
        factors.append(scaler.get_scale())
        assert norm.isinf().item() == (scaler.get_scale() < before)
        assert scale_extras.loss_scale.factor.item() == scaler.get_scale()
        assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.logit_scale, theirs.logit_scale)
    assert scale_extras.loss_scale.skipped_steps.item() == skipped == 3
    assert factors == [2.0**n for n in (16, 15, 15, 15, 14, 14, 14, 15, 15, 14, 14)]
    assert adamw.state[ours.weight]["step"].item() == 8  # a step that is left out is not counted


def test_the_factor_stays_a_float32_and_a_loss_that_is_no_number_skips_its_step():
    """Also where its slopes would be finite: an infinite number is added."""
    model, scale_extras = Scalars(), Extras(loss_scale=LossScale(CPU))
    scale_extras.scale_loss(slope_loss(model, [1.0] * 4) + INF).backward()
    assert model.weight.grad.isnan().all()
    scale = LossScale(CPU)
    scale.factor.fill_(extras.LARGEST)
    scale.steps_in_turn.fill_(extras.GROWTH_INTERVAL - 1)
    adamw = optimiser.adamw(Scalars(), Train())
    assert scale.skip_overflow(adamw, torch.tensor(2.0)).item() == 2.0
    assert (scale.factor.item(), scale.steps_in_turn.item()) == (extras.LARGEST, 0)


@pytest.mark.parametrize("micro", [0, 4])
def test_every_gradient_has_the_factor(micro):
    """Of a loss with a head beside the model, encoded at once and in parts: times 2^16, to the bit."""
    method, gradients = load_method("codebook_clip"), []
    cfg = method.Config()
    views, batch = method.views(cfg, 0), distributed_check.batch(method.views(cfg, 0))
    for scale in (None, LossScale(CPU)):
        clip = distributed_check.model(bias=False)
        method_extras = replace(distributed_check.kept_beside(method, cfg, clip), loss_scale=scale)
        computer = accumulate.GradientComputer(clip, frozenset(), contextlib.nullcontext, micro, method_extras)
        computer.compute_gradients(batch, views, functools.partial(method.loss, cfg=cfg, step=Step(0, 1)))
        named = [*clip.named_parameters(), *method_extras.parameters()]
        gradients.append({name: p.grad for name, p in named if p.grad is not None})
    plain, scaled = gradients
    assert plain.keys() == scaled.keys() and any(name.startswith("heads.") for name in plain)
    for name, gradient in plain.items():
        torch.testing.assert_close(scaled[name], gradient * 65536, rtol=0, atol=0, msg=name)
