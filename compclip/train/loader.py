"""The batches of a run, step by step: which samples a step has, and their views as tensors.

B images, K negatives, J pictures of a block, L text positions, M concepts, R regions.

A batch depends on its step alone: `train.workers` processes that make batches ahead change nothing but the time.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.data.images import ImageError
from compclip.interface.views import Regions, Target, Views
from compclip.model import t5, towers
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import REPLACED
from compclip.train import picture_views
from compclip.train.batch import (
    CAPTION,
    CONCEPT,
    NEGATIVE,
    NEGATIVE_IMAGES,
    POSITIVE,
    REGION_CROPS,
    REGION_LEFT,
    REGION_TEXTS,
    REGIONS,
    TARGET,
    Batch,
    Concepts,
    PictureBlock,
    RegionView,
    TextBlock,
    View,
)
from compclip.train.picture_views import WHOLE
from compclip.train.view_maker import ViewMaker

WINDOW = 16  # shards whose samples are mixed at a time
AHEAD = 2  # batches that each worker has ready
LOOK_S = 0.5  # between two looks of a worker whether the process that it works for is still there

# Counts of parts of a batch's rows, of which the first so many are its own samples, no neighbours.
CountParts = Callable[[list[View], Views, int], dict[str, dict[str, int]]]


def full_order(size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of samples in an epoch: a function of (seed, epoch) alone."""
    numbers = np.arange(size, dtype=np.uint32)
    np.random.default_rng((seed, epoch, 1 << 40)).shuffle(numbers)  # as `permutation`, which makes a copy first
    return numbers


def windowed_order(sizes: Sequence[int], seed: int, epoch: int) -> np.ndarray:
    """Return an order for disks that are slow to seek: shards in random order, samples mixed within `WINDOW` shards."""
    rng = np.random.default_rng((seed, epoch, 1 << 41))
    ends = np.cumsum(sizes)
    shards = rng.permutation(len(sizes))
    samples_of_shard = np.split(np.arange(ends[-1], dtype=np.uint32), ends[:-1])
    order = []
    for start in range(0, len(shards), WINDOW):
        window = [samples_of_shard[shard] for shard in shards[start : start + WINDOW]]
        order.append(rng.permutation(np.concatenate(window)))
    return np.concatenate(order)


