"""FG-CLIP: fine-grained visual and textual alignment (Xie et al., ICML 2025, arXiv:2505.05071), stage two; FG-CLIP 2.

B images, R regions of each, M = BR of all, K false texts of a region, D dim. A picture has a long and a short caption.
Regions are pooled from its patches. Each is contrasted with the batch's regions through a caption, and its first
caption with false texts of its own. FG-CLIP 2 (arXiv:2510.10921) has other weights (`fg_clip.two` of
experiments/grids/field.yaml): sigmoid losses, false texts ranked below the caption by a margin that follows the
batches, and a contrast of regions' captions with similar captions.

Long captions have their own projection. It begins as a copy of the text tower's projection, which it replaces for them,
and stays in the finished model: benchmarks of long captions use it (`model.heads.LongTexts`). Programs:
360CVGroup/FG-CLIP, branches v1.0 and main.

Departures: without a stored short caption, the first sentence of the long one is used (`short: sentence`); long texts
keep the backbone's positions; regions are drawn anew in each epoch (released: the first ones); regions are contrasted
over the whole batch (released: within each process); regions with fewer than K false texts are kept.

FG-CLIP 2's patches are those of FG-CLIP here (released: made by an attention pool). Its map of regions' texts follows
the text projection (released: replaces it); so does that of long captions if the text tower is not of CLIP's kind. Its
terms of regions are trained (released: an attribute that is set nowhere silently disables them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compclip.base.ablation_parts import part
from compclip.base.lazy_torch import F, torch
from compclip.interface.views import Regions, Views, Widths
from compclip.methods import _check
from compclip.text import sentences, stored_texts
from compclip.text.rule_columns import reads_columns
from compclip.train import losses

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from compclip.interface.features import Features
    from compclip.model.clip_model import ClipModel
    from compclip.text.annotation import Annotation

TRAINS = True
PHOTO = "a photo of "  # train_fgclip.py:203
LARGEST_MARGIN = 10.0  # FG-CLIP 2: model/strcs/fgclip2.py:529


@reads_columns("stored_paraphrase", requires="texts.paraphrase")
def photo_of_paraphrase(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Return a stored short caption after "a photo of "; None if there is none."""
    text = stored_texts.paraphrase(annotation, rng)
    return None if text is None else PHOTO + text


SHORT = {
    "sentence": sentences.first_of_several,
    "stored": stored_texts.paraphrase,
    "photo": photo_of_paraphrase,
}


@dataclass(frozen=True)
class Config:
    short: str = "sentence"  # the long one's first; "stored": data.<name>.texts.paraphrase; "photo": after PHOTO
    contrast: str = "softmax"  # of pictures and captions; "sigmoid": FG-CLIP 2
    lambda_long: float = part(1.0, off=0.0)  # fgclip.py:374
    lambda_regions: float = part(0.1, off=0.0)  # fgclip.py:440; FG-CLIP 2: 0.2
    lambda_choice: float = part(
        0.5, off=0.0
    )  # first caption against false texts of a region; fgclip.py:456; FG-CLIP 2: 1.5
    lambda_hard: float = part(0.0, off=0.0)  # contrast with all first captions and false texts; FG-CLIP 2: 0.5 * 0.6
    lambda_rank: float = part(0.0, off=0.0)  # false texts ranked below by a margin; FG-CLIP 2: 0.5 * 0.4
    lambda_texts: float = part(0.0, off=0.0)  # contrast among regions' captions; FG-CLIP 2: 0.1
    like: ClassVar[float] = 0.95  # captions with a larger cosine count as equal; fgclip2.py:572
    nearest: ClassVar[int] = 10  # similar captions that a caption is contrasted with; fgclip2.py:573
    map_regions: bool = False  # regions' texts have their own linear map, as long ones; FG-CLIP 2: true
    regions: int = 4  # train_fgclip.py:184
    region_negatives: int = 10  # K; fgclip.py:536
    init_scale: ClassVar[float] = 100.0  # for regions and false texts; train_fgclip.py:386: the backbone's own
    init_bias: ClassVar[float] = -10.0  # of the sigmoid
    squash: ClassVar[bool] = True  # train_fgclip.py:211

    def __post_init__(self) -> None:
        _check.one_of(self, contrast=("softmax", "sigmoid"), short=SHORT)
        _check.at_least(
            self, 0, "lambda_long", "lambda_regions", "lambda_choice", "lambda_hard", "lambda_rank", "lambda_texts"
        )
        _check.at_least(self, 1, "regions", "region_negatives", "init_scale")


