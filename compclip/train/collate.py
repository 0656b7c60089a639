"""Views to one Batch of tensors: the only place where texts become tokens.

B images, K negatives, P extra positives, J negative images, L text positions, M concepts.
"""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor

from compclip.interface.views import Views
from compclip.model import t5, towers
from compclip.model.clip_model import ClipModel
from compclip.train import composite
from compclip.train.batch import Batch, View


def collate(rows: list[View], views: Views, model: ClipModel, dropped: dict[str, int] | None = None) -> Batch:
    """Return the batch of some views; texts that a rule could not make are masked."""
    statistics = composite.IMAGENET if views.statistics == "imagenet" else None
    image_B3HW = model.pixels([row.image for row in rows], statistics)
    text_BL = model.tokenize([row.caption for row in rows])
    length = text_BL.shape[1]
    negative_BKL, mask_BK = _tokenize_texts([row.negatives for row in rows], model, length)
    positive_BPL, positive_mask_BP = _tokenize_texts([row.positives for row in rows], model, length)
    span_M2, concept_ML, owner_M = _locate_concepts(rows, views, model, length)
    return Batch(
        image_B3HW,
        text_BL,
        negative_BKL,
        mask_BK,
        positive_BPL,
        positive_mask_BP,
        span_M2,
        concept_ML,
        owner_M,
        dropped or {},
        *_stack_negative_images(rows, views, model),
        _tokenize_targets(rows, views, model),
    )


def _tokenize_targets(rows: list[View], views: Views, model: ClipModel) -> Tensor | None:
    """Return the tokens of the target texts, padded with -1; None where no method asks for them."""
    if not views.target:
        return None
    texts = [row.target for row in rows]
    if views.target != "own":
        return t5.tokenize_targets(views.target, texts, model.tokenize([""]).shape[1])
    ids_BL, layout = model.tokenize(texts), model.tokenizer.layout
    L = ids_BL.shape[1]
    mask_BL = towers.mask_own_tokens(ids_BL, L, layout) | (torch.arange(L) < layout.starts)
    return ids_BL.masked_fill(~mask_BL, -1)


def _stack_negative_images(rows: list[View], views: Views, model: ClipModel) -> tuple[Tensor | None, Tensor | None]:
    """Return each row's negative images, grey where one is missing, and their mask; None where no method asks."""
    if not views.negative_images:
        return None, None
    there_BJ = torch.tensor([[picture is not None for picture in row.negative_images] for row in rows])
    blank = Image.new("RGB", (model.image_size, model.image_size), "grey")
    pictures = [blank if picture is None else picture for row in rows for picture in row.negative_images]
    return model.pixels(pictures).unflatten(0, tuple(there_BJ.shape)), there_BJ


def _tokenize_texts(texts_BK: list[tuple[str | None, ...]], model: ClipModel, length: int) -> tuple[Tensor, Tensor]:
    mask_BK = torch.tensor([[t is not None for t in texts] for texts in texts_BK], dtype=torch.bool)
    mask_BK = mask_BK.reshape(len(texts_BK), -1)
    flat = [t or "" for texts in texts_BK for t in texts]
    ids = model.tokenize(flat) if flat else torch.zeros(0, length, dtype=torch.long)
    return ids.reshape(*mask_BK.shape, ids.shape[-1]), mask_BK


def _locate_concepts(rows: list[View], views: Views, model: ClipModel, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return token spans, texts and owners of all concepts, without those beyond the context length."""
    concepts = [
        (*_token_span(row.caption, span, model), row.caption[span[0] : span[1]], i)
        for i, row in enumerate(rows)
        for span in row.concepts
    ]
    concepts = [f for f in concepts if f[0] < f[1] < length]
    span_M2 = torch.tensor([f[:2] for f in concepts], dtype=torch.long).reshape(-1, 2)
    owner_M = torch.tensor([f[3] for f in concepts], dtype=torch.long)
    texts = [f[2] for f in concepts] if views.concepts == "encoded" else []
    return span_M2, model.tokenize(texts) if texts else torch.zeros(0, length, dtype=torch.long), owner_M


def _token_span(caption: str, span: tuple[int, int], model: ClipModel) -> tuple[int, int]:
    """Return the positions [first, last) of a span of characters; no tokenizer joins tokens across words."""
    first, last = (model.starts + model.count_tokens(caption[:character]) for character in span)
    return first, last