class EpochSampler:
    """The samples of an epoch in its order, batch by batch; unreadable pictures give way to the next sample.

    Of `world` processes each makes the part of every batch that its `rank` stands for. Raises UserError where the data
    is smaller than a batch, or a batch cannot be shared evenly.
    """

    def __init__(self, maker: ViewMaker, batch_size: int, rank: int = 0, world: int = 1, shuffle: str = "full") -> None:
        count = len(maker.data)
        if count < batch_size:
            raise UserError(f"train.batch_size={batch_size}: the data has {count} samples; lower the batch size")
        if batch_size % world:
            raise UserError(
                f"train.batch_size={batch_size}: not a multiple of the {world} processes of this run; "
                "change one of them"
            )
        self.maker = maker
        self.batch_size = batch_size
        self.per_epoch = count // batch_size
        order = functools.partial(full_order, count, maker.seed)
        if shuffle != "full":
            order = functools.partial(windowed_order, maker.data.sizes, maker.seed)
        self._order = functools.lru_cache(2)(order)
        self.first = rank * batch_size // world
        self.share = batch_size // world
        self._warned = False

    def prepare_epoch(self, step: int) -> None:
        """Make what a step's whole epoch needs."""
        self._order(step // self.per_epoch)

    def batch(self, step: int, views: Views) -> tuple[list[View], dict[str, int]]:
        """Return the views of optimiser step `step` (counted from 0), and counts of replaced pictures by reason."""
        epoch, step_in_epoch = divmod(step, self.per_epoch)
        start = step_in_epoch * self.batch_size + self.first
        dropped: Counter[str] = Counter()
        indices = []
        rows = []
        for position in range(start, start + self.share):
            index, row = self._readable(position, epoch, views, dropped)
            indices.append(index)
            rows.append(row)
        for index in indices if views.neighbours else ():
            for neighbour in self.maker.neighbours(index, epoch, views.neighbours):
                try:
                    rows.append(self.maker.view(neighbour, epoch, views))
                except ImageError as error:
                    dropped[f"neighbour_{error.reason}"] += 1
        for row in rows:
            dropped["negative_image_missing"] += row.negative_images.count(None)
            dropped[REGION_LEFT] += row.faults.get(REGION_LEFT, 0)
        return rows, +dropped  # without zeros

    def _readable(self, position: int, epoch: int, views: Views, dropped: Counter[str]) -> tuple[int, View]:
        """Return the first sample from a position on whose picture can be read, and its view.

        The first picture that cannot is named in a warning.
        """
        permuted = self._order(epoch)
        for shift in range(len(permuted)):
            index = int(permuted[(position + shift) % len(permuted)])
            try:
                view = self.maker.view(index, epoch, views)
            except ImageError as error:
                dropped[error.reason] += 1
                if not self._warned:
                    messages.warn(f"{error}; where a picture cannot be read, the next sample is trained in its place")
                self._warned = True
            else:
                return index, replace(view, faults={**view.faults, REPLACED: 1}) if shift else view
        raise UserError("no picture of the data can be read; check data.<name>.images")


@dataclass(frozen=True)
class _Steps(Dataset[Batch | str]):
    """The batch of a step, as torch's loader asks for it: by number."""

    sampler: EpochSampler
    views_at: Callable[[int], Views]
    model: ClipModel
    count_parts: CountParts

    def make(self, step: int) -> Batch:
        """Return the batch of a step."""
        views = self.views_at(step)
        samples, dropped = self.sampler.batch(step, views)
        batch = collate(samples, views, self.model, dropped)
        return replace(batch, counts={**batch.counts, **self.count_parts(samples, views, self.sampler.share)})

    def __getitem__(self, step: int) -> Batch | str:
        """Return the batch of a step, or the line of its UserError: torch would add a worker's traceback to that."""
        try:
            return self.make(step)
        except UserError as error:
            return str(error)


def picture_bytes(sampler: EpochSampler, views: Views, model: ClipModel) -> int:
    """Return the size of a batch's pictures, uint8, of one process."""
    crops = views.regions.count if views.regions and views.regions.crops else 0
    return sampler.share * (1 + views.neighbours + views.negative_images + crops) * 3 * model.image_size**2


@contextlib.contextmanager
def open_batches(
    sampler: EpochSampler,
    views_at: Callable[[int], Views],
    model: ClipModel,
    steps: range,
    workers: int,
    count_parts: CountParts = lambda _rows, _views, _samples: {},
) -> Iterator[Iterator[Batch]]:
    """Give an iterator over the batches of `steps`, on the CPU.

    `views_at` gives what a step needs of every sample; what `count_parts` counts travels with the batch. Raises
    UserError where a worker was killed, in place of the error that the block ends by.
    """
    dataset = _Steps(sampler, views_at, model, count_parts)
    if not workers:
        yield map(dataset.make, steps)
        return
    sampler.prepare_epoch(steps.start)  # what every worker would make for itself is made before they part
    # fork: a worker reads the samples, and never touches the model's weights
    batches: Any = iter(DataLoader(
        dataset, batch_size=None, sampler=steps, num_workers=workers, prefetch_factor=AHEAD,
        pin_memory=torch.cuda.is_available(), multiprocessing_context="fork", worker_init_fn=_set_up_worker,
    ))  # fmt: skip
    try:
        yield map(_require_batch, batches)
    except Exception as error:
        name = _find_killing_signal(batches._workers)
        if name:
            raise UserError(
                f"train.workers={workers}: a process that makes batches was killed by {name}; memory may have run out, "
                "or shared memory (SIGBUS): lower train.workers; the same command goes on from the last checkpoint"
            ) from error
        raise
    finally:
        # Left to the garbage collector, as part of an error's cycle, its queues end before it and no worker hears of
        # the end: each is waited for five seconds then.
        batches._shutdown_workers()


def _require_batch(batch: Batch | str) -> Batch:
    if isinstance(batch, str):
        raise UserError(batch)
    return batch


def _find_killing_signal(workers: Sequence[BaseProcess]) -> str:
    """Return the name of the signal that killed a worker; empty where none was killed.

    A dead worker is told by torch from a handler of SIGCHLD, in the midst of whatever the main thread does, or by a
    connection that ends.
    """
    for worker in workers:
        if connection.wait([worker.sentinel], 0):
            worker.join()
        if worker.exitcode and worker.exitcode < 0:
            return signal.Signals(-worker.exitcode).name
    return ""


def _set_up_worker(_worker: int) -> None:
    """Set up a worker: signals are left to the process that saves, one thread, and memory it inherits stays shared."""
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)


