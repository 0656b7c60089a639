"""Llip: pictures as texts see them, by mixing class tokens (Lavoie et al., ICML 2024, arXiv:2405.00740), Sec. 3.

B images and texts, K class tokens, D dim. The image tower has K class tokens ("mixture tokens"). A text mixes them by
attention, and is compared with the mixture in a sigmoid loss. The head (`model.heads`) stays in the finished model and
is used to score it. Compared with the code of facebookresearch/Llip at d5649c3.

Departures: a pretrained tower has one class token; the others begin as copies with a little noise, and the value map of
each token begins as the tower's projection (released: everything from scratch). The query is a map of the text's unit
vector (released: of the end token before the text's projection), and the query of a class is that of its mean text
(released: the mean query of its texts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.lazy_torch import torch
from compclip.interface.views import Views, Widths
from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features
    from compclip.model.clip_model import ClipModel

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    tokens: int = 32  # K; model_configs/ViT-B-16-quickgelu-siglip-ncls:32.json, 64 for other towers
    heads: ClassVar[int] = 8  # of the attention; num_heads there
    temperature: ClassVar[int] = 5  # of the attention; run_configs/llip.py: weight_scale
    init_bias: ClassVar[float] = -10.0  # init_logit_bias

    def __post_init__(self) -> None:
        _check.at_least(self, 2, "tokens")


def needs_bias(cfg: Config) -> bool:
    """Return True: the loss is a sigmoid loss."""
    return True


def adapt(cfg: Config, model: ClipModel, seed: int) -> None:
    """Add class tokens to the image tower."""
    from compclip.model import class_tokens

    class_tokens.extend_tower(model, cfg.tokens, seed)


def views(cfg: Config, step: int) -> Views:
    """Ask for the caption, and for class tokens, which replace patches."""
    return Views(tokens=True, caption=cfg.caption)


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the attention that mixes tokens. Raises UserError if the number of heads does not divide the width."""
    from compclip.model.heads import TokenMixture

    fault = f"heads={cfg.heads}: must divide the {widths.joint} numbers of the backbone's vectors"
    _check.refuse(widths.joint % cfg.heads, fault)
    return TokenMixture(widths.joint, cfg.tokens, widths.image_token, cfg.heads, cfg.temperature)


def keeps_heads(cfg: Config) -> bool:
    """Return True: the finished model compares each text with its mixture of class tokens."""
    return True


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return -1/B ΣΣ log σ(±(s z_ij·t_j + b)), z_ij text j's mixture of picture i, + for its own text; a scalar."""
    logit_BB = f.scale * losses.cosines(f.heads.mix(f.patch_BND, f.text_BD), f.text_BD) + f.bias
    own_BB = torch.eye(len(logit_BB), dtype=torch.bool, device=logit_BB.device)
    return {"sigmoid": losses.sigmoid_pairs(logit_BB, own_BB).sum() / len(logit_BB)}
