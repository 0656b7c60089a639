"""A shard's pictures through replicas of one model, a device each: read ahead, in full batches, in their order.

One process drives all devices, with a thread for each; what a batch holds does not depend on how many there are.
"""

from __future__ import annotations

import contextlib
import queue
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import torch
from PIL import Image

from compclip.base.errors import UserError, one_line
from compclip.data import images
from compclip.data.answers import Answer
from compclip.data.sample import Sample

READERS = 4  # threads that read pictures; decoding goes on beside Python
# What a replica makes of a batch: its samples and their pictures, to a caption each.
Describe = Callable[[list[Sample], list[Image.Image]], list[Answer]]
Loaded = tuple[Sample, Image.Image]
Item, Made = TypeVar("Item"), TypeVar("Made")


def devices(option: str) -> list[str]:
    """The devices of an option: `auto`, or names with commas between them.

    `auto` is every GPU that this process sees, or the processor. Raises UserError for what does not compute here.
    """
    if option == "auto":
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]
    named = [name.strip() for name in option.split(",")]
    for name in named:
        try:
            torch.zeros(1, device=name).item()
        except (RuntimeError, AssertionError, ImportError) as error:  # torch has no one error for it
            why = one_line(str(error)).partition(". ")[0][:160]
            raise UserError(f"options.device={option}: {name!r}: {why}; give cpu, cuda:0 or cuda:0,cuda:1") from error
    return named


def caption(samples: list[Sample], replicas: Sequence[Describe], size: int) -> tuple[list[Sample], Counter]:
    """The samples with the model's caption instead of theirs, asked for in batches of `size`.

    Unreadable pictures and empty captions leave the data and are counted; captions without an end are counted.
    """
    counts: Counter = Counter()
    made = []
    for batch, said in _described(_batches(samples, size, counts), replicas):
        for (sample, _), answer in zip(batch, said, strict=True):
            text = one_line(answer.text)
            counts.update({"empty_captions": not text, "cut_short": answer.cut_short})
            made += [replace(sample, captions=(text,))] if text else []
    return made, counts


def _described(
    batches: Iterator[list[Loaded]], replicas: Sequence[Describe]
) -> Iterator[tuple[list[Loaded], list[Answer]]]:
    """Each batch by whichever replica is free, one more than these are busy with waiting for each."""
    free: queue.SimpleQueue[Describe] = queue.SimpleQueue()
    for one in replicas:
        free.put(one)

    def work(batch: list[Loaded]) -> tuple[list[Loaded], list[Answer]]:
        one = free.get()
        try:
            return batch, one([sample for sample, _ in batch], [picture for _, picture in batch])
        finally:
            free.put(one)

    with ThreadPoolExecutor(len(replicas)) as pool, contextlib.closing(batches):
        yield from _ahead(pool, work, batches, 2 * len(replicas))


def _batches(samples: list[Sample], size: int, counts: Counter) -> Iterator[list[Loaded]]:
    """Full ones, but for the last: the next picture takes an unreadable one's place."""
    batch: list[Loaded] = []
    with ThreadPoolExecutor(READERS) as pool:
        for sample, picture in _ahead(pool, _read, samples, 2 * READERS):
            if isinstance(picture, images.ImageError):
                counts[f"{picture.reason}_picture"] += 1
                continue
            batch.append((sample, picture))
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch


def _read(sample: Sample) -> tuple[Sample, Any]:
    try:
        return sample, images.load(sample.picture)
    except images.ImageError as error:
        return sample, error


def _ahead(pool: Executor, work: Callable[[Item], Made], items: Iterable[Item], most: int) -> Iterator[Made]:
    """What `work` makes of the items, in their order, with at most so many begun and not yet given."""
    begun: deque[Future[Made]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) == most:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
