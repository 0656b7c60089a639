"""Parameters of the scenes world (section `scenes` of params.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, field

from compclip.errors import UserError


@dataclass(frozen=True)
class Phase:
    """One cosine of pretraining: names come first, crowds later."""

    steps: int = 2400
    lr: float = 1.5e-3
    early: list[float] = field(default_factory=lambda: [0.6, 0.2, 0.12, 0.08])  # shares of 1 to 4 symbols, first half
    late: list[float] = field(default_factory=lambda: [0.4, 0.25, 0.2, 0.15])
    paired: float = 0.02  # share of alt-texts that name a symbol with its colour


def _phases() -> list[Phase]:
    crowds, names = [0.3, 0.3, 0.25, 0.15], [0.5, 0.25, 0.15, 0.1]
    return [Phase(), Phase(steps=700, lr=7e-4, early=crowds, late=crowds, paired=0.0),
            Phase(steps=700, lr=7e-4, early=names, late=crowds, paired=0.0)]


@dataclass(frozen=True)
class Pretrain:
    """How the world's own pretrained model is trained; AdamW starts anew in each phase."""

    phases: list[Phase] = field(default_factory=_phases)
    batch_size: int = 256
    warmup_steps: int = 100
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    grad_clip_norm: float = 1.0
    threads: int = 2


@dataclass(frozen=True)
class World:
    """Sizes and seed of the world; a scene depends on (seed, split, index) alone."""

    seed: int = 0
    train: int = 6000  # pictures for fine-tuning
    retrieval: int = 500  # test pictures with several captions
    records: int = 300  # records of each benchmark subset
    per_class: int = 20  # pictures of each class in zero-shot classification
    processes: int = 2
    pretrain: Pretrain = field(default_factory=Pretrain)

    def __post_init__(self) -> None:
        for name in ("train", "retrieval", "records", "per_class", "processes"):
            if getattr(self, name) < 1:
                raise UserError(f"scenes.{name}={getattr(self, name)}: must be at least 1; set it in params.yaml")
