"""A batch through the model: one image pass, one text pass or one of each group, Features out.

B images, K negatives, P extra positives, J negative images, N patches, T text positions, M concepts, R regions,
C texts of a region, L text length, D dim, A all texts (or all of a kind).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.interface.features import Features, field_kinds
from compclip.interface.views import Views
from compclip.model import clip_model, towers
from compclip.model.clip_model import ClipModule
from compclip.train import region_pooling
from compclip.train.batch import Batch
from compclip.train.text_groups import TextGroups, plan_groups

IMAGE_FIELDS = tuple(name for name, kind in field_kinds().items() if kind.tower == "image")
MaybeTensor = TypeVar("MaybeTensor", Tensor, "Tensor | None")


def encode_features(
    clip: ClipModule,
    batch: Batch,
    views: Views,
    frozen: frozenset[str] = frozenset(),
    first_features: Features | None = None,
    text_groups: int = 1,
) -> Features:
    """Return all features that a loss may ask for; towers in `frozen` ("image", "text") run without a graph.

    A frozen image tower's part is taken from `first_features`, the same batch's features, where that is given. Texts
    are encoded in at most `text_groups` blocks.
    """
    if first_features and "image" in frozen:
        of_images = {name: getattr(first_features, name) for name in IMAGE_FIELDS}
    else:
        with torch.no_grad() if "image" in frozen else nullcontext():
            of_images = _encode_images(clip, batch, views)
    with torch.no_grad() if "text" in frozen else nullcontext():
        text_AD, token_ATD, mask_AT = _encode_texts(clip, batch, views, text_groups)
    raw_text_BW = None
    if views.raw_captions:
        D = of_images["image_BD"].shape[1]
        raw_text_BW = text_AD["caption"][:, D:]
        text_AD = {kind: vector_AD[:, :D] for kind, vector_AD in text_AD.items()}
    concept_MD, owner_M = text_AD["concept"], batch.owner_M
    if views.concepts == "pooled" and (token_BTD := token_ATD["caption"]) is not None:
        concept_MD = pool_concepts(token_BTD, batch.concept_span_M2, owner_M)
    elif views.concepts != "encoded":
        concept_MD, owner_M = concept_MD[:0], owner_M[:0]
    B, K = batch.mask_BK.shape
    return Features(
        **of_images,
        text_BD=text_AD["caption"],
        negative_BKD=_group_by_image(text_AD["negative"], B, K),
        mask_BK=batch.mask_BK,
        positive_BPD=_group_by_image(text_AD["positive"], *batch.positive_mask_BP.shape),
        positive_mask_BP=batch.positive_mask_BP,
        concept_MD=concept_MD,
        owner_M=owner_M,
        scale=clip.logit_scale.exp(),
        bias=clip.logit_bias,
        raw_text_BW=raw_text_BW,
        token_BTD=token_ATD["caption"],
        token_mask_BT=mask_AT["caption"],
        negative_token_BKTD=_group_by_image(token_ATD["negative"], B, K),
        negative_token_mask_BKT=_group_by_image(mask_AT["negative"], B, K),
        negative_image_mask_BJ=batch.negative_image_mask_BJ,
        target_BL=batch.target_BL,
        region_mask_BR=batch.region_mask_BR,
        region_text_BRCD=_group_regions(text_AD.get("region"), batch.region_text_mask_BRC),
        region_text_mask_BRC=batch.region_text_mask_BRC,
    )


def _encode_images(clip: ClipModule, batch: Batch, views: Views) -> dict[str, Any]:
    """Encode images, negative images and regions as pictures in one forward pass; return features by `IMAGE_FIELDS`.

    What is not asked for is None.
    """
    further = {
        "negative_image_BJD": batch.negative_image_BJ3HW,
        "region_crop_BRD": batch.region_crop_BR3HW,
    }
    groups = {name: image_BJ3HW for name, image_BJ3HW in further.items() if image_BJ3HW is not None}
    all_A3HW = batch.image_B3HW
    if groups:
        all_A3HW = torch.cat([all_A3HW, *(image_BJ3HW.flatten(0, 1) for image_BJ3HW in groups.values())])
    B, all_A3HW, local_AND = len(batch), _normalise(all_A3HW, batch), None
    if batch.region_box_BR4 is None:
        image_AD, patch_AND = towers.encode_images(clip, all_A3HW, views.tokens)
    else:
        image_AD, patch_AND, local_AND = towers.encode_with_local_patches(clip, all_A3HW, views.tokens)
    features: dict[str, Any] = dict.fromkeys(IMAGE_FIELDS)
    features["image_BD"] = image_AD[:B] if groups else image_AD
    features["patch_BND"] = patch_AND[:B] if groups and patch_AND is not None else patch_AND
    sizes = [image_BJ3HW.shape[1] for image_BJ3HW in groups.values()]
    for name, J, flat_AD in zip(groups, sizes, image_AD[B:].split([B * J for J in sizes]), strict=True):
        features[name] = _group_by_image(flat_AD, B, J)
    if local_AND is not None:
        features["region_BRD"] = _pool_regions(local_AND[:B], batch, views)
    return features


def _pool_regions(patch_BND: Tensor, batch: Batch, views: Views) -> Tensor:
    """Return regions' unit vectors, means of patches in full precision."""
    assert batch.region_box_BR4 is not None
    with torch.autocast(patch_BND.device.type, enabled=False):
        patch_BND = patch_BND.to(torch.promote_types(patch_BND.dtype, torch.float32))
        patch_BND = F.normalize(patch_BND, dim=-1) if views.unit_patches else patch_BND
        return F.normalize(region_pooling.pool_regions(patch_BND, batch.region_box_BR4), dim=-1)


