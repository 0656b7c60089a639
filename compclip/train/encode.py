"""A batch through the model: one image pass, one text pass or one of each group, Features out.

B images, K negatives, P extra positives, N patches, T text positions, M concepts, R regions, L text length, D dim,
A all texts or pictures (or all of a block).
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.interface.features import Features, NamedRows
from compclip.interface.views import Views
from compclip.model import clip_model, towers
from compclip.model.clip_model import ClipModule
from compclip.train.batch import CAPTION, CONCEPT, NEGATIVE, POSITIVE, Batch, PictureBlock


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
        image_BD = first_features.image_BD
        patch_BND = first_features.patch_BND
        named = {name: block for name, block in first_features.named.items() if block.tower == "image"}
    else:
        with torch.no_grad() if "image" in frozen else nullcontext():
            image_BD, patch_BND, named = _encode_images(clip, batch, views)
    with torch.no_grad() if "text" in frozen else nullcontext():
        text_AD, token_ATD, mask_AT = _encode_texts(clip, batch, views, text_groups)
    if views.raw_captions:
        D = image_BD.shape[1]
        named["raw_captions"] = NamedRows(text_AD[CAPTION][:, D:], tower="text")
        text_AD = {name: vector_AD[:, :D] for name, vector_AD in text_AD.items()}
    if batch.target_BL is not None:
        named["target"] = NamedRows(batch.target_BL)
    for name, block in batch.texts.items():
        if name not in (CAPTION, NEGATIVE, POSITIVE, CONCEPT):
            named[name] = NamedRows(_group_texts(text_AD[name], batch, name), block.mask, "text")
    concept_MD, owner_M = _choose_concepts(text_AD[CONCEPT], token_ATD[CAPTION], batch, views)
    mask_BK = batch.texts[NEGATIVE].mask
    positive_mask_BP = batch.texts[POSITIVE].mask
    assert mask_BK is not None and positive_mask_BP is not None
    return Features(
        image_BD=image_BD,
        text_BD=text_AD[CAPTION],
        negative_BKD=_group_texts(text_AD[NEGATIVE], batch, NEGATIVE),
        mask_BK=mask_BK,
        positive_BPD=_group_texts(text_AD[POSITIVE], batch, POSITIVE),
        positive_mask_BP=positive_mask_BP,
        concept_MD=concept_MD,
        owner_M=owner_M,
        scale=clip.logit_scale.exp(),
        bias=clip.logit_bias,
        patch_BND=patch_BND,
        token_BTD=token_ATD[CAPTION],
        token_mask_BT=mask_AT[CAPTION],
        negative_token_BKTD=_group_tokens(token_ATD[NEGATIVE], batch),
        negative_token_mask_BKT=_group_tokens(mask_AT[NEGATIVE], batch),
        named=named,
    )


def _encode_images(clip: ClipModule, batch: Batch, views: Views) -> tuple[Tensor, Tensor | None, dict[str, NamedRows]]:
    """Encode images and blocks of pictures in one forward pass; pool boxes from the images' patches.

    Return embeddings, patches and the blocks.
    """
    shown = {}
    boxes = {}
    for name, block in batch.pictures.items():
        if block.image_BJ3HW is not None:
            shown[name] = block.image_BJ3HW.flatten(0, 1)
        if block.box_BJ4 is not None:
            boxes[name] = block
    all_A3HW = batch.image_B3HW
    if shown:
        all_A3HW = torch.cat([all_A3HW, *shown.values()])
    B = len(batch)
    local_AND = None
    if batch.statistics_23 is not None:
        all_A3HW = clip_model.normalise_pictures(all_A3HW, batch.statistics_23)
    if boxes:
        image_AD, patch_AND, local_AND = towers.encode_with_local_patches(clip, all_A3HW, views.tokens)
    else:
        image_AD, patch_AND = towers.encode_images(clip, all_A3HW, views.tokens)
    patch_BND = patch_AND[:B] if shown and patch_AND is not None else patch_AND
    named = {}
    parts = image_AD[B:].split(list(map(len, shown.values())))
    for name, flat_AD in zip(shown, parts, strict=True):
        mask_BJ = batch.pictures[name].mask_BJ
        named[name] = NamedRows(flat_AD.reshape(*mask_BJ.shape, -1), mask_BJ, "image")
    for name, block in boxes.items():
        assert local_AND is not None
        named[name] = NamedRows(_pool_regions(local_AND[:B], block, views), block.mask_BJ, "image")
    return image_AD[:B] if shown else image_AD, patch_BND, named


def _pool_regions(patch_BND: Tensor, block: PictureBlock, views: Views) -> Tensor:
    """Return regions' unit vectors, means of patches in full precision."""
    assert block.box_BJ4 is not None
    with torch.autocast(patch_BND.device.type, enabled=False):
        patch_BND = patch_BND.to(torch.promote_types(patch_BND.dtype, torch.float32))
        patch_BND = F.normalize(patch_BND, dim=-1) if views.regions and views.regions.unit_patches else patch_BND
        return F.normalize(pool_regions(patch_BND, block.box_BJ4), dim=-1)


