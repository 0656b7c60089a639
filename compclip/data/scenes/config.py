"""Parameters of the scenes world (section `scenes` of params.yaml)."""

from __future__ import annotations

from dataclasses import dataclass, field

from compclip.errors import UserError


@dataclass(frozen=True)
class Pretrain:
    """How the world's own pretrained model is trained: one cosine over freshly drawn scenes."""

    steps: int = 500
    lr: float = 1.5e-3
    things: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.15, 0.1])  # shares of 1 to 4
    paired: float = 0.35  # share of alt-texts that name one symbol with its colour
    batch_size: int = 256
    warmup_steps: int = 30
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    grad_clip_norm: float = 1.0
    threads: int = 1


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