def _leave_with_parent() -> None:
    """End this worker by its parent's SIGTERM, by nobody else's, and when the parent was killed.

    A parent that ends by an error waits for its workers. One that was killed reads no batch any more: a worker that
    has one to hand over would wait for ever, with the run's lock, which it has inherited.
    """
    parent = multiprocessing.parent_process()
    assert parent
    while os.getppid() == parent.pid:
        info = signal.sigtimedwait([signal.SIGTERM], LOOK_S)
        if info and info.si_pid == parent.pid:
            break
    os._exit(0)


# Views to tensors: the only place where texts become tokens


def collate(rows: list[View], views: Views, model: ClipModel, dropped: dict[str, int] | None = None) -> Batch:
    """Return the batch of some views; texts that a rule could not make are masked.

    Pictures stay uint8, a quarter of what they are as a model takes them: the step normalises them on its device.
    """
    text_BL = model.tokenize([row.caption for row in rows])
    length = text_BL.shape[1]
    concepts, concept_ML = _locate_concepts(rows, views, model, length)
    texts = {
        CAPTION: TextBlock(text_BL),
        NEGATIVE: _tokenize_texts([row.negatives for row in rows], model, length),
        POSITIVE: _tokenize_texts([row.positives for row in rows], model, length),
        CONCEPT: TextBlock(concept_ML),
    }
    pictures = {}
    if views.negative_images:
        mask_BJ, shown_pictures = _flatten_rows([row.negative_images for row in rows], None)
        pictures[NEGATIVE_IMAGES] = _stack_pictures(shown_pictures, mask_BJ, model)
    if views.regions:
        texts[REGION_TEXTS], region_pictures = _lay_out_regions(rows, views.regions, model, length)
        pictures |= region_pictures
    for name in views.named_texts:
        texts[name] = _tokenize_texts([row.texts[name] for row in rows], model, length)
    return Batch(
        image_B3HW=model.stack_pictures([row.image for row in rows]),
        texts=_cut_texts(texts, model),
        concepts=concepts,
        pictures=pictures,
        target_BL=_tokenize_targets(rows, views.target, model) if views.target else None,
        statistics_23=model.statistics(picture_views.IMAGENET if views.statistics == "imagenet" else None),
        counts={"dropped": dropped or {}},
    )


def _cut_texts(texts: dict[str, TextBlock], model: ClipModel) -> dict[str, TextBlock]:
    """Return blocks of texts as long as the longest text; only the CPU can tell that without a wait."""
    T = 0
    lengths = {}
    for name, block in texts.items():
        length = towers.measure_lengths(model.clip, block.ids)
        lengths[name] = length.numpy()
        if length.numel():
            T = max(T, int(length.max()))
    blocks = {}
    for name, block in texts.items():
        # copies: a worker that sends a tensor moves it to shared memory and frees what a view of it would see
        encoded = None if block.mask is None else block.mask.numpy().copy()
        blocks[name] = TextBlock(block.ids[..., :T].contiguous(), block.mask, encoded, lengths[name])
    return blocks


