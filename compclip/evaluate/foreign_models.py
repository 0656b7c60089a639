"""Score models that are no open_clip models: whatever encodes pictures and texts, or scores pairs of them.

I images, T texts, P pairs, D dim. `compclip.evaluate.models` says what such a model offers. Pictures are read once
each, turned and converted as `evaluate.pictures` says; what a model does with them then is its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from compclip.base import plugins
from compclip.base.errors import UserError, one_line
from compclip.base.progress_line import ProgressLine
from compclip.config.sections import Scoring
from compclip.data.images import ImageError
from compclip.evaluate import score, vqa
from compclip.evaluate.embed import evaluation_mode
from compclip.evaluate.embeddings import Embeddings, Pair, Scores
from compclip.evaluate.score import LoadedBenchmarks

if TYPE_CHECKING:
    from PIL.Image import Image

PAIRS, PICTURES, TEXTS = "score_pairs", "encode_images", "encode_texts"


def load_model(loader: str, ref: str, device: str) -> Any:
    """Open a model by a plug-in of `compclip.models`. Raises UserError for one that offers neither way."""
    model = plugins.load_plugin(plugins.MODELS, loader, "--loader").load(ref, device)
    check_model(model)
    return model


def check_model(model: Any) -> None:
    """Raise UserError for a model that neither encodes pictures and texts nor scores pairs."""
    if not (hasattr(model, PAIRS) or (hasattr(model, PICTURES) and hasattr(model, TEXTS))):
        name = type(model).__name__
        raise UserError(f"{name}: has no {PICTURES} with {TEXTS}, and no {PAIRS}; give a model that has one of the two")


def score_model(model: Any, loaded: LoadedBenchmarks, made_with: Mapping[str, str]) -> dict[str, dict]:
    """Return result documents by benchmark name; `made_with` is what they say of the model.

    Raises UserError, with the model's own error as its cause where there is one.
    """
    start = time.perf_counter()
    refs = sorted({ref for benchmark in loaded.benchmarks.values() for ref in benchmark.images})
    texts = sorted({text for benchmark in loaded.benchmarks.values() for text in benchmark.texts})
    with using(model):
        targets = replace(embed(model, refs, texts, loaded.how), ties=loaded.how.ties)
        scored = {name: benchmark.score(targets) for name, benchmark in loaded.benchmarks.items()}
    score.check_outcomes(scored)
    return score.result_documents(scored, loaded, made_with, round(time.perf_counter() - start, 3))


@contextlib.contextmanager
def using(model: Any) -> Iterator[None]:
    """Set a model's modules to evaluation, without gradients. Raises UserError for whatever it raises meanwhile."""
    modules = [m for m in (model, getattr(model, "model", None)) if isinstance(m, torch.nn.Module)]
    try:
        with torch.inference_mode(), evaluation_mode(modules):
            yield
    except UserError:
        raise
    except Exception as error:  # of a model that is somebody else's
        reason = f"{type(error).__name__}: {one_line(str(error))[:300]}"
        raise UserError(f"{type(model).__name__}: {reason}; mend that model") from error


def embed(model: Any, refs: Sequence[str], texts: Sequence[str], how: Scoring) -> Embeddings:
    """Return what different pictures and texts are compared by; of a model that scores pairs, when they are asked."""
    if hasattr(model, PAIRS):
        return vqa.score_targets(refs, _pair_scores(model, how))
    return encode(model, refs, texts, how)


