"""Caption a shard's pictures with replicas of one model, one per device: read ahead, in full batches, in order.

One process drives all devices with a thread each; the content of a batch does not depend on their number.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from PIL import Image

from compclip.base.errors import UserError, one_line
from compclip.config.validation import RequiredText
from compclip.data import images
from compclip.data.sample import Sample
from compclip.llm.answer_cache import Answer
from compclip.model.inference_towers import ReplicaPool
from compclip.runs import gpus

READERS = 4  # threads that read pictures; decoding runs outside of Python's lock
DescribePictures = Callable[[list[Image.Image]], list[Answer]]  # a replica: a caption for each picture of a batch
LoadedSample = tuple[Sample, Image.Image]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelConfig:
    """Of a captioner that runs a model itself."""

    model: RequiredText = ""
    device: str = "auto"  # every GPU there is, or names as cuda:0,cuda:1; each has the whole model


def parse_devices(option: str) -> list[str]:
    """Return the devices of an option: `auto`, or names with commas between them.

    `auto` is every GPU that this process sees, or the CPU. Raises UserError for a device that does not compute here,
    and for `auto` where a GPU is asked for and none is seen.
    """
    if option == "auto":
        gpus.require_requested()
        return gpus.list_devices("cuda") or ["cpu"]
    names = [name.strip() for name in option.split(",")]
    for name in names:
        try:
            torch.zeros(1, device=name).item()
        except (RuntimeError, AssertionError, ImportError) as error:  # torch has no one error for it
            reason = one_line(str(error)).partition(". ")[0][:160]
            raise UserError(
                f"options.device={option}: {name!r}: {reason}; give cpu, cuda:0 or cuda:0,cuda:1"
            ) from error
    return names


def caption_samples(
    samples: list[Sample], replicas: Sequence[DescribePictures], size: int, model: str
) -> tuple[list[Sample], Counter]:
    """Return the samples with the model's captions instead of theirs, asked for in batches of `size`.

    Dropped and counted: unreadable pictures, empty captions. Counted: captions that were cut short. Raises UserError,
    naming the `model`, for whatever a replica raises.
    """
    free_replicas = ReplicaPool(replicas)

    def describe(batch: list[LoadedSample]) -> tuple[list[LoadedSample], list[Answer]]:
        try:
            with free_replicas.take() as replica:
                return batch, replica([picture for _, picture in batch])
        except Exception as error:  # a tokenizer of another model, more tokens than places, too little memory
            reason = f"cannot caption: {type(error).__name__}: {one_line(str(error))[:300]}"
            reason += f"; lower batch_size={size} or max_new_tokens, or take a whole model's folder"
            reason = str(error) if isinstance(error, UserError) else reason
            raise UserError(f"options.model={model}: {reason}") from error

    counts = Counter[str]()
    captioned = []
    with ThreadPoolExecutor(len(replicas)) as pool, contextlib.closing(_load_batches(samples, size, counts)) as batches:
        for batch, answers in _run_ahead(pool, describe, batches, 2 * len(replicas)):
            for (sample, _), answer in zip(batch, answers, strict=True):
                text = " ".join(answer.text.split())
                counts.update({"empty_captions": not text, "cut_short": answer.cut_short})
                if text:
                    captioned.append(replace(sample, captions=(text,)))
    return captioned, counts


def _load_batches(samples: list[Sample], size: int, counts: Counter) -> Generator[list[LoadedSample], None, None]:
    """Give full batches, but for the last: the next picture replaces an unreadable one."""
    batch: list[LoadedSample] = []
    with ThreadPoolExecutor(READERS) as pool:
        for sample, picture in _run_ahead(pool, _load, samples, 2 * READERS):
            if isinstance(picture, images.ImageError):
                counts[f"{picture.reason}_picture"] += 1
                continue
            batch.append((sample, picture))
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch


def _load(sample: Sample) -> tuple[Sample, Image.Image | images.ImageError]:
    try:
        return sample, images.load_image(sample.picture)
    except images.ImageError as error:
        return sample, error


def _run_ahead(
    pool: Executor, work: Callable[[Task], Result], tasks: Iterable[Task], limit: int
) -> Generator[Result, None, None]:
    """Give the results of tasks in their order, with at most `limit` submitted and not yet given."""
    futures: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            futures.append(pool.submit(work, task))
            if len(futures) == limit:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()
