"""What a method keeps beside the model while it trains: heads, a teacher, numbers from the step before.

A method file asks for each by a function of its own, and a method that has none of them pays nothing:

    heads(cfg, widths) -> nn.Module               trained with the towers, seen by the loss as `f.heads`
    teacher(cfg) -> Teacher                       a second copy of the towers, whose view of the batch is `f.teacher`
    memory(cfg) -> dict[str, Tensor]              what the first step starts from; the loss sees it as `f.memory`
    remember(f, cfg) -> dict[str, Tensor]         the same for the next step, of this step's features, without slopes

All of it is in every checkpoint, so that a resumed run goes on to the same bits, and nothing of it in the finished run,
which is a plain open_clip model. Under DDP every process has the whole batch's features: the slope of a head is whole
on each, and they are averaged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from compclip.train import distributed
from compclip.train.batch import Widths

if TYPE_CHECKING:
    from compclip.model.backbone import Model
    from compclip.train.features import Features


@dataclass(frozen=True)
class Extras:
    """The parts that a method asked for."""

    heads: nn.Module | None = None
    teacher: nn.Module | None = None
    decay: float = 1.0
    memory: dict[str, Tensor] = field(default_factory=dict)
    remember: Callable[[Features], dict[str, Tensor]] | None = None

    @property
    def moves(self) -> bool:
        """Whether there is a teacher that follows the model, and so is part of a checkpoint."""
        return self.teacher is not None and self.decay < 1

    def parameters(self) -> list[tuple[str, nn.Parameter]]:
        """What is trained beside the model, by name in a checkpoint."""
        return [(f"heads.{name}", p) for name, p in self.heads.named_parameters()] if self.heads else []

    def state(self) -> dict[str, Tensor]:
        """All that a resumed run needs, by name; the tensors themselves."""
        found = {f"heads.{name}": value for name, value in self.heads.state_dict().items()} if self.heads else {}
        if self.moves:
            found |= {f"teacher.{name}": value for name, value in self.teacher.state_dict().items()}
        return found | {f"memory.{name}": value for name, value in self.memory.items()}

    def shown(self, f: Features, teacher: Features | None) -> Features:
        """The features as the loss sees them."""
        return replace(f, heads=self.heads, teacher=teacher, memory={k: v.clone() for k, v in self.memory.items()})

    def after_loss(self, f: Features) -> None:
        """Remember what the next step is to know of this one."""
        if self.remember:
            with torch.no_grad():
                for name, value in self.remember(f).items():
                    self.memory[name].copy_(value)

    def average_gradients(self) -> None:
        """Of heads, which every process has whole: their mean is that of one process."""
        if self.heads:
            distributed.mean_gradients(self.heads)

    def after_step(self, clip: nn.Module) -> None:
        """Let a moving teacher follow the model."""
        if self.moves:
            with torch.no_grad():
                for own, new in _pairs(self.teacher, clip):
                    own.lerp_(new, 1 - self.decay) if own.is_floating_point() else own.copy_(new)


NONE = Extras()


def of(method: Any, cfg: Any, model: Model, seed: int) -> Extras:
    """The parts that a method's file asks for, on the model's device; heads start from the run's seed."""
    device = model.clip.logit_scale.device
    asked = {name: getattr(method, name, None) for name in ("heads", "teacher", "memory", "remember")}
    heads = _seeded(lambda: asked["heads"](cfg, widths(model)), seed) if asked["heads"] else None
    wanted = asked["teacher"](cfg) if asked["teacher"] else None
    start = asked["memory"](cfg) if asked["memory"] else {}
    remember = asked["remember"]
    return Extras(
        heads=heads and heads.to(device).train(),
        teacher=_copied(model.clip) if wanted else None,
        decay=wanted.decay if wanted else 1.0,
        memory={name: value.to(device) for name, value in start.items()},
        remember=(lambda f: remember(f, cfg)) if remember else None,
    )


def widths(model: Model) -> Widths:
    """What a model's heads are built for."""
    text = model.model_cfg["text_cfg"]
    return Widths(model.model_cfg["embed_dim"], text.get("context_length", 77), text.get("vocab_size", 49408))


def _seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def _copied(clip: nn.Module) -> nn.Module:
    teacher = copy.deepcopy(clip).eval()
    return teacher.requires_grad_(False)


def _pairs(teacher: nn.Module, clip: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    new = clip.state_dict()
    for name, own in teacher.state_dict().items():
        yield own, new[name]