def _normalise(image_A3HW: Tensor, batch: Batch) -> Tensor:
    if batch.statistics_23 is None:
        return image_A3HW
    return clip_model.normalise_pictures(image_A3HW, batch.statistics_23)


def _encode_texts(
    clip: ClipModule, batch: Batch, views: Views, text_groups: int
) -> tuple[dict[str, Tensor], dict[str, Tensor | None], dict[str, Tensor | None]]:
    """Encode all texts that are there, each once; return unit vectors, tokens and a text's own tokens, by kind.

    Behind a unit vector is the raw one, where views ask for raw captions.

    Vectors and tokens of texts that a rule could not make are zeros. Tokens and masks are None where no loss asks for
    them.
    """
    texts = {
        "caption": batch.text_BL,
        "negative": batch.negative_BKL.flatten(0, 1),
        "positive": batch.positive_BPL.flatten(0, 1),
        "concept": batch.concept_ML,
    }
    if batch.region_text_BRCL is not None:
        texts["region"] = batch.region_text_BRCL.flatten(0, 2)
    sizes = [len(text_AL) for text_AL in texts.values()]
    needs_tokens = views.tokens or views.concepts == "pooled"
    all_AL, groups = torch.cat(list(texts.values())), plan_groups(batch, text_groups)
    if groups is None:
        all_AD, all_ATD = towers.encode_texts(clip, all_AL, needs_tokens, all_positions=True, raw=views.raw_captions)
    else:
        all_AD, all_ATD = _encode_groups(clip, all_AL, groups, needs_tokens, views.raw_captions)
    text_AD = dict(zip(texts, all_AD.split(sizes), strict=True))
    if all_ATD is None:
        return text_AD, dict.fromkeys(texts), dict.fromkeys(texts)
    T, layout = all_ATD.shape[1], getattr(clip, "layout", towers.CLIP)
    mask_AT: dict[str, Tensor | None] = {
        kind: towers.mask_own_tokens(text_AL, T, layout) for kind, text_AL in texts.items()
    }
    return text_AD, dict(zip(texts, all_ATD.split(sizes), strict=True)), mask_AT


def _encode_groups(
    clip: ClipModule, all_AL: Tensor, groups: TextGroups, needs_tokens: bool, raw: bool
) -> tuple[Tensor, Tensor | None]:
    """Encode texts group by group; return vectors and tokens in the batch's order, these padded with zeros."""
    index_N = groups.index_N.to(all_AL.device, non_blocking=True)
    blocks = all_AL[index_N].split(groups.counts)
    texts = [text_NL[:, :T] for text_NL, T in zip(blocks, groups.positions, strict=True)]
    # several groups are CLIP's own tower's
    embedded = towers.embed_groups(clip, texts) if len(texts) > 1 else [None]
    encoded = [
        towers.encode_texts(clip, text_NT, needs_tokens, all_positions=True, embedded_BTW=embedded_NTW, raw=raw)
        for text_NT, embedded_NTW in zip(texts, embedded, strict=True)
    ]
    all_AD = _fill_with_zeros(torch.cat([vector_ND for vector_ND, _ in encoded]), index_N, len(all_AL))
    tokens = [token_NTD for _, token_NTD in encoded if token_NTD is not None]
    if not tokens:
        return all_AD, None
    T = max(token_NTD.shape[1] for token_NTD in tokens)
    padded = [F.pad(token_NTD, (0, 0, 0, T - token_NTD.shape[1])) for token_NTD in tokens]
    return all_AD, _fill_with_zeros(torch.cat(padded), index_N, len(all_AL))


def _fill_with_zeros(encoded_N: Tensor, index_N: Tensor, size: int) -> Tensor:
    """Return `size` rows, those of `index_N` as they are encoded, zeros in place of others."""
    return encoded_N.new_zeros(size, *encoded_N.shape[1:]).index_copy(0, index_N, encoded_N)


def _group_by_image(flat: MaybeTensor, B: int, K: int) -> MaybeTensor:
    return None if flat is None else flat.reshape(B, K, *flat.shape[1:])


def _group_regions(flat_AD: Tensor | None, mask_BRC: Tensor | None) -> Tensor | None:
    return None if flat_AD is None or mask_BRC is None else flat_AD.reshape(*mask_BRC.shape, -1)


def pool_concepts(token_BTD: Tensor, span_M2: Tensor, owner_M: Tensor) -> Tensor:
    """Return unit vectors [M, D], the means of raw projected tokens in concepts' spans (C2LIP; `concepts: pooled`)."""
    position_T = torch.arange(token_BTD.shape[1], device=token_BTD.device)
    inside_MT = ((position_T >= span_M2[:, :1]) & (position_T < span_M2[:, 1:])).to(token_BTD.dtype)
    mean_MD = torch.einsum("mt,mtd->md", inside_MT, token_BTD[owner_M]) / inside_MT.sum(1, keepdim=True).clamp(min=1)
    return F.normalize(mean_MD, dim=-1)