def needs_bias(cfg: Config) -> bool:
    """Return whether the contrast is a sigmoid, which needs a bias."""
    return cfg.contrast == "sigmoid"


def adapt(cfg: Config, model: ClipModel, seed: int) -> None:
    """Prepare pictures for scoring as in training, like the release (fgclip/eval/coco_retrieval.py:44)."""
    from compclip.model import clip_model

    clip_model.squash_pictures(model)


def views(cfg: Config, step: int) -> Views:
    """Ask for the whole caption and a short one, and for regions with a caption and false texts."""
    needs_false_texts = cfg.lambda_choice or cfg.lambda_hard or cfg.lambda_rank
    regions = Regions(cfg.regions, negatives=cfg.region_negatives if needs_false_texts else 0)
    return Views(
        caption="full",
        positives=(SHORT[cfg.short],),
        raw_captions=bool(cfg.lambda_long),
        squash=cfg.squash,
        regions=regions if needs_false_texts or cfg.lambda_regions or cfg.lambda_texts else None,
    )


def heads(cfg: Config, widths: Widths) -> nn.Module:
    """Return the projection of long captions, the map of regions' texts, and the scales of regions and false texts."""
    from torch import nn

    from compclip.model.heads import LongTexts

    module = LongTexts(widths.joint, widths.raw_text, maps=2 if cfg.map_regions else 1)
    for scale in (module.log_scale_regions, module.log_scale_hard):
        nn.init.constant_(scale, math.log(cfg.init_scale))
    if not cfg.lambda_long:
        module.long = None
    return module


def keeps_heads(cfg: Config) -> bool:
    """Return whether the finished model has its own projection for long captions."""
    return cfg.lambda_long > 0


def memory(cfg: Config) -> dict[str, Tensor]:
    """Return the first margin of false texts, 0."""
    return {"margin": torch.zeros((), dtype=torch.float64)}


