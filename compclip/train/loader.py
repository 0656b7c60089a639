"""The batches of a run, step by step: which samples a step has, and their views as tensors.

B images, K negatives, P extra positives, J negative images, L text positions, M concepts, R regions, C texts of a
region.

A batch depends on its step alone: `train.workers` processes that make batches ahead change nothing but the time.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from compclip.interface.views import Views
from compclip.model import t5, towers
from compclip.model.clip_model import ClipModel
from compclip.runs.run_folder import REPLACED
from compclip.train import composite
from compclip.train.batch import Batch, RegionView, View
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
    windows = [shards[i : i + WINDOW] for i in range(0, len(shards), WINDOW)]
    windows_of_samples = [
        np.concatenate([np.arange(ends[s] - sizes[s], ends[s], dtype=np.uint32) for s in w]) for w in windows
    ]
    return np.concatenate([rng.permutation(window) for window in windows_of_samples])


class EpochSampler:
    """The samples of an epoch in its order, batch by batch; unreadable pictures give way to the next sample.

    Of `world` processes each makes the part of every batch that its `rank` stands for. Raises UserError where the data
    is smaller than a batch, or a batch cannot be shared evenly.
    """

    def __init__(self, maker: ViewMaker, batch_size: int, rank: int = 0, world: int = 1, shuffle: str = "full") -> None:
        if len(maker.data) < batch_size:
            count = len(maker.data)
            raise UserError(f"train.batch_size={batch_size}: the data has {count} samples; lower the batch size")
        if batch_size % world:
            raise UserError(
                f"train.batch_size={batch_size}: not a multiple of the {world} processes of this run; "
                "change one of them"
            )
        self.maker, self.batch_size = maker, batch_size
        self.per_epoch = len(maker.data) // batch_size
        full = functools.partial(full_order, len(maker.data), maker.seed)
        self._order = functools.lru_cache(2)(
            full if shuffle == "full" else functools.partial(windowed_order, maker.data.sizes, maker.seed)
        )
        self.first, self.share = rank * batch_size // world, batch_size // world
        self._warned = False

    def prepare_epoch(self, step: int) -> None:
        """Make what a step's whole epoch needs."""
        self._order(step // self.per_epoch)

    def batch(self, step: int, views: Views) -> tuple[list[View], dict[str, int]]:
        """Return the views of optimiser step `step` (counted from 0), and counts of replaced pictures by reason."""
        epoch, step_in_epoch = divmod(step, self.per_epoch)
        start = step_in_epoch * self.batch_size + self.first
        dropped: Counter[str] = Counter()
        samples = [self._readable(position, epoch, views, dropped) for position in range(start, start + self.share)]
        rows = [row for _, row in samples]
        for index, _ in samples if views.neighbours else ():
            for neighbour in self.maker.neighbours(index, epoch, views.neighbours):
                try:
                    rows.append(self.maker.view(neighbour, epoch, views))
                except ImageError as error:
                    dropped[f"neighbour_{error.reason}"] += 1
        if missing := sum(picture is None for row in rows for picture in row.negative_images):
            dropped["negative_image_missing"] += missing
        if left := sum(row.regions_left for row in rows):
            dropped["region_left"] += left
        return rows, dropped

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
                return index, replace(view, stand_ins=view.stand_ins | {REPLACED}) if shift else view
        raise UserError("no picture of the data can be read; check data.<name>.images")


class _Steps(Dataset[Batch | str]):
    """The batch of a step, as torch's loader asks for it: by number."""

    def __init__(
        self, sampler: EpochSampler, views_at: Callable[[int], Views], model: ClipModel, count_parts: CountParts
    ) -> None:
        self.sampler, self.views_at, self.model, self.count_parts = sampler, views_at, model, count_parts

    def make(self, step: int) -> Batch:
        """Return the batch of a step."""
        views = self.views_at(step)
        samples, dropped = self.sampler.batch(step, views)
        batch = collate(samples, views, self.model, dropped)
        counts = self.count_parts(samples, views, self.sampler.share)
        return replace(batch, asked=counts.get("asked", {}), had=counts.get("had", {}))

    def __getitem__(self, step: int) -> Batch | str:
        """Return the batch of a step, or the line of its UserError: torch would add a worker's traceback to that."""
        try:
            return self.make(step)
        except UserError as error:
            return str(error)


def picture_bytes(sampler: EpochSampler, views: Views, model: ClipModel) -> int:
    """Return the size of a batch's pictures, uint8, of one process."""
    crops = views.regions if views.region_crops else 0
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
        if name := _find_killing_signal(batches._workers):
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
    codes = [worker.exitcode or 0 for worker in workers]
    return signal.Signals(-min(codes)).name if min(codes) < 0 else ""


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
    image_B3HW = model.stack_pictures([row.image for row in rows])
    text_BL = model.tokenize([row.caption for row in rows])
    length = text_BL.shape[1]
    negative_BKL, mask_BK = _tokenize_texts([row.negatives for row in rows], model, length)
    positive_BPL, positive_mask_BP = _tokenize_texts([row.positives for row in rows], model, length)
    span_M2, concept_ML, owner_M = _locate_concepts(rows, views, model, length)
    negative_image_BJ3HW, negative_image_mask_BJ = _stack_negative_images(rows, views, model)
    regions = _collate_regions(rows, views, model, length)
    # Cut here: how long the longest text is, only the CPU can tell without a wait.
    lengths = [towers.measure_lengths(model.clip, ids) for ids in (text_BL, negative_BKL, positive_BPL, concept_ML)]
    lengths += [towers.measure_lengths(model.clip, regions["region_text_BRCL"])] if regions else []
    T = max(int(length.max()) for length in lengths if length.numel())
    return Batch(
        image_B3HW,
        text_BL[:, :T].contiguous(),
        negative_BKL[..., :T].contiguous(),
        mask_BK,
        positive_BPL[..., :T].contiguous(),
        positive_mask_BP,
        span_M2,
        concept_ML[:, :T].contiguous(),
        owner_M,
        dropped or {},
        negative_image_BJ3HW,
        negative_image_mask_BJ,
        _tokenize_targets(rows, views, model),
        statistics_23=model.statistics(composite.IMAGENET if views.statistics == "imagenet" else None),
        # copies: a worker that sends a tensor moves it to shared memory and frees what a view of it would see
        encoded_BK=mask_BK.numpy().copy(),
        encoded_BP=positive_mask_BP.numpy().copy(),
        length_B=lengths[0].numpy(),
        length_BK=lengths[1].numpy(),
        length_BP=lengths[2].numpy(),
        length_M=lengths[3].numpy(),
        concept_counts=tuple(owner_M.bincount(minlength=len(rows)).tolist()),
        **_cut_region_texts(regions, lengths[-1], T),
    )


def _collate_regions(rows: list[View], views: Views, model: ClipModel, length: int) -> dict[str, Tensor]:
    """Return the batch's fields of regions; nothing where no method asks for them."""
    if not views.regions:
        return {}
    absent = RegionView((0.0, 0.0, 1.0, 1.0), (None,) * views.region_texts)
    regions = [region or absent for row in rows for region in row.regions]
    text_NCL, mask_NC = _tokenize_texts([region.texts for region in regions], model, length)
    shape = (len(rows), views.regions)
    fields = {
        "region_box_BR4": torch.tensor([region.box for region in regions], dtype=torch.float32).reshape(*shape, 4),
        "region_mask_BR": torch.tensor([[region is not None for region in row.regions] for row in rows]),
        "region_text_BRCL": text_NCL.unflatten(0, shape),
        "region_text_mask_BRC": mask_NC.unflatten(0, shape),
    }
    if views.region_crops:
        blank = Image.new("RGB", (model.image_size, model.image_size), "grey")
        crops_N3HW = model.stack_pictures([region.crop or blank for region in regions])
        fields["region_crop_BR3HW"] = crops_N3HW.unflatten(0, shape)
    return fields


def _cut_region_texts(fields: dict[str, Tensor], length_BRC: Tensor, T: int) -> dict[str, Any]:
    """Return the fields of regions with texts of T positions, and what the host knows of these."""
    if not fields:
        return {}
    known = {"encoded_BRC": fields["region_text_mask_BRC"].numpy().copy(), "length_BRC": length_BRC.numpy()}
    return fields | known | {"region_text_BRCL": fields["region_text_BRCL"][..., :T].contiguous()}


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
    return model.stack_pictures(pictures).unflatten(0, tuple(there_BJ.shape)), there_BJ


def _tokenize_texts(texts_BK: list[tuple[str | None, ...]], model: ClipModel, length: int) -> tuple[Tensor, Tensor]:
    mask_BK = torch.tensor([[t is not None for t in texts] for texts in texts_BK], dtype=torch.bool)
    mask_BK = mask_BK.reshape(len(texts_BK), -1)
    flat = [t or "" for texts in texts_BK for t in texts]
    ids = model.tokenize(flat) if flat else torch.zeros(0, length, dtype=torch.long)
    return ids.reshape(*mask_BK.shape, ids.shape[-1]), mask_BK


def _locate_concepts(rows: list[View], views: Views, model: ClipModel, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return token spans, texts and owners of all concepts, without those beyond the context length."""
    spans, texts, owners = [], [], []
    for owner, row in enumerate(rows):
        for start, end in row.concepts:
            # positions of the span's tokens, the last exclusive: no tokenizer joins tokens across words
            first, last = (model.starts + model.count_tokens(row.caption[:character]) for character in (start, end))
            if first < last < length:
                spans.append((first, last))
                texts.append(row.caption[start:end])
                owners.append(owner)
    span_M2 = torch.tensor(spans, dtype=torch.long).reshape(-1, 2)
    is_encoded = texts and views.concepts == "encoded"
    concept_ML = model.tokenize(texts) if is_encoded else torch.zeros(0, length, dtype=torch.long)
    return span_M2, concept_ML, torch.tensor(owners, dtype=torch.long)
