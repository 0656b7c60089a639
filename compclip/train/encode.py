"""A batch through the model: one image pass, one text pass, Features out.

B images, K negatives, P extra positives, J negative images, N patches, T text positions, M concepts, L text length,
D dim.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.interface.features import Features
from compclip.interface.views import Views
from compclip.model import towers
from compclip.model.clip_model import ClipModule
from compclip.train.batch import Batch

MaybeTensor = TypeVar("MaybeTensor", Tensor, "Tensor | None")


def encode_features(
    clip: ClipModule,
    batch: Batch,
    views: Views,
    frozen: frozenset[str] = frozenset(),
    first_features: Features | None = None,
) -> Features:
    """Return all features that a loss may ask for; towers in `frozen` ("image", "text") run without a graph.

    A frozen image tower's part is taken from `seen`, the same batch's features, where that is given.
    """
    tokens = views.tokens or views.concepts == "pooled"
    if first_features and "image" in frozen:
        image_BD, patch_BND, negative_image_BJD = (
            first_features.image_BD,
            first_features.patch_BND,
            first_features.negative_image_BJD,
        )
    else:
        with torch.no_grad() if "image" in frozen else nullcontext():
            image_BD, patch_BND, negative_image_BJD = _encode_images(clip, batch, views)
    with torch.no_grad() if "text" in frozen else nullcontext():
        text = _EncodedTexts(clip, batch, tokens)
    B, K = batch.mask_BK.shape
    concept_MD, owner_M = _encode_concepts(batch, views, text)
    return Features(
        image_BD=image_BD,
        text_BD=text.pooled("caption"),
        negative_BKD=_group_by_image(text.pooled("negative"), B, K),
        mask_BK=batch.mask_BK,
        positive_BPD=_group_by_image(text.pooled("positive"), *batch.positive_mask_BP.shape),
        positive_mask_BP=batch.positive_mask_BP,
        concept_MD=concept_MD,
        owner_M=owner_M,
        scale=clip.logit_scale.exp(),
        bias=clip.logit_bias,
        patch_BND=patch_BND,
        token_BTD=text.tokens("caption"),
        token_mask_BT=text.mask("caption"),
        negative_token_BKTD=_group_by_image(text.tokens("negative"), B, K),
        negative_token_mask_BKT=_group_by_image(text.mask("negative"), B, K),
        negative_image_BJD=negative_image_BJD,
        negative_image_mask_BJ=batch.negative_image_mask_BJ,
        target_BL=batch.target_BL,
    )


def _encode_images(clip: ClipModule, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Encode images and negative images in one forward pass; return them and patches, None where not asked for."""
    if batch.negative_image_BJ3HW is None:
        return *towers.encode_images(clip, batch.image_B3HW, views.tokens), None
    B, J = batch.negative_image_BJ3HW.shape[:2]
    all_A3HW = torch.cat([batch.image_B3HW, batch.negative_image_BJ3HW.flatten(0, 1)])
    image_AD, patch_AND = towers.encode_images(clip, all_A3HW, views.tokens)
    return image_AD[:B], patch_AND if patch_AND is None else patch_AND[:B], _group_by_image(image_AD[B:], B, J)


class _EncodedTexts:
    """All texts of a step encoded in one forward pass, and handed out by kind."""

    def __init__(self, clip: ClipModule, batch: Batch, tokens: bool) -> None:
        texts = {
            "caption": batch.text_BL,
            "negative": batch.negative_BKL.flatten(0, 1),
            "positive": batch.positive_BPL.flatten(0, 1),
            "concept": batch.concept_ML,
        }
        self.layout = getattr(clip, "layout", towers.CLIP)
        self.sizes = [len(p) for p in texts.values()]
        self.kinds = list(texts)
        self.text_AL = torch.cat(list(texts.values()))
        self.pooled_AD, self.token_ATD = towers.encode_texts(clip, self.text_AL, tokens)

    def _select_kind(self, all_A: Tensor, kind: str) -> Tensor:
        return all_A.split(self.sizes)[self.kinds.index(kind)]

    def pooled(self, kind: str) -> Tensor:
        """Return unit vectors [., D] of the texts of a kind."""
        return self._select_kind(self.pooled_AD, kind)

    def tokens(self, kind: str) -> Tensor | None:
        """Return token features [., T, D] of the texts of a kind; None where no loss asks for them."""
        return None if self.token_ATD is None else self._select_kind(self.token_ATD, kind)

    def mask(self, kind: str) -> Tensor | None:
        """Return which of its T tokens are each text's own; None where `tokens` gives None."""
        if self.token_ATD is None:
            return None
        return towers.mask_own_tokens(self._select_kind(self.text_AL, kind), self.token_ATD.shape[1], self.layout)


def _group_by_image(flat: MaybeTensor, B: int, K: int) -> MaybeTensor:
    return None if flat is None else flat.reshape(B, K, *flat.shape[1:])


def _encode_concepts(batch: Batch, views: Views, text: _EncodedTexts) -> tuple[Tensor, Tensor]:
    if views.concepts == "encoded":
        return text.pooled("concept"), batch.owner_M
    token_BTD = text.tokens("caption")
    if views.concepts != "pooled" or token_BTD is None:
        return text.pooled_AD[:0], batch.owner_M[:0]
    return pool_concepts(token_BTD, batch.concept_span_M2, batch.owner_M), batch.owner_M


def pool_concepts(token_BTD: Tensor, span_M2: Tensor, owner_M: Tensor) -> Tensor:
    """Return unit vectors [M, D], the means of raw projected tokens in concepts' spans (C2LIP; `concepts: pooled`)."""
    position_T = torch.arange(token_BTD.shape[1], device=token_BTD.device)
    inside_MT = ((position_T >= span_M2[:, :1]) & (position_T < span_M2[:, 1:])).to(token_BTD.dtype)
    mean_MD = torch.einsum("mt,mtd->md", inside_MT, token_BTD[owner_M]) / inside_MT.sum(1, keepdim=True).clamp(min=1)
    return F.normalize(mean_MD, dim=-1)
