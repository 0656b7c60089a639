"""Weights between two models of one architecture: theta(alpha) = (1 - alpha) theta_pretrained + alpha theta_tuned.

WiSE-FT (Wortsman et al., 2022) looks at the whole line, CLoVe keeps one place of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from compclip.base.errors import UserError

ADDED = {"logit_bias"}  # what a run may have that its backbone lacks


def interpolate(pretrained: Mapping[str, Tensor], tuned: Mapping[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """Return the weights at `alpha`: exactly the ends at 0 and 1, and exactly the same where nothing moved.

    Integer buffers and an added bias are the tuned model's. Raises UserError for another architecture.
    """
    differ = (set(pretrained) ^ set(tuned)) - (ADDED - set(pretrained))
    differ |= {k for k in set(pretrained) & set(tuned) if pretrained[k].shape != tuned[k].shape}
    if differ:
        raise UserError(
            f"wise_ft: two architectures: {len(differ)} tensors differ, as {min(differ)!r}; give the "
            "checkpoint that the tuned one was trained from"
        )
    moving = [k for k, v in tuned.items() if k in pretrained and v.is_floating_point()]
    return {**tuned, **{k: torch.lerp(pretrained[k], tuned[k], alpha) for k in moving}}
