"""The factor of a float16 run's loss that keeps small gradients from vanishing, moved as torch.amp.GradScaler moves it.

Its numbers stay on the run's device and are part of a checkpoint. torch's own scaler would wait for the device in each
checkpoint, and does not count the steps that it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

START, GROWTH, BACKOFF, GROWTH_INTERVAL = 65536.0, 2.0, 0.5, 2000  # torch.amp.GradScaler's, which the releases keep
LARGEST = 2.0**127  # twice that is no float32


class LossScale:
    """Twice as large after GROWTH_INTERVAL steps in turn, half after a step whose gradients overflow: it is skipped."""

    def __init__(self, device: torch.device) -> None:
        self.factor = torch.full((), START, device=device)
        self.steps_in_turn = torch.zeros((), dtype=torch.int64, device=device)  # since it moved
        self.skipped_steps = torch.zeros((), dtype=torch.int64, device=device)

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs, by name; not copies."""
        return {"factor": self.factor, "steps_in_turn": self.steps_in_turn, "skipped_steps": self.skipped_steps}

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
