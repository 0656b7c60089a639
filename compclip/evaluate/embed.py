"""Every unique image and text encoded once per checkpoint.

M models, N vectors, I images, T texts, D joint dim, L text length.

Models that are fed alike are encoded together: a picture is read and prepared once, a text tokenised once for them all.

float32, unless `bf16` is asked for: then on a GPU, products in bfloat16 and vectors in float32. Texts are encoded in
sorted order, so that the order of the benchmarks changes nothing, and what neighbours begin with alike is computed once
(`model.frozen`). Another batch size or another set of benchmarks may change a last bit, the number of threads does not;
equal texts share one embedding, so that a tie is exactly a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from compclip.base.errors import UserError
from compclip.config.how import USUAL, How
from compclip.data import images as data_images
from compclip.evaluate.boxes import unboxed
from compclip.evaluate.cache import Cache, key
from compclip.evaluate.embeddings import Embeddings
from compclip.evaluate.pictures import Pictures
from compclip.model import frozen

if TYPE_CHECKING:
    from compclip.model.backbone import Model


def encode(model: Model, refs: Iterable[str], texts: Iterable[str], how: How = USUAL) -> Embeddings:
    """Encode each different image and text once with `model`, on its device; as `encode_all` of one model."""
    return encode_all([model], refs, texts, how)[0]


def encode_all(
    models: Sequence[Model],
    refs: Iterable[str],
    texts: Iterable[str],
    how: How = USUAL,
    weights: Sequence[str] = (),
    pictures: Pictures | None = None,
) -> list[Embeddings]:
    """The embeddings of each of some models that are fed alike (`model.sharing`), to the bit those of each by itself.

    `how.threads` batches are under way at once, each on one thread: that needs no barriers between threads, which on
    busy cores cost many times the work itself, and the bits do not depend on the number of threads. An image that
    cannot be read is listed in `failed`. With the models' fingerprints as `weights`, what `how.cache` knows of all of
    them is taken from there, and prepared pictures from `pictures`. Raises UserError where an embedding is not finite.
    """
    _check_alike(models)
    _check_precision(models, how)
    caches = [Cache.of(*one, how) for one in zip(weights, models, strict=False)] if how.cache else []
    refs, texts, clip = sorted(set(refs)), sorted(set(texts)), models[0].clip
    with evaluating([m.clip for m in models]), one_thread_each(how.threads) as pool:
        seen = _Known.of(caches, dict(zip(refs, pool.map(_content, refs), strict=True)) if caches else {})
        parts = batched(seen.rest(refs), frozen.batch_of_images(clip, how.batch_size))
        image_batch = partial(_image_batch, models, how, pictures or Pictures())
        under_way = pool.map(image_batch, parts)  # while texts are tokenised
        ids_TL = models[0].tokenize(texts) if texts else torch.zeros(0, 0)
        read = _Known.of(caches, _named(texts, ids_TL) if caches else {})
        rows = _tokenised(clip, texts, ids_TL, read.rest(texts), frozen.batch_of_texts(clip, how.batch_size))
        lines = [*read.batches, *pool.map(partial(_text_batch, models, how), rows)]
        images = [*seen.batches, *under_way]
    made = [_embeddings(model, number, images, lines) for number, model in enumerate(models)]
    for cache, one in zip(caches, made, strict=False):  # none where nothing is kept
        cache.add(seen.new(one.image_row, one.image_ID) | read.new(one.text_row, one.text_TD))
    return made


def _content(ref: str) -> bytes:
    """What a picture is known by; nothing for one that cannot be read, which is found out when it is."""
    path, box = unboxed(ref)
    try:
        return key(data_images.read(path), repr(box).encode())
    except data_images.ImageError:
        return b""


def _named(texts: Sequence[str], ids_TL: Tensor) -> dict[str, bytes]:
    return {text: key(ids_L.tobytes()) for text, ids_L in zip(texts, ids_TL.numpy(), strict=True)}


@dataclass(frozen=True)
class _Known:
    """What the caches of all models hold of some images or texts, as if it were batches; and what they are known by."""

    key_of: dict[str, bytes]
    batches: list[_Batch]

    @classmethod
    def of(cls, caches: Sequence[Cache], key_of: dict[str, bytes]) -> _Known:
        wanted = set(key_of.values())
        known = [cache.known(wanted) for cache in caches]
        there = [name for name, one in key_of.items() if known and all(one in vectors for vectors in known)]
        batch = _Batch(there, [np.stack([vectors[key_of[name]] for name in there]) for vectors in known if there])
        return cls(key_of, [batch] if there else [])

    def rest(self, names: list[str]) -> list[str]:
        """Those that must be encoded."""
        known = {name for batch in self.batches for name in batch.keys}
        return [name for name in names if name not in known]

    def new(self, row_of: dict[str, int], vector_ND: np.ndarray) -> dict[bytes, np.ndarray]:
        """The vectors that were not known, for the cache."""
        names = self.rest([name for name in row_of if self.key_of.get(name)])
        return {self.key_of[name]: vector_ND[row_of[name]] for name in names}


def _check_alike(models: Sequence[Model]) -> None:
    for model in models[1:]:
        if model.preprocess_cfg != models[0].preprocess_cfg or model.tokenizer.record != models[0].tokenizer.record:
            raise ValueError(f"{model.source} and {models[0].source} are not fed alike")


def _check_precision(models: Sequence[Model], how: How) -> None:
    """A CPU's bf16 is other arithmetic than a GPU's, and slower than float32 on most; results would not tell which."""
    if how.precision != "float32" and any(device(model).type == "cpu" for model in models):
        raise UserError(f"evaluate.precision={how.precision}: only on a GPU; set evaluate.precision=float32")


def _embeddings(model: Model, number: int, images: Sequence[_Batch], lines: Sequence[_Batch]) -> Embeddings:
    image_row, image_ID = _joined(images, number)
    text_row, text_TD = _joined(lines, number)
    if not (np.isfinite(image_ID).all() and np.isfinite(text_TD).all()):
        raise UserError(f"{model.source}: gives embeddings that are not numbers; it diverged: train it with a lower lr")
    failed = {ref: reason for batch in images for ref, reason in batch.failed.items()}
    return Embeddings(image_ID, text_TD, image_row, text_row, failed)


@contextmanager
def evaluating(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Evaluation mode and full float32 on any device, and everything as it was afterwards."""
    different = list(dict.fromkeys(modules))
    were_training = [module.training for module in modules]
    for module in modules:
        module.eval()
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False), frozen.packing(different):
            yield
    finally:
        for module, was_training in zip(modules, were_training, strict=True):
            module.train(was_training)


