"""How well a run uses its device: the model's floating-point operations against the device's own matrix rate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from compclip.base import lean
from compclip.train import encode
from compclip.train.accumulate import sloped
from compclip.train.batch import Batch, Views

SIDES = {"cpu": 1024, "cuda": 8192}  # of the square matrices that the rate is measured with
REPEATS = 5
SAMPLES = 2  # whose operations are counted


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a large matrix product, the best of a few, at the threads now set."""
    side = SIDES.get(device.type, 1024)
    a = torch.ones(side, side, device=device, dtype=dtype)
    return 2 * side**3 / min(_timed(lambda: a @ a, device) for _ in range(REPEATS))


def _timed(work: Callable[[], object], device: torch.device) -> float:
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


class Meter:
    """Counts a process's work while it trains: operations, time, and time spent waiting for data.

    The operations are those of the two towers, forward and backward, on a step's images and texts: what gradient
    caching does twice counts once, and the losses' own products are left out.
    """

    def __init__(self, clip: nn.Module, frozen: frozenset[str], dtype: torch.dtype) -> None:
        self._clip, self._frozen = clip, frozen
        self.rate = matrix_rate(clip.logit_scale.device, dtype)
        self._a_sample: dict[tuple[int, int, Views], float] = {}
        self._done, self._waited, self._started = 0.0, 0.0, time.perf_counter()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent inside is waiting for data."""
        started = time.perf_counter()
        yield
        self._waited += time.perf_counter() - started

    def add(self, batch: Batch, views: Views) -> None:
        """A step on this batch was done. Its gradients are gone by now: counting makes others."""
        kind = _kind(views)
        if kind not in self._a_sample:
            before = time.perf_counter()
            self._a_sample[kind] = flops(self._clip, batch, views, self._frozen) / min(SAMPLES, len(batch))
            self._started += time.perf_counter() - before
        self._done += self._a_sample[kind] * len(batch)

    def shares(self) -> dict[str, float]:
        """Of the matrix rate, and of the time."""
        elapsed = time.perf_counter() - self._started
        used, waited = self._done / elapsed / self.rate, self._waited / elapsed
        return {"matrix_share": round(used, 4), "data_wait": round(waited, 4)}


def _kind(views: Views) -> tuple[int, int, Views]:
    """What decides a step's work: how many rules there are, not which; a method may make its rules in every step."""
    bare = replace(views, negatives=(), positives=(), bag_rule=None)
    return len(views.negatives), len(views.positives), bare


@lean.eager()
def flops(clip: nn.Module, batch: Batch, views: Views, frozen: frozenset[str]) -> int:
    """Operations of the towers, forward and backward, on a batch's first two images and their texts.

    Their gradients are dropped. Attention is counted as its plain products.
    """
    first = batch.rows(0, SAMPLES).to(clip.logit_scale.device)
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        made = encode.features(clip, first, views, frozen)
        ends = [e for name, _ in sloped() if (e := getattr(made, name)) is not None and e.requires_grad]
        if ends:
            torch.autograd.backward([e.sum() for e in ends])
    clip.zero_grad(set_to_none=True)
    return counter.get_total_flops()
