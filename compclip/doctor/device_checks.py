"""All checks of a device, in their order, and the file that tells of them.

Here are also how fast this machine reads a shard, decodes and scales photographs, and copies pictures to its GPU. These
rates never fail: they are to be compared with what a grid needs. At 3,000 samples a second photographs are about 0.5
GB/s, and their pictures of 224² as uint8 the same.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from compclip.base.files import write_json
from compclip.data.images import load_image
from compclip.doctor import drawn_samples, full_step, gradient_accuracy
from compclip.doctor.check_rows import (
    HEADS,
    MEASURED,
    SKIPPED,
    CheckRow,
    anonymise,
    catch_errors,
)
from compclip.doctor.full_step import StepJob
from compclip.runs import gpus
from compclip.train import job
from compclip.train.picture_views import resize_by_pillow, resize_by_torch

METHODS = ("finetune", "fsc_clip")  # a loss of whole pictures, and one of patches; tests/doctor checks all of them
MODEL = "ViT-B-32"  # whose step is timed
BATCHES = {"cuda": 256, "cpu": 8}  # of its step


def run_checks(device: str) -> Iterator[CheckRow]:
    """Yield the rows of all checks; one that fails by an error leaves the others alone."""
    precision = "float32" if device == "cpu" else "bf16"
    step = StepJob("finetune", MODEL, BATCHES[device], precision, torch.get_num_threads())
    small = drawn_samples.SMALL
    checks: dict[str, Callable[[], Iterable[CheckRow]]] = {
        "reading": functools.partial(check_reading, Path()),
        "decoding": check_decoding,
        "copying to the device": functools.partial(check_copying, device),
        "gradients": functools.partial(gradient_accuracy.check_gradients, METHODS, device, small),
        "processes": functools.partial(gradient_accuracy.check_processes, METHODS, device, small),
        "step": functools.partial(full_step.check_step, step, device),
    }
    for name, check in checks.items():
        yield from catch_errors(name, check)


def describe_machine(device: str) -> dict[str, Any]:
    """Return versions, driver and cards: nothing of the user."""
    facts = job.describe_environment(device)
    cards = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    facts |= {
        "system": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cudnn": torch.backends.cudnn.version(),
        "architectures": torch.cuda.get_arch_list(),
        "visible": os.environ.get(gpus.VISIBLE),
        "cards": [
            {"name": c.name, "memory_gib": round(c.total_memory / 2**30, 1), "capability": f"{c.major}.{c.minor}"}
            for c in cards
        ],
    }
    return _map_texts(facts)


def _map_texts(value: Any) -> Any:
    if isinstance(value, str):
        return anonymise(value)
    if isinstance(value, dict):
        return {key: _map_texts(entry) for key, entry in value.items()}
    return [_map_texts(entry) for entry in value] if isinstance(value, list) else value


def name_report() -> Path:
    """Return the name of today's file about this machine."""
    host = re.sub(r"[^\w.-]", "_", anonymise(socket.gethostname()))
    return Path(f"compclip-doctor-{host}-{time.strftime('%Y-%m-%d')}.json")


def write_report(path: Path, device: str, rows: Sequence[CheckRow], seconds: float) -> None:
    """Write what was found, and on which machine."""
    write_json(path, {
        "device": device,
        "seconds": round(seconds),
        "environment": describe_machine(device),
        "checks": [dict(zip(HEADS, map(anonymise, row.cells()), strict=True)) for row in rows],
    })  # fmt: skip


READ_BYTES = 256 << 20
BLOCK = 8 << 20
PHOTOGRAPHS = 8
SIDE = 224
DECODE_S = 2.0
COPY_BYTES = 64 << 20
COPIES = 10


def check_reading(folder: Path, size: int = READ_BYTES) -> Iterator[CheckRow]:
    """Yield the rate at which a file in `folder` is read that is not in memory; it is written first, and removed."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        block = os.urandom(min(size, BLOCK))
        for _ in range(size // len(block)):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        with open(file.name, "rb", buffering=0) as reader:
            while reader.read(BLOCK):
                pass
        seconds = time.perf_counter() - started
    yield CheckRow("reading", f"{size / seconds / 1e9:.2f} GB/s, here", MEASURED)


def check_decoding(seconds: float = DECODE_S) -> Iterator[CheckRow]:
    """Yield the milliseconds that a core takes to read, decode and scale a photograph, in each `train.resize`."""
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
        paths = [Path(folder) / f"{number}.jpg" for number in range(PHOTOGRAPHS)]
        for number, path in enumerate(paths):
            path.write_bytes(drawn_samples.encode_photograph(number))
        mean_kib = sum(path.stat().st_size for path in paths) / PHOTOGRAPHS / 1024
        pictures: list[Image.Image] = []
        decoding = _time_each(lambda path: pictures.append(load_image(path)), paths, seconds / 2)
        del pictures[PHOTOGRAPHS:]
        by_pillow = _time_each(lambda picture: resize_by_pillow(picture, (SIDE, SIDE)), pictures, seconds / 4)
        by_torch = _time_each(lambda picture: resize_by_torch(picture, (SIDE, SIDE)), pictures, seconds / 4)
    size = "{}x{}".format(*drawn_samples.PHOTOGRAPH)
    yield CheckRow("decoding", f"{decoding * 1e3:.2f} ms of a core, JPEG {size} of {mean_kib:.0f} KiB", MEASURED)
    yield CheckRow("scaling", f"{by_pillow * 1e3:.2f} ms by pil, {by_torch * 1e3:.2f} ms by torch", MEASURED)


def _time_each(work: Callable[[Any], object], items: Sequence[Any], seconds: float) -> float:
    """Return the CPU seconds that `work` takes for an item, by all items again and again for so long."""
    started = time.process_time()
    count = 0
    while not count or time.process_time() - started < seconds:
        for item in items:
            work(item)
        count += len(items)
    return (time.process_time() - started) / count


def check_copying(device: str) -> Iterator[CheckRow]:
    """Yield the rate of copies from pinned memory to a GPU."""
    if device == "cpu":
        yield CheckRow("copying to the device", state=SKIPPED, reason="a CPU has its pictures already")
        return
    host = torch.empty(COPY_BYTES, dtype=torch.uint8).pin_memory()
    target = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    target.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(COPIES):
        target.copy_(host, non_blocking=True)
    torch.cuda.synchronize()
    rate = COPIES * COPY_BYTES / (time.perf_counter() - started) / 1e9
    yield CheckRow("copying to the device", f"{rate:.1f} GB/s from pinned memory", MEASURED)
