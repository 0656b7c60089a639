"""IL-CLIP: iterated learning with a shared codebook (Zheng et al., CVPR 2024, arXiv:2404.02145), Sec. 3.

Pictures and texts are sums of shared codes, with the loss and the departures of `codebook_clip`. Training goes in
generations. First the language agent (the text tower, and the network that queries the codes) is reset. Then the codes
are frozen for a while, so that the new agent learns the existing language. Then everything is trained until the next
reset. As released, a new agent's linear maps are drawn and its norms reset, embeddings and the input projections of
attention are kept, the learning rate rises again after the reset, and the optimiser's moments are kept. The release
(hellomuffin/iterated-learning-for-vlm, a46a2c5) stops before its first new agent: it restores codes that it never
stored, and resets the tower without the seed that this needs. What it intends is implemented here.

Departures: frozen codes keep their moments (released: these continue); the rate rises only after a new agent (released:
after all multiples of the cycle).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.interface.views import PLAIN, Phase, Views, Widths
from compclip.methods import _check, _codebook

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True
AGENT = ("text", "heads.text_query")
STARTS = {"drawn": "drawn", "pretrained": "first"}


@dataclass(frozen=True)
class Config(_codebook.CodebookConfig):
    agents: int = part(10, off=0)  # number of new agents; train_solver.py:545 has those of the steps 12,000 to 66,000
    first_agent_step: int = 12000  # reset_steps: 6000, twice
    cycle_steps: int = 6000  # reset_steps
    still_steps: int = part(1500, off=0)  # smooth_steps, in which the codes are frozen
    rising_steps: int = 500  # warmup_steps, in which the learning rate rises again
    rising_from: ClassVar[float] = 0.1  # share of the rate at the reset: base_lr over warmup_lr
    agent: str = "drawn"  # newly drawn, as released; "pretrained": the weights at the start of the run

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.at_least(self, 0, "agents", "first_agent_step", "still_steps", "rising_steps")
        _check.at_least(self, 1, "cycle_steps")
        _check.one_of(self, agent=STARTS)


def phase(cfg: Config, step: int) -> Phase:
    """Return the phase: a reset of the agent, then frozen codes and a rising learning rate, then plain training."""
    generation = min((step - cfg.first_agent_step) // cfg.cycle_steps, cfg.agents - 1)
    if generation < 0:
        return PLAIN
    age = step - cfg.first_agent_step - generation * cfg.cycle_steps
    rising = cfg.rising_from + (1 - cfg.rising_from) * age / max(1, cfg.rising_steps - 1)
    return Phase(
        restarted=AGENT if age == 0 else (),
        start=STARTS[cfg.agent],
        frozen=("heads.code",) if age < cfg.still_steps else (),
        rate=rising if age < cfg.rising_steps else 1.0,
    )


def views(cfg: Config, step: int) -> Views:
    """Ask for the caption, its tokens and the picture's patches."""
    return Views(tokens=True, caption=cfg.caption)


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the codebook with the networks that query it."""
    return _codebook.create_codebook(widths.joint, cfg)


def keeps_heads(cfg: Config) -> bool:
    """Return True: the finished model compares sums of codes."""
    return True


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return CLIP's contrast of the sums of codes, a scalar."""
    return {"clip": _codebook.contrast(f)}