@contextmanager
def one_thread_each(workers: int) -> Iterator[ThreadPoolExecutor]:
    """A pool whose jobs compute on one thread each; torch has as many as before when it is left."""
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(max(1, workers), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


def batched(values: Sequence[str], size: int) -> list[Sequence[str]]:
    """Consecutive parts of at most `size` values."""
    return [values[start : start + size] for start in range(0, len(values), size)]


@dataclass(frozen=True)
class _Batch:
    """Keys and their vectors by each model, and the reasons for the images that have none."""

    keys: Sequence[str]
    vector_MBD: Sequence[np.ndarray]
    failed: dict[str, str] = field(default_factory=dict)


def _image_batch(models: Sequence[Model], how: How, pictures: Pictures, refs: Sequence[str]) -> _Batch:
    found = {ref: pictures.of(ref, models[0], how.upright) for ref in refs}
    failed = {ref: reason for ref, reason in found.items() if isinstance(reason, str)}
    good = {ref: picture for ref, picture in found.items() if not isinstance(picture, str)}
    if not good:
        return _Batch((), (), failed)
    pixels_B3HW = models[0].pixels(list(good.values()))
    return _Batch(list(good), _vectors(frozen.image, models, how, pixels_B3HW), failed)


def _text_batch(models: Sequence[Model], how: How, batch: tuple[Sequence[str], Tensor]) -> _Batch:
    texts, ids_BL = batch
    return _Batch(texts, _vectors(frozen.text, models, how, ids_BL))


def _vectors(tower: Callable, models: Sequence[Model], how: How, inputs: Tensor) -> list[np.ndarray]:
    """What a tower of each model makes of a batch."""
    with torch.inference_mode(), precision(how):
        return [tower(m.clip, inputs.to(device(m))).float().cpu().numpy() for m in models]


def precision(how: How) -> torch.autocast:
    """Autocast where bf16 is asked for, of the thread that enters it."""
    return torch.autocast("cuda", torch.bfloat16, enabled=how.precision == "bf16")


def _joined(batches: Sequence[_Batch], number: int) -> tuple[dict[str, int], np.ndarray]:
    """The rows of keys, and their vectors by model `number`."""
    keys = [key for batch in batches for key in batch.keys]
    parts = [batch.vector_MBD[number] for batch in batches if len(batch.keys)]
    vector_ND = np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
    return {key: row for row, key in enumerate(keys)}, vector_ND


def _tokenised(
    clip: nn.Module, texts: list[str], ids_TL: Tensor, wanted: Sequence[str], size: int
) -> Iterator[tuple[list[str], Tensor]]:
    """The texts that are wanted and their token ids, in the batches that the text tower takes."""
    if not wanted:
        return
    row_of = {text: row for row, text in enumerate(texts)}
    ids_TL = ids_TL[[row_of[text] for text in wanted]]
    for row_B in frozen.parts(clip, ids_TL, size):
        yield [wanted[row] for row in row_B.tolist()], ids_TL[row_B]


def device(model: Model) -> torch.device:
    """Where a model's weights are."""
    return next(model.clip.parameters()).device
