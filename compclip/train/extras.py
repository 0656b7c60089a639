"""What is kept beside the model while it trains: heads, a teacher, numbers from the step before, a loss scale.

A method asks for each by a hook (`compclip.interface.method`); one that asks for none pays nothing. All of it is in
every checkpoint, so that a resumed run ends with the same bits. None of it is in the finished run, which is a plain
open_clip model, but heads that the method keeps (`model.heads`). Under DDP every process has the whole batch's
features: the slope of a head is whole on each process, and slopes are averaged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from compclip.interface.views import Widths
from compclip.model import towers
from compclip.train import distributed

if TYPE_CHECKING:
    from compclip.interface.features import Features
    from compclip.interface.method import Method
    from compclip.model.clip_model import ClipModel, ClipModule


@dataclass(frozen=True)
class Extras:
    """The parts that a method asked for, and the loss scale of a run in float16."""

    heads: nn.Module | None = None
    teacher: ClipModule | None = None
    decay: float = 1.0
    memory: dict[str, Tensor] = field(default_factory=dict)
    remember: Callable[[Features], dict[str, Tensor]] | None = None
    loss_scale: LossScale | None = None

    @property
    def moving_teacher(self) -> nn.Module | None:
        """The teacher, if it follows the model and so is part of a checkpoint."""
        return self.teacher if self.decay < 1 else None

    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters that are trained beside the model, by name in a checkpoint."""
        return list(self.heads.named_parameters(prefix="heads")) if self.heads else []

    def state(self, prefix: str = "") -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs, by name behind a prefix; not copies."""
        tensors: dict[str, Tensor] = {}
        if self.heads:
            tensors |= self.heads.state_dict(prefix=f"{prefix}heads.")
        if self.moving_teacher is not None:
            tensors |= self.moving_teacher.state_dict(prefix=f"{prefix}teacher.")
        if self.loss_scale:
            for name, value in vars(self.loss_scale).items():
                tensors[f"{prefix}loss_scale.{name}"] = value
        for name, value in self.memory.items():
            tensors[f"{prefix}memory.{name}"] = value
        return tensors

    def extend_features(self, f: Features, teacher: Features | None) -> Features:
        """Return the features as the loss gets them: with heads, teacher's features and memory."""
        return replace(f, heads=self.heads, teacher=teacher, memory={k: v.clone() for k, v in self.memory.items()})

    def after_loss(self, f: Features) -> None:
        """Remember what the next step is to know of this one."""
        if self.remember:
            with torch.no_grad():
                for name, value in self.remember(f).items():
                    self.memory[name].copy_(value)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """Return the loss whose gradients are computed."""
        return self.loss_scale.multiply(loss) if self.loss_scale else loss

    def average_gradients(self) -> None:
        """Average the heads' gradients: every process computes them for the whole batch."""
        if self.heads:
            distributed.average_gradients(self.heads)

    def after_step(self, clip: nn.Module) -> None:
        """Let a moving teacher follow the model."""
        if self.moving_teacher is not None:
            weights = clip.state_dict()
            with torch.no_grad():
                for name, weight in self.moving_teacher.state_dict().items():
                    new = weights[name]
                    weight.lerp_(new, 1 - self.decay) if weight.is_floating_point() else weight.copy_(new)


NONE = Extras()


def create_extras(method: Method, cfg: Any, model: ClipModel, seed: int, scales_loss: bool = False) -> Extras:
    """Return what a method asks for, on the model's device; heads start from the run's seed."""
    device = model.clip.logit_scale.device
    with torch.random.fork_rng(devices=[]):  # heads are made on the CPU
        torch.manual_seed(seed)
        heads = method.heads(cfg, widths(model))
    if heads is not None and hasattr(heads, "start_from"):
        heads.start_from(model.clip)  # type: ignore[operator]
    teacher = method.teacher(cfg)
    memory = {name: value.to(device) for name, value in method.memory(cfg).items()}
    return Extras(
        heads=heads and heads.to(device).train(),
        teacher=copy.deepcopy(model.clip).eval().requires_grad_(False) if teacher else None,
        decay=teacher.decay if teacher else 1.0,
        memory=memory,
        remember=(lambda f: method.remember(f, cfg)) if memory else None,
        loss_scale=LossScale(device) if scales_loss else None,
    )


def widths(model: ClipModel) -> Widths:
    """Return the sizes that a model's heads are built for."""
    text = model.model_cfg["text_cfg"]
    text_tower: Any = getattr(model.clip, "text", model.clip)
    class_embedding = getattr(model.clip.visual, "class_embedding", None)
    projection_WD = towers.find_text_matrix(model.clip)
    return Widths(
        model.model_cfg["embed_dim"],
        text.get("context_length", 77),
        text_tower.vocab_size,  # transformers' towers bring theirs
        0 if class_embedding is None else class_embedding.shape[-1],
        model.model_cfg["embed_dim"] if projection_WD is None else len(projection_WD),
    )


def prepare_model(method: Method, cfg: Any, model: ClipModel, seed: int) -> None:
    """Give a backbone what its method needs of it, in place: the bias of a sigmoid loss, and what `adapt` does."""
    if method.needs_bias(cfg):
        model.add_bias(cfg.init_bias)
    method.adapt(cfg, model, seed)


# The factor of a float16 run's loss that keeps small gradients from vanishing, moved as torch.amp.GradScaler moves it.
#
# Its numbers stay on the run's device and are part of a checkpoint. torch's own scaler would wait for the device in
# each checkpoint, and does not count the steps that it leaves out.

# torch.amp.GradScaler's, which the releases keep
START = 65536.0
GROWTH = 2.0
BACKOFF = 0.5
GROWTH_INTERVAL = 2000
LARGEST = 2.0**127  # twice that is no float32


class LossScale:
    """Twice as large after GROWTH_INTERVAL steps in turn, half after a step whose gradients overflow: it is skipped.

    Its attributes are the tensors that a resumed run needs.
    """

    def __init__(self, device: torch.device) -> None:
        self.factor = torch.full((), START, device=device)
        self.steps_in_turn = torch.zeros((), dtype=torch.int64, device=device)  # since it moved
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=device)

    def multiply(self, loss: Tensor) -> Tensor:
        """Return the loss times the factor; where it is not finite its slope is NaN, so that its step is skipped."""
        return loss * torch.where(loss.detach().isfinite(), self.factor, torch.nan)

    def divide_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divide gradients of the multiplied loss by the factor, in place."""
        inverse = self.factor.double().reciprocal().float()
        torch._foreach_mul_([p.grad for p in parameters if p.grad is not None], inverse)

    def skip_overflow(self, adamw: torch.optim.Adam, norm: Tensor) -> Tensor:
        """Let the fused optimiser leave out its next step where the gradients' norm is not finite, and move the factor.

        Return the norm, infinite where it was NaN.
        """
        skips = ~norm.isfinite()
        adamw.found_inf = skips.float()  # type: ignore[attr-defined]
        steps_in_turn = torch.where(skips, 0, self.steps_in_turn + 1)
        grows = steps_in_turn == GROWTH_INTERVAL
        grown = torch.where(grows, (self.factor * GROWTH).clamp_max(LARGEST), self.factor)
        self.factor.copy_(torch.where(skips, self.factor * BACKOFF, grown))
        self.steps_in_turn.copy_(torch.where(grows, 0, steps_in_turn))
        self.skipped_steps.add_(skips)
        return torch.where(skips, torch.inf, norm)
