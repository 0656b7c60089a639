"""Codebook-CLIP: pictures and texts as sparse sums of shared codes (Zheng et al., CVPR 2024, arXiv:2404.02145, Sec. 3).

The baseline of IL-CLIP, after the finite discrete tokens of Chen et al. (CVPR 2023, arXiv:2303.14865). B images, K
negatives, N patches, L positions of a text, C codes, D dim. Each patch and each token is a query to all codes. The
weight of a code is the sparsemax of its largest response over a picture or text. The weighted sum of codes replaces the
vector, also in the finished model (`model.heads`).

Departures: patches and tokens are those of the joint space (released: before the projections, and patches also before
the last norm); neither the start token nor padding queries codes (released: the start token does, and padding with 0);
the map of patches is trained (released: it keeps its random initial weights); a pretrained backbone with a new codebook
(released: from scratch). `il_clip` resets the text tower several times. Its authors trained on CC3M, with IL-CLIP's
program (hellomuffin/iterated-learning-for-vlm, a46a2c5: 4,096 codes, the defaults here) or FDT's (yuxiaochen1103/FDT,
ccf6983: 16,384): experiments/grids/codebook_clip_released.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.interface.views import Views, Widths
from compclip.methods import _codebook

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_codebook.CodebookConfig):
    """Parameters: those of the codebook."""


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
