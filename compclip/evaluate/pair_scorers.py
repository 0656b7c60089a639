"""Scores of pairs by what patches and tokens have in common, beside the cosine: `evaluate.scorers`.

local: FSC-CLIP's local score (arXiv:2410.05210, Eq. 6-8): each token against the patches that it attends to, min-max,
summed up by log-sum-exp over the tokens of the text, so that a longer text has more to sum.
attended: the cosine of a text with the patches that it attends to as a whole, by softmax (C2LIP, Eq. 6-7, with the
text's embedding in the concept's place).

Both are of the model as it is, whatever it was trained with; their authors score benchmarks by cosines. They cost a
second pass, since patches and tokens are too large to keep. A tower without patches is refused, and one whose patches
and tokens are in no common space: they are its head's alone.

P pairs, B pairs of a batch, N patches, T text positions, D joint dim.

What a model's head makes of pictures and texts: vectors in place of the towers', or scores of pairs.

I pictures, B pictures of a batch, N patches, T texts, L text length, D joint dim. A head that scores pairs needs
patches: those of the first pictures that a benchmark asks for are kept for the others of a pass, within PATCH_BYTES;
further pictures are read and encoded again for each benchmark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.config.sections import DEFAULT_SCORING, LOCAL, Scoring
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
        patch_BND = patch_BND[image_B]
        text_BD = text_BD[text_B]
        if scorer == LOCAL:
            mask_BT = towers.mask_own_tokens(ids_BL, token_BTD.shape[1], model.tokenizer.layout)[text_B]
            scale = model.clip.get_parameter("logit_scale").exp()
            scores_B = losses.local_similarity(patch_BND, token_BTD[text_B], mask_BT, scale, ATTENTION)
        else:
            scores_B = attended_cosines(patch_BND, text_BD)
        return scores_B.double().cpu().numpy()


def attended_cosines(patch_BND: Tensor, text_BD: Tensor) -> Tensor:
    """[B] cosines of texts with the patches that they attend to: v^(t)·t, v^(t) = normalise(V'ᵀ softmax(V' t))."""
    patch_BND = F.normalize(patch_BND.float(), dim=-1)
    text_BD = text_BD.float()
    weight_BN = torch.einsum("bnd,bd->bn", patch_BND, text_BD).softmax(dim=-1)
    pooled_BD = F.normalize(torch.einsum("bn,bnd->bd", weight_BN, patch_BND), dim=-1)
    return (pooled_BD * text_BD).sum(dim=-1)


# --- what a model's head makes of pictures and texts: vectors in place of the towers', or scores of pairs

# that are compared at once, all with all
PICTURES = 32
TEXTS = 256
PATCH_BYTES = 1 << 30  # of a model's patches, kept in the host's memory
Compare = Callable[[Sequence[str], np.ndarray], np.ndarray]  # pictures by reference, and texts' vectors -> [I, T]


@dataclass(frozen=True)
class HeadScores(Paired):
    """Vectors of texts, and scores of pictures with them by a head; texts among themselves have their cosine.

    A pair is compared once for all benchmarks: in another block its last bits may be others, and equal texts would not
    tie. `text_numbers`: how many of a text's numbers compare it with another text; None: all.
    """

    compare: Compare = field(kw_only=True)
    text_numbers: int | None = field(default=None, kw_only=True)

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Return the cosine of text n with other text n, shape N."""
        text_ND, other_ND = (self.texts(names)[:, : self.text_numbers] for names in (texts, other_texts))
        return np.einsum("nd,nd->n", text_ND, other_ND)

    def against(self, refs: Sequence[str], text_TD: np.ndarray) -> np.ndarray:
        """Return the scores [N, T] of images with any unit vectors of the text's side, as those of classes."""
        different, row_I = np.unique(np.array(refs, dtype=object), return_inverse=True)
        return self.compare(list(different), text_TD)[row_I]

    def table(self, refs: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """Return the score of every image with every text, float32 [len(refs), len(texts)]."""
        different, column_T = np.unique(np.array(texts, dtype=object), return_inverse=True)
        return self.against(refs, self.texts(list(different)))[:, column_T].astype(np.float32)


class PatchStore:
    """Patches of pictures by reference, as many as there is room for; the first ones stay. Threads may ask at once."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._patches: dict[str, torch.Tensor] = {}
        self._lock = threading.Lock()

    def get(self, ref: str) -> torch.Tensor | None:
        """Return the patches [N, D] of a picture; None where they are not kept."""
        return self._patches.get(ref)

    def add(self, ref: str, patch_ND: torch.Tensor) -> None:
        """Keep the patches of a picture if there is room."""
        with self._lock:
            if ref not in self._patches and patch_ND.nbytes <= self._room:
                self._room -= patch_ND.nbytes
                self._patches[ref] = patch_ND.to("cpu", copy=True)


def encode(model: ClipModel, refs: Sequence[str], texts: Sequence[str], how: Scoring = DEFAULT_SCORING) -> Embeddings:
    """Encode each different picture and text once; pairs are scored by the model's head, if it has one that does so."""
    return by_head(embed.encode(model, refs, texts, how), [model], how, embed.PreparedPictures())


def by_head(
    embeddings: Embeddings, models: Sequence[ClipModel], how: Scoring, pictures: embed.PreparedPictures
) -> Embeddings:
    """Return the same pictures and texts as the head of a model compares them; without such a head as they are.

    `models` are one model on each device.
    """
    if models[0].head is None or not models[0].head.scores_pairs:
        return embeddings
    values = {f.name: getattr(embeddings, f.name) for f in fields(Embeddings)}
    compare = partial(_compare, models, how, pictures, PatchStore(PATCH_BYTES))
    ask = partial(_score_pairs, embeddings, compare)
    return HeadScores(**values, ask=ask, compare=compare, text_numbers=models[0].head.text_numbers)


def _score_pairs(embeddings: Embeddings, compare: Compare, pairs: Sequence[Pair]) -> np.ndarray:
    """Return the scores [P] of different pairs; pictures that stand together are compared together."""
    texts_of: dict[str, list[str]] = {}
    for ref, text in pairs:
        texts_of.setdefault(ref, []).append(text)
    pictures = sorted(texts_of)
    score_of = dict[Pair, float]()
    for start in range(0, len(pictures), PICTURES):
        block = pictures[start : start + PICTURES]
        block_texts = sorted({text for ref in block for text in texts_of[ref]})
        column = {text: number for number, text in enumerate(block_texts)}
        score_BT = compare(block, embeddings.texts(block_texts))
        for ref, score_T in zip(block, score_BT, strict=True):
            score_of |= {(ref, text): score_T[column[text]] for text in texts_of[ref]}
    return np.array([score_of[pair] for pair in pairs])


def _compare(
    models: Sequence[ClipModel],
    how: Scoring,
    pictures: embed.PreparedPictures,
    store: PatchStore,
    refs: Sequence[str],
    text_TD: np.ndarray,
) -> np.ndarray:
    replicas = ReplicaPool(models, how.threads)
    batches = [refs[start : start + PICTURES] for start in range(0, len(refs), PICTURES)]
    with embed.evaluation_mode([model.clip for model in models]), embed.open_pool(replicas, how) as pool:
        scores = pool.map(partial(_compare_batch, replicas, how, pictures, store, text_TD), batches)
        return np.concatenate([np.zeros((0, len(text_TD))), *scores])


def _compare_batch(
    replicas: ReplicaPool[ClipModel],
    how: Scoring,
    pictures: embed.PreparedPictures,
    store: PatchStore,
    text_TD: np.ndarray,
    refs: Sequence[str],
) -> np.ndarray:
    """Compare pictures that were read before with all texts, as many of these at once as memory holds."""
    with replicas.take() as model, torch.inference_mode(), embed.precision(how):
        patch_BND = _find_patches(model, how, pictures, store, refs)
        blocks = torch.from_numpy(np.asarray(text_TD, np.float32)).to(patch_BND.device).split(TEXTS)
        scores = [model.head.score(patch_BND, block_TD) for block_TD in blocks]
        return torch.cat([score_BT.double().cpu() for score_BT in scores], dim=1).numpy()


def _find_patches(
    model: ClipModel, how: Scoring, pictures: embed.PreparedPictures, store: PatchStore, refs: Sequence[str]
) -> torch.Tensor:
    """Return the patches of different pictures, on the model's device; those that are not kept are encoded together."""
    patches = {ref: patch_ND for ref in refs if (patch_ND := store.get(ref)) is not None}
    missing = [ref for ref in refs if ref not in patches]
    device = embed.device(model)
    if missing:
        prepared = [pictures.prepare(ref, model, how.upright) for ref in missing]
        pixels = model.pixels([picture for picture in prepared if not isinstance(picture, str)])
        patch_BND = towers.encode_images(model.clip, pixels.to(device), tokens=True)[1]
        assert patch_BND is not None
        for ref, patch_ND in zip(missing, patch_BND, strict=True):
            store.add(ref, patch_ND)
            patches[ref] = patch_ND
    return torch.stack([patches[ref].to(device) for ref in refs])
