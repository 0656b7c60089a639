"""Scores of pairs by what patches and tokens have in common, beside the cosine: `evaluate.scorers`.

local: FSC-CLIP's local score (arXiv:2410.05210, Eq. 6-8): each token against the patches that it attends to, min-max,
summed up by log-sum-exp over the tokens of the text, so that a longer text has more to sum.
attended: the cosine of a text with the patches that it attends to as a whole, by softmax (C2LIP, Eq. 6-7, with the
text's embedding in the concept's place).

Both are of the model as it is, whatever it was trained with; their authors score benchmarks by cosines. They cost a
second pass, since patches and tokens are too large to keep. A tower without patches is refused, and one whose patches
and tokens are in no common space: they are its head's alone.

P pairs, B pairs of a batch, N patches, T text positions, D joint dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.config.sections import LOCAL, Scoring
from compclip.evaluate import embed
from compclip.evaluate.embeddings import Embeddings, Pair, Paired
from compclip.model import class_tokens, towers
from compclip.model.heads import FiniteTokens
from compclip.model.inference_towers import ReplicaPool
from compclip.train import losses

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

BATCH = 64  # pairs, whose patches and tokens are held at once
ATTENTION = "minmax"  # of the released FSC-CLIP


def check_common_space(model: ClipModel, advice: str) -> None:
    """Raise UserError with `advice` for a model whose patches and text tokens are in no common space (Llip, FDT)."""
    if class_tokens.OPTION in model.model_cfg["vision_cfg"] or isinstance(model.head, FiniteTokens):
        raise UserError(
            f"{model.source}: patches and text tokens of its towers are in no common space, so that its head alone "
            f"compares them; {advice}"
        )


def score_pairs(
    embeddings: Embeddings, scorer: str, models: Sequence[ClipModel], how: Scoring, pictures: embed.PreparedPictures
) -> Paired:
    """Return the same pictures and texts with scores of pairs by `scorer`; what compares texts alone stays as it is.

    `models` are one model on each device.
    """
    values = {f.name: getattr(embeddings, f.name) for f in fields(Embeddings)}
    return Paired(**values, ask=partial(_scores, scorer, models, how, pictures))


def _scores(
    scorer: str, models: Sequence[ClipModel], how: Scoring, pictures: embed.PreparedPictures, pairs: Sequence[Pair]
) -> np.ndarray:
    order = sorted(range(len(pairs)), key=pairs.__getitem__)  # a picture's texts stand together
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    scores_P = np.empty(len(pairs))
    replicas = ReplicaPool(models, how.threads)
    score_batch = partial(_batch, scorer, replicas, how, pictures)
    with embed.evaluation_mode([model.clip for model in models]), embed.open_pool(replicas, how) as pool:
        batch_scores = pool.map(score_batch, ([pairs[i] for i in b] for b in batches))
        for batch, scores_B in zip(batches, batch_scores, strict=True):
            scores_P[batch] = scores_B
    return scores_P


def _batch(
    scorer: str, replicas: ReplicaPool[ClipModel], how: Scoring, pictures: embed.PreparedPictures, pairs: Sequence[Pair]
) -> np.ndarray:
    """Score pairs whose pictures were read before, each different picture and text encoded once."""
    refs, texts = (list(dict.fromkeys(keys)) for keys in zip(*pairs, strict=True))
    image_B, text_B = ([names.index(pair[i]) for pair in pairs] for i, names in enumerate((refs, texts)))
    with replicas.take() as model, torch.inference_mode(), embed.precision(how):
        device = embed.device(model)
        prepared = [pictures.prepare(ref, model, how.upright) for ref in refs]
        pixels = model.pixels([picture for picture in prepared if not isinstance(picture, str)])
        _, patch_BND = towers.encode_images(model.clip, pixels.to(device), tokens=True)
        ids_BL = model.tokenize(texts).to(device)
        text_BD, token_BTD = towers.encode_texts(model.clip, ids_BL, tokens=True)
        assert patch_BND is not None and token_BTD is not None
        patch_BND, text_BD = patch_BND[image_B], text_BD[text_B]
        if scorer == LOCAL:
            mask_BT = towers.mask_own_tokens(ids_BL, token_BTD.shape[1], model.tokenizer.layout)[text_B]
            scale = model.clip.get_parameter("logit_scale").exp()
            scores_B = losses.local_similarity(patch_BND, token_BTD[text_B], mask_BT, scale, ATTENTION)
        else:
            scores_B = attended_cosines(patch_BND, text_BD)
        return scores_B.double().cpu().numpy()


def attended_cosines(patch_BND: Tensor, text_BD: Tensor) -> Tensor:
    """[B] cosines of texts with the patches that they attend to: v^(t)·t, v^(t) = normalise(V'ᵀ softmax(V' t))."""
    patch_BND, text_BD = F.normalize(patch_BND.float(), dim=-1), text_BD.float()
    weight_BN = torch.einsum("bnd,bd->bn", patch_BND, text_BD).softmax(dim=-1)
    pooled_BD = F.normalize(torch.einsum("bn,bnd->bd", weight_BN, patch_BND), dim=-1)
    return (pooled_BD * text_BD).sum(dim=-1)
