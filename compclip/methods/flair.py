"""FLAIR: fine-grained language-informed image representations (Xiao et al., CVPR 2025, arXiv:2412.03561), Sec. 3.

B images, K texts of each, N patches, D dim. A text pools the patches of a picture by attention (`model.heads`), and is
compared with the result. The head stays in the finished model and is used to score it. Each picture has K texts, which
are parts of its captions; it is compared with all of its own, and with one of each other picture. The authors trained
from scratch, on 3 to 27 million pictures with short and long captions by three models.

Departures: the first of the K texts is the caption (`draw: released`: all are drawn); which text of another picture is
used changes in turn with the step (released: it is drawn), and over the whole batch (released: a picture meets K + B -
1 texts of each GPU); a pretrained backbone with a new head (released, and in experiments/grids/flair_released.yaml:
from scratch).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import torch
from compclip.interface.views import Views, Widths
from compclip.methods import _check
from compclip.text import sub_captions
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features

TRAINS = True


@dataclass(frozen=True)
class Config(_check.CaptionConfig):
    lambda_conditioned: float = part(0.5, off=0.0)  # text-conditioned, Eq. 4; src/flair/loss.py: mean of both
    lambda_global: float = part(0.5, off=0.0)  # multi-positive sigmoid loss, Eq. 6
    texts: int = 8  # K, Sec. 3.1
    draw: str = "beside_caption"  # K - 1 parts besides the caption; "released": all K, as src/flair/data.py
    heads: ClassVar[int] = 8  # attention heads; src/flair/transformer.py
    init_bias: ClassVar[float] = -10.0  # model_configs/ViT-B-16-FLAIR.json

    def __post_init__(self) -> None:
        _check.at_least(self, 0, "lambda_conditioned", "lambda_global")
        _check.at_least(self, 1, "texts")
        is_off = self.lambda_conditioned + self.lambda_global == 0
        _check.refuse(is_off, "lambda_conditioned=0, lambda_global=0: nothing is trained; give one a weight")
        _check.one_of(self, draw=("beside_caption", "released"))


def needs_bias(cfg: Config) -> bool:
    """Return True: both terms are sigmoid losses."""
    return True


def views(cfg: Config, step: int) -> Views:
    """Ask for the caption and K - 1 parts of captions, or for K parts, and for the patches."""
    is_released = cfg.draw == "released"
    rules = (sub_captions.draw_released,) * cfg.texts if is_released else (sub_captions.draw,) * (cfg.texts - 1)
    return Views(positives=rules, tokens=cfg.lambda_conditioned > 0, caption=cfg.caption)


def heads(cfg: Config, widths: Widths) -> nn.Module | None:
    """Return the attention that pools patches. Raises UserError if the number of heads does not divide the width."""
    from compclip.model.heads import TextPooling

    if not cfg.lambda_conditioned:
        return None
    fault = f"heads={cfg.heads}: must divide the {widths.joint} numbers of the backbone's vectors"
    _check.refuse(widths.joint % cfg.heads, fault)
    return TextPooling(widths.joint, cfg.heads)


def keeps_heads(cfg: Config) -> bool:
    """Return whether text-conditioned pooling was trained; the finished model then uses it."""
    return cfg.lambda_conditioned > 0


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the two terms of Eq. 7 as weighted scalars, without those of weight 0."""
    text_BKD, there_BK = texts_of(f, cfg)
    terms = {}
    if cfg.lambda_conditioned:
        terms["conditioned"] = cfg.lambda_conditioned * conditioned(f, text_BKD, there_BK, step)
    if cfg.lambda_global:
        terms["global"] = cfg.lambda_global * multi_positive(f, text_BKD, there_BK)
    return terms


def texts_of(f: Features, cfg: Config) -> tuple[Tensor, Tensor]:
    """Return the K texts of each picture, and the mask of those that exist."""
    if cfg.draw == "released":
        return f.positive_BPD, f.positive_mask_BP
    return torch.cat([f.text_BD[:, None], f.positive_BPD], dim=1), losses.with_original(f.positive_mask_BP)


def conditioned(f: Features, text_BKD: Tensor, there_BK: Tensor, step: int) -> Tensor:
    """Return Eq. 4: each picture, pooled by each text it meets, against this text; mean over a picture's texts."""
    B, K, _ = text_BKD.shape
    image_B = torch.arange(B, device=text_BKD.device)
    choice_BB = (image_B[:, None] + image_B + step) % K
    choice_BB = choice_BB.where(there_BK[image_B, choice_BB], 0)  # use the first text for one that is missing
    met_BTD = torch.cat([text_BKD, text_BKD[image_B, choice_BB]], dim=1)  # T = K + B
    own_BT = torch.arange(K + B, device=image_B.device).expand(B, -1) < K
    counts_BT = torch.cat([there_BK, ~torch.eye(B, dtype=torch.bool, device=image_B.device)], dim=1)
    cosine_BT = losses.cosines(f.heads.pool(f.patch_BND, met_BTD), met_BTD)
    pair_BT = losses.sigmoid_pairs(f.scale * cosine_BT + f.bias, own_BT).masked_fill(~counts_BT, 0.0)
    return (pair_BT.sum(dim=1) / counts_BT.sum(dim=1)).sum()


def multi_positive(f: Features, text_BKD: Tensor, there_BK: Tensor) -> Tensor:
    """Return Eq. 6: whole pictures against all texts of the batch; each of a picture's own texts is right."""
    B, K, _ = text_BKD.shape
    logit_BN = losses.similarities(f.image_BD, text_BKD.flatten(0, 1), f.scale) + f.bias
    own_BN = torch.eye(B, dtype=torch.bool, device=logit_BN.device).repeat_interleave(K, dim=1)
    return losses.sigmoid_pairs(logit_BN, own_BN).masked_fill(~there_BK.flatten(), 0.0).sum() / there_BK.sum()