def encode(model: Any, refs: Sequence[str], texts: Sequence[str], how: Scoring) -> Embeddings:
    """Encode different pictures and texts, in batches; a picture that cannot be read is listed in `failed`."""
    failed: dict[str, str] = {}
    image_row: dict[str, int] = {}
    vectors = []
    for batch in _batches(refs, how.batch_size, "pictures"):
        pictures = _load_pictures(batch, how.upright, failed)
        if pictures:
            vectors.append(_to_units(model, PICTURES, model.encode_images(list(pictures.values())), len(pictures)))
            image_row |= {ref: len(image_row) + number for number, ref in enumerate(pictures)}
    lines = [
        _to_units(model, TEXTS, model.encode_texts(list(b)), len(b)) for b in _batches(texts, how.batch_size, "texts")
    ]
    image_ID, text_TD = (np.concatenate(rows) if rows else np.zeros((0, 0), np.float32) for rows in (vectors, lines))
    if len(image_ID) and len(text_TD) and image_ID.shape[1] != text_TD.shape[1]:
        widths = f"{image_ID.shape[1]} and {text_TD.shape[1]} numbers"
        raise UserError(f"{type(model).__name__}: vectors of pictures and texts have {widths}; give those of one space")
    return Embeddings(image_ID, text_TD, image_row, {text: row for row, text in enumerate(texts)}, failed)


def _batches(values: Sequence[str], size: int, what: str) -> Iterator[Sequence[str]]:
    """Yield batches and show how far they are."""
    with ProgressLine(what, len(values)) as progress:
        for start in range(0, len(values), size):
            yield values[start : start + size]
            progress.update(len(values[start : start + size]))


def _load_pictures(refs: Sequence[str], upright: bool, failed: dict[str, str]) -> dict[str, Image]:
    pictures = {}
    for ref in refs:
        try:
            pictures[ref] = vqa.load_picture(ref, upright)
        except ImageError as error:
            failed[ref] = error.reason
    return pictures


def _to_array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().float().cpu().numpy()
    return np.asarray(values, dtype=np.float32)


def _to_units(model: Any, way: str, values: Any, count: int) -> np.ndarray:
    """Return unit vectors [B, D] of what a model gave. Raises UserError for another shape, or for what is no number."""
    vector_BD = _to_array(values)
    if vector_BD.ndim != 2 or len(vector_BD) != count:
        raise UserError(f"{type(model).__name__}.{way}: gave {list(vector_BD.shape)} for {count}; give [{count}, D]")
    length_B1 = np.linalg.norm(vector_BD, axis=1, keepdims=True)
    if not np.isfinite(length_B1).all() or not length_B1.all():
        raise UserError(f"{type(model).__name__}.{way}: gave vectors that are zero or no numbers")
    return vector_BD / length_B1


def _pair_scores(model: Any, how: Scoring) -> Scores:
    def scores(pairs: Sequence[Pair]) -> np.ndarray:
        batches = (pairs[start : start + how.batch_size] for start in range(0, len(pairs), how.batch_size))
        return np.concatenate([_score_batch(model, batch, how.upright) for batch in batches])

    return scores


def _score_batch(model: Any, pairs: Sequence[Pair], upright: bool) -> np.ndarray:
    pictures = {ref: vqa.load_picture(ref, upright) for ref in dict.fromkeys(ref for ref, _ in pairs)}
    score_P = _to_array(model.score_pairs([pictures[ref] for ref, _ in pairs], [text for _, text in pairs]))
    if score_P.shape != (len(pairs),) or not np.isfinite(score_P).all():
        name, shape = type(model).__name__, list(score_P.shape)
        raise UserError(f"{name}.{PAIRS}: gave {shape} for {len(pairs)} pairs; give as many finite numbers")
    return score_P


class OpenClipEncoder:
    """An open_clip model as a training loop has it: module, `preprocess` of a picture, and `tokenizer` of texts."""

    def __init__(self, model: Any, preprocess: Callable, tokenizer: Callable) -> None:
        self.model, self.preprocess, self.tokenizer = model, preprocess, tokenizer
        self.device = next(model.parameters()).device

    def encode_images(self, pictures: Sequence[Image]) -> torch.Tensor:
        """Return vectors [B, D] of pictures."""
        return self.model.encode_image(torch.stack([self.preprocess(p) for p in pictures]).to(self.device))

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return vectors [B, D] of texts."""
        return self.model.encode_text(self.tokenizer(list(texts)).to(self.device))
