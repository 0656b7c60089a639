"""Encode every unique image and text once per checkpoint; pictures are read, cut out and scaled once for all of them.

M models, N vectors, I images, T texts, D joint dim, L text length.

Models that are fed alike are encoded together: a picture is read and prepared once, a text tokenised once for them all.

float32, unless `bf16` is asked for: then on a GPU, products in bfloat16 and vectors in float32. Texts are encoded in
sorted order, so that the order of the benchmarks changes nothing, and what neighbours begin with alike is computed once
(`model.inference_towers`). Another batch size or another set of benchmarks may change a last bit, the number of threads
does not; equal texts share one embedding, so that a tie is exactly a tie.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from compclip.base.errors import UserError
from compclip.base.progress_line import ProgressLine
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.data import images as data_images
from compclip.evaluate.benchmark import parse_reference
from compclip.evaluate.embeddings import Embeddings, cut_batches, number_keys
from compclip.model import inference_towers
from compclip.model.inference_towers import ReplicaPool

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModel, ClipModule

B = TypeVar("B")  # a batch
CACHE_BYTES = 2 << 30  # bytes of prepared pictures: some ten thousand of 224 x 224
FARTHEST = 1e9  # pixels from a picture's corner: Pillow counts in 32 bits
COLOURS = ("mean", "std")  # of a preparation what is done with numbers, later


def encode(model: ClipModel, refs: Iterable[str], texts: Iterable[str], how: Scoring = DEFAULT_SCORING) -> Embeddings:
    """Encode each different image and text once with `model`, on its device; as `encode_all` of one model."""
    return encode_all([model], refs, texts, how)[0]


def encode_all(
    models: Sequence[ClipModel],
    refs: Iterable[str],
    texts: Iterable[str],
    how: Scoring = DEFAULT_SCORING,
    pictures: PreparedPictures | None = None,
    copies: Sequence[Sequence[ClipModel]] = (),
) -> list[Embeddings]:
    """Embed with several models that are fed alike (`score.group_by_inputs`); results equal those of each alone.

    `how.threads` batches are under way at once, each on one thread: that needs no barriers between threads, which on
    busy cores cost many times the work itself, and the bits do not depend on the number of threads. An image that
    cannot be read is listed in `failed`. Prepared pictures are taken from `pictures`. `copies` of the models on further
    devices take a batch whenever they are free. Raises UserError where an embedding is not finite.
    """
    if how.precision != "float32" and any(device(model).type == "cpu" for model in models):
        # a CPU's bf16 is other arithmetic than a GPU's, and slower than float32 on most; results would not tell which
        raise UserError(f"evaluate.precision={how.precision}: only on a GPU; set evaluate.precision=float32")
    refs = sorted(set(refs))
    texts = sorted(set(texts))
    clip = models[0].clip
    replicas = ReplicaPool([models, *copies], how.threads)
    modules = [m.clip for m in chain.from_iterable(replicas.replicas)]
    with inference_towers.evaluation_mode(modules), ExitStack() as progress_lines, open_pool(replicas, how) as pool:
        size = inference_towers.image_batch_size(clip, how.batch_size)
        image_batch = partial(_image_batch, replicas, how, pictures or PreparedPictures())
        pictures_done = progress_lines.enter_context(ProgressLine("pictures", len(refs)))
        # pictures are under way while texts are tokenised
        under_way = pool.map(_counting(image_batch, pictures_done, len), cut_batches(refs, size))
        ids_TL = models[0].tokenize(texts) if texts else torch.zeros(0, 0)
        token_batches = _token_batches(clip, texts, ids_TL, inference_towers.text_batch_size(clip, how.batch_size))
        texts_done = progress_lines.enter_context(ProgressLine("texts", len(texts)))
        text_batch = _counting(partial(_text_batch, replicas, how), texts_done, lambda batch: len(batch[0]))
        text_batches = list(pool.map(text_batch, token_batches))
        image_batches = list(under_way)
    return [_embeddings(model, number, image_batches, text_batches) for number, model in enumerate(models)]


def _counting(work: Callable[[B], _VectorBatch], progress: ProgressLine, size: Callable[[B], int]) -> Callable:
    """Return `work` on a batch, which counts as done afterwards."""

    def counted(batch: B) -> _VectorBatch:
        vectors = work(batch)
        progress.update(size(batch))
        return vectors

    return counted


def _embeddings(
    model: ClipModel, number: int, images: Sequence[_VectorBatch], lines: Sequence[_VectorBatch]
) -> Embeddings:
    """Return a model's vectors; a text's by the tower's projection and, behind that in its row, by the head's."""
    image_row, image_ID = _join_batches(images, number)
    text_row, text_TD = _join_batches(lines, number)
    if not (np.isfinite(image_ID).all() and np.isfinite(text_TD).all()):
        raise UserError(f"{model.source}: gives embeddings that are not numbers; it diverged: train it with a lower lr")
    failed: dict[str, str] = {}
    for batch in images:
        failed |= batch.failed
    embeddings = Embeddings(image_ID, text_TD, image_row, text_row, failed)
    if model.head is None or not model.head.reads_raw:
        return embeddings
    tower_TD, long_TD = np.split(text_TD, [model.head.options["width"]], axis=1)
    return replace(embeddings, text_TD=np.ascontiguousarray(tower_TD), long_TD=np.ascontiguousarray(long_TD))


@contextmanager
def one_thread_each(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool whose jobs compute on one thread each; torch has as many as before when it is left.

    Jobs that have not begun when it is left by an error, or by Ctrl-C, are dropped.
    """
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(max(1, workers), initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def open_pool(replicas: ReplicaPool, how: Scoring) -> AbstractContextManager[ThreadPoolExecutor]:
    """Return a pool of `how.threads` threads that compute on one thread each, of more where there are more devices."""
    return one_thread_each(max(how.threads, len(replicas.replicas)))


@dataclass(frozen=True)
class _VectorBatch:
    """Keys and their vectors by each model, and the reasons for the images that have none."""

    keys: Sequence[str]
    vector_MBD: Sequence[np.ndarray]
    failed: dict[str, str] = field(default_factory=dict)


def _image_batch(
    replicas: ReplicaPool[Sequence[ClipModel]], how: Scoring, pictures: PreparedPictures, refs: Sequence[str]
) -> _VectorBatch:
    model = replicas.replicas[0][0]
    failed: dict[str, str] = {}
    readable = {}
    for ref in refs:
        picture = pictures.prepare(ref, model, how.upright)
        if isinstance(picture, str):
            failed[ref] = picture
        else:
            readable[ref] = picture
    if not readable:
        return _VectorBatch((), (), failed)
    pixels_B3HW = model.pixels(list(readable.values()))
    return _VectorBatch(list(readable), _vectors(inference_towers.embed_images, replicas, how, pixels_B3HW), failed)


def _text_batch(
    replicas: ReplicaPool[Sequence[ClipModel]], how: Scoring, batch: tuple[Sequence[str], Tensor]
) -> _VectorBatch:
    texts, ids_BL = batch
    return _VectorBatch(texts, _vectors(inference_towers.embed_texts, replicas, how, ids_BL))


def _vectors(
    encode: Callable[[ClipModel, Tensor], Tensor],
    replicas: ReplicaPool[Sequence[ClipModel]],
    how: Scoring,
    inputs: Tensor,
) -> list[np.ndarray]:
    """Return what each model makes of a batch, on a device that is free."""
    with replicas.take() as models, torch.inference_mode(), precision(how):
        return [encode(m, inputs.to(device(m))).float().cpu().numpy() for m in models]


def precision(how: Scoring) -> torch.autocast:
    """Autocast where bf16 is asked for, in the thread that enters it."""
    return torch.autocast("cuda", torch.bfloat16, enabled=how.precision == "bf16")


def _join_batches(batches: Sequence[_VectorBatch], number: int) -> tuple[dict[str, int], np.ndarray]:
    """Return the rows of keys, and their vectors by model `number`."""
    keys: list[str] = []
    vectors = []
    for batch in batches:
        if len(batch.keys):
            keys += batch.keys
            vectors.append(batch.vector_MBD[number])
    return number_keys(keys), np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32)


