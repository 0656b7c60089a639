"""What a model's head makes of pictures and texts: vectors in place of the towers', or scores of pairs.

I pictures, B pictures of a batch, N patches, T texts, L text length, D joint dim. A head that scores pairs needs
patches: those of the first pictures that a benchmark asks for are kept for the others of a pass, within PATCH_BYTES;
further pictures are read and encoded again for each benchmark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.evaluate import embed
from compclip.evaluate.embeddings import Embeddings, Pair, Paired, cut_batches, number_keys
from compclip.model import towers
from compclip.model.inference_towers import ReplicaPool, evaluation_mode

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel

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
        text_ND = self.texts(texts)[:, : self.text_numbers]
        other_ND = self.texts(other_texts)[:, : self.text_numbers]
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

    def get(self, refs: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return the patches [N, D] of those pictures whose patches are kept."""
        return {ref: self._patches[ref] for ref in refs if ref in self._patches}

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
    compare = partial(_compare, models, how, pictures, PatchStore(PATCH_BYTES))
    ask = partial(_score_pairs, embeddings, compare)
    return HeadScores(**vars(embeddings), ask=ask, compare=compare, text_numbers=models[0].head.text_numbers)


def _score_pairs(embeddings: Embeddings, compare: Compare, pairs: Sequence[Pair]) -> np.ndarray:
    """Return the scores [P] of different pairs; pictures that stand together are compared together."""
    texts_of: dict[str, list[str]] = {}
    for ref, text in pairs:
        texts_of.setdefault(ref, []).append(text)
    pictures = sorted(texts_of)
    score_of = dict[Pair, float]()
    for block in cut_batches(pictures, PICTURES):
        block_texts = sorted(set[str]().union(*map(texts_of.__getitem__, block)))
        column = number_keys(block_texts)
        score_BT = compare(block, embeddings.texts(block_texts))
        for ref, score_T in zip(block, score_BT, strict=True):
            for text in texts_of[ref]:
                score_of[ref, text] = score_T[column[text]]
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
    with evaluation_mode([model.clip for model in models]), embed.open_pool(replicas, how) as pool:
        scores = pool.map(partial(_compare_batch, replicas, how, pictures, store, text_TD), cut_batches(refs, PICTURES))
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
        scores = [model.head.score(patch_BND, block_TD).double().cpu() for block_TD in blocks]
        return torch.cat(scores, dim=1).numpy()


def _find_patches(
    model: ClipModel, how: Scoring, pictures: embed.PreparedPictures, store: PatchStore, refs: Sequence[str]
) -> torch.Tensor:
    """Return the patches of different pictures, on the model's device; those that are not kept are encoded together."""
    patches = store.get(refs)
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
