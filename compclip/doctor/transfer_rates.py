"""How fast this machine reads a shard, decodes and scales photographs, and copies pictures to its GPU.

Nothing here fails but by an error: the numbers are to be compared with what a grid needs. At 3,000 samples a second
photographs are about 0.5 GB/s, and their pictures of 224² as uint8 the same.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.doctor import drawn_samples
from compclip.doctor.check_rows import MEASURED, SKIPPED, CheckRow

READ_BYTES, BLOCK = 256 << 20, 8 << 20
PHOTOGRAPHS, SIDE = 8, 224
DECODE_S, COPY_BYTES, COPIES = 2.0, 64 << 20, 10


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
    from PIL import Image

    from compclip.data.images import load_image
    from compclip.train.picture_views import resize_by_pillow, resize_by_torch

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
    started, count = time.process_time(), 0
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
    import torch

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