def _lay_out_regions(
    rows: list[View], asked: Regions, model: ClipModel, length: int
) -> tuple[TextBlock, dict[str, PictureBlock]]:
    """Return the texts of all regions, their boxes and, where asked for, each as a picture.

    A region that is not there is the whole picture, without a text.
    """
    absent = RegionView(WHOLE, (None,) * asked.texts)
    mask_BR, regions = _flatten_rows([row.regions for row in rows], absent)
    shape = tuple(mask_BR.shape)
    block = _tokenize_texts([region.texts for region in regions], model, length)
    assert block.mask is not None
    texts = TextBlock(block.ids.unflatten(0, shape), block.mask.unflatten(0, shape))
    box_A4 = torch.tensor([region.box for region in regions], dtype=torch.float32)
    pictures = {REGIONS: PictureBlock(mask_BR, box_BJ4=box_A4.unflatten(0, shape))}
    if asked.crops:
        pictures[REGION_CROPS] = _stack_pictures([region.crop for region in regions], mask_BR, model)
    return texts, pictures


def _tokenize_targets(rows: list[View], target: Target, model: ClipModel) -> Tensor:
    """Return the tokens of the target texts, padded with -1."""
    texts = [row.texts[TARGET][0] or "" for row in rows]
    if target.tokenizer != "own":
        return t5.tokenize_targets(target.tokenizer, texts, model.tokenize([""]).shape[1])
    ids_BL = model.tokenize(texts)
    layout = model.tokenizer.layout
    L = ids_BL.shape[1]
    mask_BL = towers.mask_own_tokens(ids_BL, L, layout) | (torch.arange(L) < layout.starts)
    return ids_BL.masked_fill(~mask_BL, -1)


def _flatten_rows(values_BJ: Sequence[Sequence[Any]], absent: Any) -> tuple[Tensor, list[Any]]:
    """Return which values are there [B, J], not None, and all B * J in a row, `absent` in place of the others."""
    values_A = list(itertools.chain.from_iterable(values_BJ))
    is_there_A = [value is not None for value in values_A]
    mask_BJ = torch.tensor(is_there_A, dtype=torch.bool).reshape(len(values_BJ), -1)
    return mask_BJ, [absent if value is None else value for value in values_A]


def _stack_pictures(pictures_A: list[Image.Image | None], mask_BJ: Tensor, model: ClipModel) -> PictureBlock:
    """Return B * J pictures beside those of the batch, grey where one is missing."""
    blank = Image.new("RGB", (model.image_size, model.image_size), "grey")
    image_A3HW = model.stack_pictures([picture or blank for picture in pictures_A])
    return PictureBlock(mask_BJ, image_A3HW.unflatten(0, tuple(mask_BJ.shape)))


def _tokenize_texts(texts_BK: list[tuple[str | None, ...]], model: ClipModel, length: int) -> TextBlock:
    mask_BK, flat = _flatten_rows(texts_BK, "")
    ids = model.tokenize(flat) if flat else torch.zeros(0, length, dtype=torch.long)
    return TextBlock(ids.reshape(*mask_BK.shape, ids.shape[-1]), mask_BK)


def _locate_concepts(rows: list[View], views: Views, model: ClipModel, length: int) -> tuple[Concepts, Tensor]:
    """Return where all concepts are and, where they are encoded, their tokens; without those beyond the context."""
    spans = []
    texts = []
    owners = []
    for owner, row in enumerate(rows):
        for start, end in row.concepts:
            # positions of the span's tokens, the last exclusive: no tokenizer joins tokens across words
            first = model.starts + model.count_tokens(row.caption[:start])
            last = model.starts + model.count_tokens(row.caption[:end])
            if first < last < length:
                spans.append((first, last))
                texts.append(row.caption[start:end])
                owners.append(owner)
    owner_M = torch.tensor(owners, dtype=torch.long)
    counts = tuple(owner_M.bincount(minlength=len(rows)).tolist())
    concepts = Concepts(torch.tensor(spans, dtype=torch.long).reshape(-1, 2), owner_M, counts)
    is_encoded = texts and views.concepts == "encoded"
    return concepts, model.tokenize(texts) if is_encoded else torch.zeros(0, length, dtype=torch.long)