def _encode_texts(
    clip: ClipModule, batch: Batch, views: Views, text_groups: int
) -> tuple[dict[str, Tensor], dict[str, Tensor | None], dict[str, Tensor | None]]:
    """Encode all texts that are there, each once; return unit vectors, tokens and a text's own tokens, by block.

    Behind a unit vector is the raw one, where views ask for raw captions.

    Vectors and tokens of texts that a rule could not make are zeros. Tokens and masks are None where no loss asks for
    them.
    """
    texts = {name: block.ids.flatten(0, -2) for name, block in batch.texts.items()}
    sizes = list(map(len, texts.values()))
    needs_tokens = views.tokens or views.concepts == "pooled"
    all_AL = torch.cat(list(texts.values()))
    groups = plan_groups(batch, text_groups)
    if groups is None:
        all_AD, all_ATD = towers.encode_texts(clip, all_AL, needs_tokens, all_positions=True, raw=views.raw_captions)
    else:
        all_AD, all_ATD = _encode_groups(clip, all_AL, groups, needs_tokens, views.raw_captions)
    text_AD = dict(zip(texts, all_AD.split(sizes), strict=True))
    if all_ATD is None:
        return text_AD, dict.fromkeys(texts), dict.fromkeys(texts)
    T = all_ATD.shape[1]
    layout = getattr(clip, "layout", towers.CLIP)
    mask_AT: dict[str, Tensor | None] = {
        name: towers.mask_own_tokens(text_AL, T, layout) for name, text_AL in texts.items()
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
    vectors = []
    tokens = []
    for text_NT, embedded_NTW in zip(texts, embedded, strict=True):
        vector_ND, token_NTD = towers.encode_texts(
            clip, text_NT, needs_tokens, all_positions=True, embedded_BTW=embedded_NTW, raw=raw
        )
        vectors.append(vector_ND)
        if token_NTD is not None:
            tokens.append(token_NTD)
    all_AD = _fill_with_zeros(torch.cat(vectors), index_N, len(all_AL))
    if not tokens:
        return all_AD, None
    T = max(token_NTD.shape[1] for token_NTD in tokens)
    padded = [F.pad(token_NTD, (0, 0, 0, T - token_NTD.shape[1])) for token_NTD in tokens]
    return all_AD, _fill_with_zeros(torch.cat(padded), index_N, len(all_AL))


def _fill_with_zeros(encoded_N: Tensor, index_N: Tensor, size: int) -> Tensor:
    """Return `size` rows, those of `index_N` as they are encoded, zeros in place of others."""
    return encoded_N.new_zeros(size, *encoded_N.shape[1:]).index_copy(0, index_N, encoded_N)


def _group_texts(flat_AD: Tensor, batch: Batch, name: str) -> Tensor:
    """Return what is known of each text of a block in the block's shape."""
    return flat_AD.reshape(*batch.texts[name].ids.shape[:-1], *flat_AD.shape[1:])


def _group_tokens(flat_ATD: Tensor | None, batch: Batch) -> Tensor | None:
    return None if flat_ATD is None else _group_texts(flat_ATD, batch, NEGATIVE)


def _choose_concepts(concept_MD: Tensor, token_BTD: Tensor | None, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
    """Return the vectors of concepts as the views ask for them, and their images; none without concepts."""
    concepts = batch.concepts
    if views.concepts == "pooled" and token_BTD is not None:
        return pool_concepts(token_BTD, concepts.span_M2, concepts.owner_M), concepts.owner_M
    if views.concepts == "encoded":
        return concept_MD, concepts.owner_M
    return concept_MD[:0], concepts.owner_M[:0]


def pool_concepts(token_BTD: Tensor, span_M2: Tensor, owner_M: Tensor) -> Tensor:
    """Return unit vectors [M, D], the means of raw projected tokens in concepts' spans (C2LIP; `concepts: pooled`)."""
    position_T = torch.arange(token_BTD.shape[1], device=token_BTD.device)
    inside_MT = ((position_T >= span_M2[:, :1]) & (position_T < span_M2[:, 1:])).to(token_BTD.dtype)
    mean_MD = torch.einsum("mt,mtd->md", inside_MT, token_BTD[owner_M]) / inside_MT.sum(1, keepdim=True).clamp(min=1)
    return F.normalize(mean_MD, dim=-1)


# Which texts of a batch are encoded together: all in one block as long as the longest, or groups of similar length.
#
# A all texts of a batch: its blocks of texts, one after another. N those that
# are encoded, U lengths of theirs, as counts of positions.


@dataclass(frozen=True)
class TextGroups:
    """The places of a batch's encoded texts, group by group; of each group the numbers of texts and of positions."""

    index_N: Tensor
    counts: tuple[int, ...]
    positions: tuple[int, ...]


def plan_groups(batch: Batch, count: int) -> TextGroups | None:
    """Return at most `count` groups of the least padding; None where all texts are encoded in one block.

    The index is on the CPU, pinned where there is a GPU. Texts whose lengths the batch does not know are one group.
    """
    encoded_A = _list_known(batch, "encoded", True)
    index_N = encoded_A.nonzero()[0]
    longest = batch.text_BL.shape[1]
    length_N = np.full(len(index_N), longest)
    if count > 1:
        length_N = _list_known(batch, "length", longest)[index_N]
    groups = split_by_length(length_N, count)
    positions = tuple(int(length_N[group[-1]]) for group in groups)
    if positions == (longest,) and encoded_A.all():
        return None
    ordered_N = torch.from_numpy(index_N[np.concatenate(groups)])
    pinned_N = ordered_N if batch.text_BL.device.type == "cpu" else ordered_N.pin_memory()
    return TextGroups(pinned_N, tuple(map(len, groups)), positions)


def _list_known(batch: Batch, name: str, default: int) -> np.ndarray:
    """Return what the host knows of each text, "encoded" or "length"; `default` where it knows nothing of a block."""
    values = []
    for block in batch.texts.values():
        known = getattr(block, name)
        values.append(np.full(block.ids.shape[:-1].numel(), default) if known is None else known.ravel())
    return np.concatenate(values)


def split_by_length(length_N: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the places of at most `count` groups, shortest first, whose blocks have the fewest positions together."""
    order_N = np.argsort(length_N, kind="stable")
    length_U, first_U = np.unique(length_N[order_N], return_index=True)
    end_U = np.append(first_U[1:], len(length_N))
    # the block of all texts from the u-th length to the v-th
    block_VU = np.where(np.tri(len(length_U), dtype=bool), length_U[:, None] * (end_U[:, None] - first_U), np.inf)
    least_V = block_VU[:, 0]
    choices = []
    for _ in range(count - 1):
        total_VU = block_VU + np.append(0, least_V[:-1])
        choices.append(total_VU.argmin(1))
        least_V = total_VU.min(1)
    cuts = []
    end = len(length_U)
    for first_V in reversed(choices):
        if end and (end := int(first_V[end - 1])):
            cuts.append(int(first_U[end]))
    return np.split(order_N, sorted(cuts))


# Vectors of regions: the mean of a grid of patches over a box (RoIAlign: He et al., ICCV 2017, arXiv:1703.06870).
#
# B images, R regions, S side of the grid, N = S² patches, P points of a side, D dim. A point's value is bilinear
# between patches' centres, and a box has as many points a side as it spans patches, rounded up. A mean over a grid
# of points of what is a product over both axes is the product of two means, so that all regions are two small
# products of matrices: the same as `torchvision.ops.roi_align` with one cell, and with the same bits at every run.


def pool_regions(patch_BND: Tensor, box_BR4: Tensor) -> Tensor:
    """Return the means [B, R, D] of patches over boxes: left, upper, right, lower in shares of the picture."""
    S = math.isqrt(patch_BND.shape[1])
    left_BR, upper_BR, right_BR, lower_BR = box_BR4.unbind(-1)
    across_BRS = axis_weights(left_BR, right_BR, S)
    down_BRS = axis_weights(upper_BR, lower_BR, S)
    weight_BRN = torch.einsum("bri,brj->brij", down_BRS, across_BRS).flatten(2)
    return weight_BRN.to(patch_BND.dtype) @ patch_BND


def axis_weights(start_BR: Tensor, end_BR: Tensor, S: int) -> Tensor:
    """Return the weights [B, R, S] of S patches in a row in the mean from `start` to `end`, shares of the row."""
    length_BR1 = (end_BR - start_BR)[..., None] * S
    points_BR1 = length_BR1.ceil().clamp(1, S)
    point_P = torch.arange(S, device=start_BR.device)
    place_BRP = start_BR[..., None] * S - 0.5 + (point_P + 0.5) * length_BR1 / points_BR1  # patch i is centred at i
    place_BRP = place_BRP.clamp(0, S - 1)
    near_BRPS = (1 - (place_BRP[..., None] - point_P).abs()).clamp_min(0)
    counts_BRP = (point_P < points_BR1) / points_BR1
    return (near_BRPS * counts_BRP[..., None]).sum(dim=-2)