def _token_batches(clip: ClipModule, texts: list[str], ids_TL: Tensor, size: int) -> Iterator[tuple[list[str], Tensor]]:
    """Yield texts and their token ids, in the batches that the text tower takes."""
    if not texts:
        return
    for row_B in inference_towers.text_batches(clip, ids_TL, size):
        yield [texts[row] for row in row_B.tolist()], ids_TL[row_B]


def device(model: ClipModel) -> torch.device:
    """Return where a model's weights are."""
    return next(model.clip.parameters()).device


# --- pictures -------------------------------------------------------------------------------------------------


class PreparedPictures:
    """Prepared pictures, of which as many as there is room for are kept for the next pass; by default none.

    Models that differ in their preparation share none. Threads may ask at once.
    """

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._prepared: dict[tuple[str, str], Image | str] = {}
        self._lock = threading.Lock()

    def prepare(self, ref: str, model: ClipModel, upright: bool) -> Image | str:
        """Return the picture as the model takes it, or why there is none."""
        preparation = {name: value for name, value in model.preprocess_cfg.items() if name not in COLOURS}
        cache_key = ref, json.dumps([preparation, upright], sort_keys=True)
        if cache_key in self._prepared:
            return self._prepared[cache_key]
        path, box = parse_reference(ref)
        try:
            picture = data_images.load_image(path, upright)
            prepared: Image | str = model.fit_picture(crop_to_box(picture, path, box, upright) if box else picture)
        except data_images.ImageError as error:
            prepared = error.reason
        # Pillow holds a pixel in four bytes
        size = len(prepared) if isinstance(prepared, str) else 4 * prepared.width * prepared.height
        with self._lock:
            if size <= self._room:
                self._room -= size
                self._prepared[cache_key] = prepared
        return prepared


def crop_to_box(picture: Image, path: data_images.ImageSource, box: Sequence[float], upright: bool = True) -> Image:
    """Cut a picture to a box, which is given in pixels of the full size; large JPEGs are read smaller.

    What a box has outside is black, as in the authors' code. Raises ImageError for a box that is none or outside.
    """
    full = data_images.read_size(path, upright=upright)
    if not _is_box(box, *full):
        raise data_images.ImageError(path, "box", f"{full[0]} x {full[1]} has no such part: {box}")
    x, y, width, height = (number * picture.width / full[0] for number in box)
    left, top, right, bottom = map(round, (x, y, x + width, y + height))
    if not (left < picture.width and right > 0 and top < picture.height and bottom > 0):
        raise data_images.ImageError(path, "box", f"{full[0]} x {full[1]} has nothing of the part {box}")
    return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1)))  # a part of a pixel is the pixel


def _is_box(box: Sequence[float], full_width: int, full_height: int) -> bool:
    """Return whether numbers make a box, and one that is not so much larger than its picture that memory fills."""
    width, height = box[2:]
    is_bounded = all(abs(number) <= FARTHEST for number in box)  # false of NaN
    is_one = is_bounded and width > 0 and height > 0 and not data_images.is_too_narrow(width, height)
    return is_one and width * height <= 4 * full_width * full_height
