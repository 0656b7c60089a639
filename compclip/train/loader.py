"""The batches of a run, step by step, made ahead by `train.workers` processes; none makes them here, when asked.

A batch depends on its step alone, so that the number of workers changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch.utils.data import DataLoader, Dataset

from compclip.model.backbone import Model
from compclip.train import view_shares
from compclip.train.batch import Batch, Views
from compclip.train.collate import collate
from compclip.train.views import Rows

AHEAD = 2  # batches that each worker has ready


class _Steps(Dataset):
    """The batch of a step, as torch's loader asks for it: by number."""

    def __init__(self, rows: Rows, views: Callable[[int], Views], model: Model) -> None:
        self.rows, self.views, self.model = rows, views, model

    def __getitem__(self, step: int) -> Batch:
        wanted = self.views(step)
        made, dropped = self.rows.batch(step, wanted)
        batch = collate(made, wanted, self.model, dropped)
        return replace(batch, **view_shares.tally(made, wanted, self.rows.own))


def batches(rows: Rows, views: Callable[[int], Views], model: Model, steps: range, workers: int) -> Iterator[Batch]:
    """The batch of each step in turn, on the CPU; `views` says what a step needs of every sample."""
    made = _Steps(rows, views, model)
    if not workers:
        return map(made.__getitem__, steps)
    rows.ready(steps.start)  # what every worker would make for itself is made before they part
    # fork: a worker reads the samples, and never touches the model's weights
    return iter(DataLoader(
        made, batch_size=None, sampler=steps, num_workers=workers, prefetch_factor=AHEAD,
        pin_memory=torch.cuda.is_available(), multiprocessing_context="fork", worker_init_fn=_quiet,
    ))  # fmt: skip


def _quiet(_worker: int) -> None:
    """A worker leaves signals to the process that saves, has one thread, and lets what it inherits lie untouched."""
    import gc
    import signal

    gc.freeze()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)
