"""The batches of a run, step by step, made ahead by `train.workers` processes; with none, made here when needed.

A batch depends on its step alone: the number of workers changes nothing but the time.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch.utils.data import DataLoader, Dataset

from compclip.interface.views import Views
from compclip.model.clip_model import ClipModel
from compclip.train.batch import Batch, View
from compclip.train.collate import collate
from compclip.train.view_maker import EpochSampler

AHEAD = 2  # batches that each worker has ready


# Counts of parts of a batch's rows, of which the first so many are its own samples, no neighbours.
CountParts = Callable[[list[View], Views, int], dict[str, dict[str, int]]]


class _Steps(Dataset[Batch]):
    """The batch of a step, as torch's loader asks for it: by number."""

    def __init__(
        self, sampler: EpochSampler, views_at: Callable[[int], Views], model: ClipModel, count_parts: CountParts
    ) -> None:
        self.sampler, self.views_at, self.model, self.count_parts = sampler, views_at, model, count_parts

    def __getitem__(self, step: int) -> Batch:
        views = self.views_at(step)
        samples, dropped = self.sampler.batch(step, views)
        batch = collate(samples, views, self.model, dropped)
        counts = self.count_parts(samples, views, self.sampler.share)
        return replace(batch, asked=counts.get("asked", {}), had=counts.get("had", {}))


def batches(
    sampler: EpochSampler,
    views_at: Callable[[int], Views],
    model: ClipModel,
    steps: range,
    workers: int,
    count_parts: CountParts = lambda _rows, _views, _samples: {},
) -> Iterator[Batch]:
    """Return an iterator over the batches of `steps`, on the CPU.

    `views_at` gives what a step needs of every sample; what `count_parts` counts travels with the batch.
    """
    dataset = _Steps(sampler, views_at, model, count_parts)
    if not workers:
        return map(dataset.__getitem__, steps)
    sampler.prepare_epoch(steps.start)  # what every worker would make for itself is made before they part
    # fork: a worker reads the samples, and never touches the model's weights
    return iter(DataLoader(
        dataset, batch_size=None, sampler=steps, num_workers=workers, prefetch_factor=AHEAD,
        pin_memory=torch.cuda.is_available(), multiprocessing_context="fork", worker_init_fn=_set_up_worker,
    ))  # fmt: skip


def _set_up_worker(_worker: int) -> None:
    """Set up a worker: signals are left to the process that saves, one thread, and memory it inherits stays shared."""
    gc.freeze()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