def remember(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return by how much first captions lead false texts in this batch; without false texts, the previous margin."""
    if not cfg.lambda_rank:
        return dict(f.memory)
    own_M, false_MK, there_MK = hard_logits(f, cfg)
    there_M = there_MK.any(dim=1)
    margin = losses.masked_mean(own_M, there_M) - losses.masked_mean(false_MK, there_MK)
    return {"margin": margin.clamp(0, LARGEST_MARGIN).to(f.memory["margin"]).where(there_M.any(), f.memory["margin"])}


def loss(f: Features, cfg: Config, step: int) -> dict[str, Tensor]:
    """Return the terms as weighted scalars, without those of weight 0."""
    short_BD = losses.first_valid(f.positive_BPD, f.positive_mask_BP, f.text_BD)
    terms = {"short": contrast(f, short_BD, cfg)}
    if cfg.lambda_long:
        terms["long"] = cfg.lambda_long * contrast(f, f.heads.map_long(f.named["raw_captions"].values), cfg)
    if cfg.lambda_regions:
        terms["regions"] = cfg.lambda_regions * contrast_regions(f, cfg)
    if cfg.lambda_choice or cfg.lambda_hard or cfg.lambda_rank:
        terms |= tell_false_texts(f, cfg)
    if cfg.lambda_texts:
        there_M = f.named["regions"].mask.flatten()
        terms["texts"] = cfg.lambda_texts * tell_texts(region_texts(f, cfg)[:, 0], there_M, cfg)
    return terms


def contrast(f: Features, text_BD: Tensor, cfg: Config) -> Tensor:
    """Return the contrast of the batch's pictures and captions, by softmax or sigmoid."""
    if cfg.contrast == "softmax":
        return losses.clip(f.image_BD, text_BD, f.scale)
    return losses.sigmoid(f.image_BD, text_BD, torch.arange(len(text_BD), device=text_BD.device), f.scale, f.bias)


def contrast_regions(f: Features, cfg: Config) -> Tensor:
    """Return CLIP's contrast of the batch's regions and their captions, with its own scale."""
    scale = f.heads.log_scale_regions.exp()
    there_M = f.named["regions"].mask.flatten()
    return losses.clip_of(region_vectors(f), region_texts(f, cfg)[:, 0], scale, there_M)


def map_texts(linear: nn.Linear, text_D: Tensor) -> Tensor:
    """Map unit vectors and normalise them again."""
    return F.normalize(linear(text_D.to(linear.weight.dtype)), dim=-1)


def region_vectors(f: Features) -> Tensor:
    """Return the unit vectors of all regions, [M, D]."""
    return f.named["regions"].values.flatten(0, 1)


def region_texts(f: Features, cfg: Config) -> Tensor:
    """Return the texts of all regions, [M, C, D]: a caption and, if asked for, the first one with false texts."""
    text_MCD = f.named["region_texts"].values.flatten(0, 1)
    return map_texts(f.heads.region, text_MCD) if cfg.map_regions else text_MCD


def hard_logits(f: Features, cfg: Config) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits of regions with their first captions [M] and false texts [M, K], and the latter's mask [M, K]."""
    text_MCD = region_texts(f, cfg)
    region_MD = region_vectors(f)
    logits_MC = losses.candidate_scores(region_MD, text_MCD[:, 1], text_MCD[:, 2:], f.heads.log_scale_hard.exp())
    there_MC = f.named["region_texts"].mask.flatten(0, 1)
    return logits_MC[:, 0], logits_MC[:, 1:], there_MC[:, 2:]


def tell_false_texts(f: Features, cfg: Config) -> dict[str, Tensor]:
    """Return the terms that contrast regions' first captions with their false texts, weighted."""
    text_MCD = region_texts(f, cfg)
    region_MD = region_vectors(f)
    own_MD = text_MCD[:, 1]
    false_MKD = text_MCD[:, 2:]
    scale = f.heads.log_scale_hard.exp()
    own_M, false_MK, there_MK = hard_logits(f, cfg)
    terms = {}
    if cfg.lambda_choice:
        terms["choice"] = cfg.lambda_choice * losses.s_neg(region_MD, own_MD, false_MKD, there_MK, scale)
    if cfg.lambda_hard:
        terms["hard"] = cfg.lambda_hard * contrast_hard(region_MD, own_MD, false_MKD, there_MK, scale)
    if cfg.lambda_rank:
        below_MK = (f.memory["margin"].to(own_M) + false_MK - own_M[:, None]).relu()
        terms["rank"] = cfg.lambda_rank * losses.masked_mean(below_MK, there_MK)
    return terms


def contrast_hard(region_MD: Tensor, own_MD: Tensor, false_MKD: Tensor, there_MK: Tensor, scale: Tensor) -> Tensor:
    """Contrast regions with all first captions and all false texts, and first captions with regions."""
    there_M = there_MK.any(dim=1)
    key_ND = torch.cat([own_MD, false_MKD.flatten(0, 1)])
    valid_N = torch.cat([there_M, there_MK.flatten()])
    to_text = losses.matching_of(region_MD, key_ND, scale, there_M, valid_N)
    return (to_text + losses.matching_of(own_MD, region_MD, scale, there_M, there_M)) / 2


def tell_texts(text_MD: Tensor, there_M: Tensor, cfg: Config) -> Tensor:
    """Return the mean log Σ exp of a caption's largest cosines with other regions' captions, except equal ones."""
    cosine_MM = losses.similarities(text_MD, text_MD, text_MD.new_ones(()))
    same_MM = torch.eye(len(text_MD), dtype=torch.bool, device=text_MD.device) | (cosine_MM > cfg.like)
    cosine_MM = cosine_MM.masked_fill(same_MM, 0.0).masked_fill(~there_M, -torch.inf)
    cosine_MM = torch.where(there_M[:, None], cosine_MM, torch.zeros_like(cosine_MM))
    nearest_MN = cosine_MM.topk(min(cfg.nearest, len(text_MD)), dim=1).values
    return losses.masked_mean(nearest_MN.logsumexp(dim=1), there_M)
